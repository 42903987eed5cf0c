# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a hub can be set up on a node, from what its role saw there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ansible_collections.gpulab.node.plugins.module_utils.slurm import control
from ansible_collections.gpulab.node.plugins.plugin_utils.jupyter import certificate
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

SYSTEMS = ("debian 12", "debian 13")
INSIDE = (8001, 8081)  # ports of the proxy and of the hub that only the node itself reaches
LOCAL = 3  # column of ss with the address that is listened on
MIB = {"M": 1, "G": 1024, "T": 1024 * 1024}


def faults(seen: Mapping[str, Any]) -> Iterator[Refusal]:
    """Yield what keeps a hub from a node, as the role jupyter saw it (its variable __jupyter_seen)."""
    host, system = seen["host"], seen["system"]
    if f"{system['id']} {system['version']}" not in SYSTEMS:
        yield refuse("J011", host=host, system=system["name"])
        return
    url = urlsplit(seen["url"])
    if url.scheme == "https" and url.hostname:
        yield from certificate.faults(host, url.hostname, seen["certificate"], seen["key"])
        yield from _ports(host, url.port or 443, seen["listeners"], seen["uid"])
    else:
        yield refuse("J012", host=host, url=seen["url"] or "it is empty")
    yield from _slurm(host, seen["node"], seen["choices"])
    if not any(re.search(r"/(venv|conda)-[^/]+/kernel\.json$", path) for path in seen["kernels"]):
        yield refuse("J006", host=host)
    others = [line.split()[0] for line in seen["units"].splitlines()]
    if others:
        yield refuse("J008", host=host, units=", ".join(others))
    missing = [name for name in seen["users"] if name not in seen["groups"]]
    if missing or not seen["users"]:
        problem = f"the node has no group {', '.join(missing)}" if missing else "it is empty"
        yield refuse("J009", host=host, problem=problem)


def _ports(host: str, port: int, listeners: str, uid: str) -> Iterator[Refusal]:
    """Yield the ports that others have; listeners is what ss prints, uid the number of the hub's account, or empty."""
    for wanted in (port, *INSIDE):
        for line in listeners.splitlines():
            local, *fields = line.split()[LOCAL:] or [""]
            if local.endswith(f":{wanted}") and not (uid and f"uid:{uid}" in fields):
                found = re.search(r'\(\("([^"]+)",pid=(\d+)', line)
                who = f"{found[1]} (process {found[2]})" if found else "another process"
                yield refuse("J004", host=host, port=wanted, who=who)
                break


def _slurm(host: str, node: str, choices: list[Mapping[str, Any]]) -> Iterator[Refusal]:
    """Yield J007 where Slurm does not know the node, J005 for choices that it cannot give there."""
    shown = dict(field.split("=", 1) for field in node.split() if "=" in field)
    if "RealMemory" not in shown:
        yield refuse("J007", host=host)
        return
    gpus = control.gpus(shown.get("Gres", ""))
    memory = int(shown["RealMemory"]) - int(shown.get("MemSpecLimit", 0))
    problems = []
    for choice in choices:
        wanted = choice.get("memory")
        mib = int(wanted[:-1]) * MIB[wanted[-1]] if wanted else 0
        for what, has, asked in (
            ("GPUs", gpus, choice["gpus"]),
            ("cores", int(shown["CPUTot"]), choice.get("cores") or 1),
            ("MiB of memory", memory, mib),
        ):
            if asked > has:
                problems.append(f"{choice['name']}: {asked} {what}, of {has}")
    if problems or not choices:
        yield refuse("J005", host=host, problems="; ".join(problems) or "there is no choice")
