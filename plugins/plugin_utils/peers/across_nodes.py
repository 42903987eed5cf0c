# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes of a play run one all_reduce together, where they meet, and by what: NCCL on GPUs, else Gloo."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.active import idle
from ansible_collections.gpulab.node.plugins.module_utils.active.session import works
from ansible_collections.gpulab.node.plugins.module_utils.system.hosts_file import is_address

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.active.shapes import Measurements
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Facts, Interface

NCCL, GLOO = "nccl", "gloo"
ENOUGH = 2  # nodes
IN_USE = "none of its GPUs is idle and passed the CUDA smoke test"
NO_GPU = "it has no GPU of its own, but other nodes do"
NO_PYTORCH = "it has no environment with PyTorch of gpulab's (gpulab_environments), and verify_python is not set"
ALONE = "fewer than two nodes can take part"


class KnownHost(TypedDict, total=False):
    """What is known of a host: its facts, its environments, and what its tests measured."""

    gpulab: Facts
    gpulab_environments: list[dict[str, Any]]
    gpulab_measurements: Measurements


class MeetingPart(TypedDict):
    """What a node is told: where the others meet, and with what it comes there."""

    address: str | None
    interface: str
    own_address: str | None
    python: str | None
    gpus: list[str]
    taking_part: dict[str, list[int]]


@dataclass(frozen=True)
class Meeting:
    """The nodes that take part, in the play's order; what each is told; and why the others do not take part."""

    backend: str
    nodes: tuple[str, ...] = ()
    parts: dict[str, MeetingPart] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)


def arrange(hosts: dict[str, KnownHost]) -> Meeting:
    """Arrange the meeting from each host's ansible_facts. The first node that takes part is where the others come to.

    A simulated GPU computes nothing: its node takes part as one that has none.
    """
    backend = NCCL if any(_real(known) for known in hosts.values()) else GLOO
    reasons = {name: why for name, known in hosts.items() if (why := _why_not(known, backend))}
    nodes = tuple(name for name in hosts if name not in reasons)
    if len(nodes) < ENOUGH:
        return Meeting(backend, reasons={**dict.fromkeys(nodes, ALONE), **reasons})
    ways = {name: way for name in nodes if (way := interface(hosts[name]))}
    address = ways[nodes[0]]["ipv4"]
    taking_part = {name: _share(hosts[name]) for name in nodes} if backend == NCCL else {}
    parts: dict[str, MeetingPart] = {
        name: {
            "address": address,
            "interface": way["name"],
            "own_address": way["ipv4"],
            "python": _python(hosts[name], backend),
            "gpus": _able(hosts[name]) if backend == NCCL else [],
            "taking_part": taking_part,
        }
        for name, way in ways.items()
    }
    return Meeting(backend, nodes, parts, reasons)


def _share(known: KnownHost) -> list[int]:
    """Return how many GPUs of a node take part, and how many it has."""
    return [len(_able(known)), len(known["gpulab_measurements"]["gpus"])]


def _python(known: KnownHost, backend: str) -> str | None:
    """Return the interpreter that the node's tests took; for Gloo, that of any PyTorch of gpulab's own does."""
    measured: str | None = known["gpulab_measurements"].get("python")
    own = [
        environment["python"]
        for environment in known.get("gpulab_environments") or []
        if (environment.get("expected") or {}).get("framework") == "pytorch"
    ]
    return measured or (next(iter(own), None) if backend == GLOO else None)


def _why_not(known: KnownHost, backend: str) -> str | None:
    measured = known.get("gpulab_measurements")
    if not known.get("gpulab") or not measured:
        return "it was not tested in this run"
    if not _python(known, backend):
        return NO_PYTORCH
    if backend == NCCL and not _able(known):
        return IN_USE if _real(known) else NO_GPU
    way = interface(known)
    if not way:
        return "the interface to the other nodes is unknown (nccl_interface)"
    # It is where the other nodes come to.
    return None if is_address(way.get("ipv4")) else f"its interface {way['name']} has no IPv4 address"


def _real(known: KnownHost) -> bool:
    measured = known.get("gpulab_measurements")
    real = bool(measured and measured["gpus"]) and not (measured and measured.get("simulated"))
    return real and not known["gpulab"].get("simulated")


def _able(known: KnownHost) -> list[str]:
    """Return the uuids of the GPUs that compute right, and were idle still when all had been tested."""
    if not _real(known):
        return []
    able = [gpu["uuid"] for gpu in known["gpulab_measurements"]["gpus"] if works(gpu)]
    taken = idle.taken(able, known["gpulab"]["nvml"]["gpus"], known["gpulab"]["users_of_gpus"])
    return [uuid for uuid in able if uuid not in taken]


def interface(known: KnownHost) -> Interface | None:
    """Return the interface that NCCL meets over: the one that a setting on the node names, else the default route's."""
    network = known["gpulab"].get("network") or []
    there = {setting["name"]: setting["value"] for setting in known["gpulab"].get("nccl") or []}
    named = {**there, **(known["gpulab"].get("nccl_own") or {})}.get("NCCL_SOCKET_IFNAME", "")
    exact, wanted = named.startswith("="), named.lstrip("=").split(",")[0]
    if wanted and not wanted.startswith("^"):
        fits = (lambda name: name == wanted) if exact else (lambda name: name.startswith(wanted))
        return next((one for one in network if fits(one["name"])), None)
    return next((one for one in network if one.get("default_route")), None)
