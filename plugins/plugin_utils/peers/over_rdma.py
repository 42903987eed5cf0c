# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes of a play send each other RDMA, in which pairs, over which ports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.checks.infiniband import NO_FABRIC, ROCE, fabric_ports
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts, Node
from ansible_collections.gpulab.node.plugins.module_utils.checks.roce import INDEX, fits
from ansible_collections.gpulab.node.plugins.module_utils.system.hosts_file import is_address
from ansible_collections.gpulab.node.plugins.plugin_utils.peers.across_nodes import ALONE, ENOUGH, interface

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.peers.across_nodes import KnownHost

UNTESTED = "it was not tested in this run"
IN_USE = "its GPUs are in use, and the traffic would slow that work down"


class RailPart(TypedDict):
    """A port, and the index of its address; None where the fabric needs none."""

    device: str
    port: int
    gid: int | None


class RoundPart(TypedDict):
    """With whom a node is, at which address; whether that one comes to it; how many rails both have."""

    peer: str
    address: str
    host: bool
    rails: int


class RdmaPart(TypedDict):
    """What a node is told."""

    nodes: list[str]
    address: str
    own_address: str
    rails: list[RailPart]
    rounds: list[RoundPart | None]


def arrange(hosts: dict[str, KnownHost]) -> tuple[dict[str, RdmaPart], dict[str, str]]:
    """Return each node's part from all hosts' ansible_facts, and why the others have none.

    The nodes are a chain, in the play's order: each is a pair with the next, every second pair in a first round, the
    others in a second one, so that no node is in two pairs at once, and every node has a partner.
    """
    reasons = {name: why for name, known in hosts.items() if (why := _why_not(known))}
    nodes = [name for name in hosts if name not in reasons]
    if len(nodes) < ENOUGH:
        return {}, {**dict.fromkeys(nodes, ALONE), **reasons}
    addresses = {name: str(_address(hosts[name])) for name in nodes}
    rails = {name: _rails(hosts[name]) for name in nodes}
    parts: dict[str, RdmaPart] = {
        name: {
            "nodes": nodes,
            "address": addresses[nodes[0]],
            "own_address": addresses[name],
            "rails": rails[name],
            "rounds": [],
        }
        for name in nodes
    }
    for begin in (0, 1) if len(nodes) > ENOUGH else (0,):
        for part in parts.values():
            part["rounds"].append(None)
        for first, second in zip(nodes[begin::2], nodes[begin + 1 :: 2]):
            common = min(len(rails[first]), len(rails[second]))
            for own, other in ((first, second), (second, first)):
                told: RoundPart = {"peer": other, "address": addresses[other], "host": own == first, "rails": common}
                parts[own]["rounds"][-1] = told
    return parts, reasons


def _why_not(known: KnownHost) -> str | None:
    facts: Any = known.get("gpulab")
    if not facts or not known.get("gpulab_measurements"):
        return UNTESTED
    if not fabric_ports(Node(Facts(facts))):
        return NO_FABRIC
    if facts["users_of_gpus"]["state"] != "idle":
        return IN_USE
    if not is_address(_address(known)):
        return "the interface to the other nodes is unknown, or has no IPv4 address (nccl_interface)"
    return None if _rails(known) else "no port has an address of RoCE v2"


def _address(known: KnownHost) -> str | None:
    found = interface(known)
    return found["ipv4"] if found else None


def _rails(known: KnownHost) -> list[RailPart]:
    """Return the ports in order of their names, each with the address that NCCL takes there."""
    facts: Any = known["gpulab"]
    told = [one["value"] for one in facts["nccl"] if one["name"] == INDEX and one["value"].isdigit()]
    found: list[RailPart] = []
    for port in fabric_ports(Node(Facts(facts))):
        gid = next((one["index"] for one in port.get("gids", []) if fits(one)), None)
        roce = port.get("link_layer") == ROCE
        if roce and told:
            gid = int(told[0])
        if gid is not None or not roce:
            found.append({"device": port["device"], "port": port["port"], "gid": gid if roce else None})
    return found
