# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IMEX, through which the GPUs of a rack share memory over NVLink: at exactly the version of the driver."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.system import hosts_file
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import packages
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Driver, Imex

SERVICE = "nvidia-imex"


def plan(case: Case, driver: Driver) -> Imex:
    """Return {needed, packages, version, service, nodes, restart, because}.

    nodes are the addresses of the domain, and restart tells that a daemon at work has to be stopped for other ones.
    Raises Refusal where the domain cannot be as requested.
    """
    boards = ", ".join(gpu.name for gpu in case.gpus if gpu.fabric_manager == "rack")
    requested = list(case.wishes["nvidia_driver_imex_nodes"]) if case.gpus else []  # an image is built without a GPU
    found = case.facts["imex"]
    none: Imex = {
        "needed": False,
        "packages": [],
        "version": None,
        "service": SERVICE,
        "nodes": [],
        "restart": False,
        "because": ["IMEX is removed with the driver."],
    }
    if case.wishes["nvidia_driver_state"] == "absent":
        return none
    services = case.facts["services"] or {}
    active = SERVICE in services and services[SERVICE]["active"] == "active"
    if requested and not boards:
        raise refuse("P096", gpus=", ".join(gpu.name for gpu in case.gpus))
    if not requested:
        if boards and not found["nodes"]:
            case.warnings.append(
                f"{boards}: sharing memory between nodes over NVLink needs {SERVICE}. List the nodes in"
                " nvidia_driver_imex_nodes."
            )
        why = (
            "nvidia_driver_imex_nodes is not set."
            if boards
            else "No GPU of the node is part of a rack's NVLink domain."
        )
        return {**none, "restart": active and found["own"], "because": [why]}
    _check(case, requested)
    names = packages.beside_driver(case, driver, "imex")
    if not names:
        other = packages.beside_driver(case, {**driver, "source": "nvidia"}, "imex")
        way = "; or set nvidia_driver_source: nvidia, which has one" if other else ""
        raise refuse("P060", boards=boards, source=driver["source"], system=case.platform["name"], way=way)
    return {
        "needed": True,
        "packages": names,
        "version": driver["version"],
        "service": SERVICE,
        "nodes": requested,
        "restart": active and found["nodes"] != requested,
        "because": [f"{boards}: {len(requested)} nodes share memory over NVLink through {SERVICE}."],
    }


def _check(case: Case, requested: list[str]) -> None:
    for address in requested:
        if not hosts_file.is_address(address) or hosts_file.is_loopback(address):
            raise refuse("P057", address=address)
    own = {ip_address(address) for address in case.facts["monitoring"]["addresses"]}
    if own.isdisjoint(map(ip_address, requested)):
        raise refuse(
            "P058", nodes=", ".join(requested), own=", ".join(sorted(str(one) for one in own if not one.is_loopback))
        )
    found = case.facts["imex"]
    if found["nodes"] not in ([], requested) and not found["own"]:
        raise refuse("P059", nodes=", ".join(found["nodes"]))
