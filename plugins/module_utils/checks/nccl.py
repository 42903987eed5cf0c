# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check what the node tells every NCCL program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.checks.infiniband import fabric_name, fabric_ports, has_peers
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import check, fail, inapplicable, ok, warn
from ansible_collections.gpulab.node.plugins.module_utils.facts import nccl

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts, Node, Result

NCCL_GUIDE = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
LOOPBACK = "lo"  # which NCCL takes where it is told to
# What comes of a file that is not there: src/graph and src/misc of NCCL
FILES = {
    nccl.TOPOLOGY: "NCCL looks for the paths between the GPUs itself",
    nccl.GRAPH: "NCCL does not start",
    "NCCL_NET_PLUGIN": "NCCL uses its own network",
    "NCCL_TUNER_PLUGIN": "NCCL tunes itself",
    "NCCL_PROFILER_PLUGIN": "NCCL records nothing",
}
NETWORK = "NCCL_NET"
SOCKETS, ADAPTERS = ("NCCL_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME"), ("NCCL_IB_HCA",)


@check("nccl-interfaces", proves="the interfaces and adapters in NCCL's settings exist on this node", source=NCCL_GUIDE)
def nccl_interfaces(node: Node) -> Iterator[Result]:
    """Match each pattern with the names that are there, of which one must be up; what is excluded need not be."""
    interfaces = {interface["name"]: interface for interface in node.facts["network"]}
    chosen = [setting for setting in node.facts["nccl"] if setting["name"] in SOCKETS + ADAPTERS]
    peers = has_peers(node)
    found = False
    for setting in chosen:
        name, value, adapters = setting["name"], setting["value"], setting["name"] in ADAPTERS
        present = [port["device"] for port in node.facts["infiniband"]] if adapters else [LOOPBACK, *interfaces]
        vain = unmatched(value, present)
        seen = {"observed": f"{name}={value}", "expected": ", ".join(sorted(set(present))), "reason": _place(setting)}
        if vain and not adapters and len(vain) == len(nccl.patterns(value)):
            found = True
            yield fail(f"{name}={value} matches no interface of this node, so NCCL does not start", "configure", **seen)
        elif not adapters and (gone := _gone(value, interfaces)):
            found = True
            told = f"{', '.join(gone)}, which is down and has no address, so NCCL does not start"
            yield warn(f"{name} names {told}", "check_network", **seen)
        elif peers and not adapters and leaves_loopback(value):
            found = True
            told = f"{name}={value} does not exclude {LOOPBACK}: NCCL may choose it and reach no other node"
            yield warn(told, "configure", **{**seen, "expected": f"{value},{LOOPBACK}, or remove the line"})
        elif vain and adapters:
            found = True
            yield warn(f"{name} names adapters that do not exist: {', '.join(vain)}", "configure", **seen)
    if not chosen:
        yield inapplicable("no setting names an interface")
    elif not found:
        yield ok("all interfaces and adapters in the settings exist", len(chosen))


def _place(setting: Facts) -> str:
    """Return the file of a setting, and what NCCL reads there in another way than a shell."""
    file: str = setting["file"]
    literal = file == nccl.CONF and set("\"'#") & set(setting["value"])
    return f"{file}, where NCCL reads quotes and comments as part of the value" if literal else file


def leaves_loopback(value: str) -> bool:
    """Tell whether a list that excludes interfaces does not exclude the loopback. Without a list, NCCL excludes it."""
    excluded = value[1:]
    return value.startswith("^") and not any(
        nccl.matching(excluded, name, [LOOPBACK]) for name in nccl.patterns(excluded)
    )


def unmatched(value: str, present: list[str]) -> list[str]:
    """Return the patterns of NCCL's list that match no name.

    They are prefixes, after = whole names; after ^ they are excluded and need not be there.
    """
    if value.startswith("^"):
        return []
    return [pattern for pattern in nccl.patterns(value) if not nccl.matching(value, pattern, present)]


def _gone(value: str, interfaces: dict[str, Facts]) -> list[str]:
    """Return the interfaces that are named, where none of them is up or has an address."""
    if value.startswith("^"):
        return []
    patterns = nccl.patterns(value)
    named = {name for pattern in patterns for name in nccl.matching(value, pattern, [LOOPBACK, *interfaces])}
    gone = sorted(name for name in named & {*interfaces} if _is_gone(interfaces[name]))
    return gone if len(gone) == len(named) else []


def _is_gone(interface: Facts) -> bool:
    return not interface.get("up", True) and not interface.get("ipv4")


@check(
    "nccl-files",
    proves="the files that NCCL's settings name are there and describe this machine",
    source=NCCL_GUIDE,
)
def nccl_files(node: Node) -> Iterator[Result]:
    """Find the settings that came with an image from another machine."""
    named = [one for one in node.facts["nccl"] if one["name"] in FILES and _names_a_file(one)]
    there = node.facts.get("nccl_files")
    found = False
    for setting in named:
        name, value = setting["name"], setting["value"]
        file = there.data.get(value) if there else None
        found_by = fail if name == nccl.GRAPH else warn  # only then does NCCL not start
        seen = {"observed": f"{name}={value}", "reason": _place(setting)}
        if file is None:
            found = True
            told = f"{name} names {value or 'no file'}{', which does not exist' if value else ''}: {FILES[name]}"
            yield found_by(told, "set_by_hand", expected="a file, or no such line", **seen)
        elif other := _of_another_machine(node, name, file):
            found = True
            told = f"{name} names {value}, which describes another machine: {other}"
            yield found_by(told, "set_by_hand", expected="a file of this machine, or no such line", **seen)
    if not named:
        yield inapplicable("no setting of NCCL names a file")
    elif not found:
        yield ok("the files in the settings are there and describe this machine", len(named))


def _names_a_file(setting: Facts) -> bool:
    """Tell whether a setting names a file: a plugin may also be named without its path."""
    value: str = setting["value"]
    return setting["name"] in (nccl.TOPOLOGY, nccl.GRAPH) or (value.startswith("/") and "," not in value)


def _of_another_machine(node: Node, name: str, file: dict[str, list[Any]]) -> str | None:
    """Return in which GPUs a topology or a graph differs from this machine."""
    present = {gpu["address"].lower() for gpu in node.pci_gpus}
    described, devices = set(file["gpus"]), file["devices"]
    if name == nccl.TOPOLOGY and described and described != present:
        without = [*sorted(present - described)[:2], *sorted(described - present)[:2]]
        return f"its {len(described)} GPUs and the {len(present)} of this node differ, as {' and '.join(without)} do"
    if name == nccl.GRAPH and devices and max(devices) >= len(present):
        return f"it has GPU {max(devices)}, and this node has {len(present)}"
    return None


@check("nccl-transports", proves="no setting keeps NCCL from using this node's paths between GPUs", source=NCCL_GUIDE)
def nccl_transports(node: Node) -> Iterator[Result]:
    """Find what was left behind after a search for errors."""
    fabric = fabric_ports(node)
    peers = [pair for pair in node.facts.get("nvml.peers", []) if "ok" in (pair.get("read"), pair.get("nvlink"))]
    has = {
        "NCCL_P2P_DISABLE": ("peer access between GPUs", bool(peers)),
        "NCCL_SHM_DISABLE": ("shared memory", len(node.gpus) > 1),
        **dict.fromkeys(("NCCL_IB_DISABLE", NETWORK), (fabric_name(fabric), bool(fabric))),
    }
    found = False
    for setting in node.facts["nccl"]:
        way, there = has.get(setting["name"], ("", False))
        value = setting["value"].lower()
        if there and (value == "socket" if setting["name"] == NETWORK else value not in ("", "0")):
            found = True
            yield warn(
                f"{setting['name']} keeps NCCL from {way}",
                "configure",
                observed=setting["value"],
                expected="unset",
                reason=setting["file"],
            )
    if not found:
        yield ok("NCCL may use all paths between the GPUs")
