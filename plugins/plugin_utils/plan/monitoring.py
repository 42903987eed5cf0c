# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a node is watched, by what, and the one address on which it answers Prometheus."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.services import Monitoring
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan import model
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case

LOOPBACK = "127.0.0.1"
DCGM_EXPORTER = "datacenter-gpu-manager-exporter"  # its dependency is DCGM itself
OWNERS = ("--web.listen-address", "--web.systemd-socket", "--collector.textfile.directory")


def plan(case: Case, driver: model.Driver) -> model.Monitoring:
    """Return {address, dcgm_packages, because}; without an address node exporter is not gpulab's affair.

    Raises Refusal where an address is requested that the node does not have, or its owner chose one himself, and
    where DCGM does not fit.
    """
    if case.wishes["monitoring_state"] != "present":
        unwatched = "Monitoring is not requested (monitoring_state)."
        return {"address": None, "dcgm_packages": [], "because": [unwatched]}
    if case.platform["family"] != "debian":
        raise refuse("P042", what="monitoring", system=case.platform["name"])
    dcgm = case.wishes["monitoring_gpus"] == "dcgm"
    if dcgm:
        _check_dcgm(case, driver)
    facts = case.facts["monitoring"]
    own = [word for word in facts["exporter"]["arguments"] if word.partition("=")[0] in OWNERS]
    if own:
        raise refuse("P070", settings=" ".join(own))
    address, because = _address(case.wishes["monitoring_listen_address"], facts)
    return {
        "address": address,
        "dcgm_packages": [DCGM_EXPORTER] if dcgm else [],
        "because": [f"Metrics are served on {address}: {because}"],
    }


def _check_dcgm(case: Case, driver: model.Driver) -> None:
    """Refuse DCGM's exporter where DCGM does not read a board in full, cannot be had, or is somebody else's."""
    other = [gpu.name for gpu in case.gpus if not gpu.data_center]
    if other:
        raise refuse("P072", reason=f"{', '.join(other)} is not a data-centre board")
    if driver["source"] != "nvidia":
        raise refuse(
            "P072", reason=f"the driver's source is {driver['source']}, but DCGM comes from NVIDIA's repository"
        )
    found = case.facts["monitoring"]["dcgm_exporter"]
    if found["installed"] and found["listen"] is None:
        raise refuse("P072", reason="the node already has a DCGM exporter that gpulab did not set up")


def _address(requested: str | None, facts: Monitoring) -> tuple[str, str]:
    if requested:
        try:
            parsed = ipaddress.ip_address(requested)
        except ValueError:
            parsed = None
        if parsed is None or not (parsed.is_unspecified or str(parsed) in facts["addresses"]):
            raise refuse("P071", address=requested, known=", ".join(facts["addresses"]))
        return requested, "set by monitoring_listen_address."
    routed = facts["routed_address"]
    if routed is None:
        return LOOPBACK, "no address has the default route; set monitoring_listen_address to choose another."
    if ipaddress.ip_address(routed).is_global:
        return (
            LOOPBACK,
            f"the address of the default route, {routed}, is public; set monitoring_listen_address to choose another.",
        )
    return routed, "the address of the default route, which is not public."
