# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node is made of, and whether the nodes of one acceptance are made alike. No I/O happens here.

A node with seven of eight GPUs would only show as a slow group; it is told before anything is measured.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

MAJORITY = 3  # nodes that have to agree before another one is called different
NO_GPU = "no GPU"
MOST = 200  # signs of what a node says of itself


def boards(facts: Mapping[str, Any]) -> str:
    """Return the kinds of boards that a node has; its number of them is compared apart."""
    names = {_text(gpu.get("name")) for gpu in facts["nvml"]["gpus"]}
    names |= {gpu["device"] for gpu in facts["pci"]["gpus"]} if not names else set()
    return ", ".join(sorted(names)) or NO_GPU


def telling(nodes: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the facts of the nodes whose driver tells of their boards; of all where none does.

    One whose driver does not answer is no node of another kind: it differs from the others, and has failed by that.
    """
    answering = {name: facts for name, facts in nodes.items() if facts["nvml"]["gpus"] or not facts["pci"]["gpus"]}
    return answering or dict(nodes)


def compared(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return what has to be equal on all nodes, in words."""
    gpus, interfaces = facts["nvml"]["gpus"], facts["network"]
    links = [gpu.get("pcie") for gpu in gpus]
    ways = [one for one in interfaces if one.get("default_route") or one.get("kind") == "infiniband"]
    ports = [port for port in facts["infiniband"] if port.get("state") == "active"]
    return {
        "GPUs": str(len(gpus) or len(facts["pci"]["gpus"])),
        "PCIe width": _each(link.get("max_width") if isinstance(link, dict) else link for link in links),
        "VBIOS": _each(gpu.get("vbios") for gpu in gpus),
        "driver": _text(facts["driver"]["library"]),
        "NCCL": _each(facts["libraries"]["nccl"]),
        "MTU": _each(one.get("mtu") for one in ways),
        "ports": _each(f"{port['link_layer']} {port['rate_gbps']}" for port in ports),
        "kernel": _text(facts["system"]["kernel"]),
    }


def serials(facts: Mapping[str, Any]) -> list[str]:
    """Return what tells the GPUs of a node from all others: serial number, or UUID where a board has none."""
    return [
        next((value for key in ("serial", "uuid") if isinstance(value := gpu.get(key), str)), "unknown")[:MOST]
        for gpu in facts["nvml"]["gpus"]
    ]


def different(nodes: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the nodes that differ from the majority, and by what. Raises Refusal F147 where there is none.

    nodes has what compared() returned of each.
    """
    found: dict[str, list[str]] = {}
    for what in {name: None for each in nodes.values() for name in each}:
        counted = Counter(each[what] for each in nodes.values())
        (value, most), *others = counted.most_common()
        if not others:
            continue
        if most < MAJORITY or most * 2 <= len(nodes):
            detail = "; ".join(f"{name}: {each[what]}" for name, each in nodes.items())
            raise refuse("F147", what=what, detail=detail)
        for name, each in nodes.items():
            if each[what] != value:
                found.setdefault(name, []).append(f"{what} {each[what]}, the others {value}")
    return {name: "; ".join(words) for name, words in found.items()}


def refuse_mixed(nodes: Mapping[str, str]) -> None:
    """Raise Refusal F141 where nodes have different boards: one floor, and one verdict, are for one kind."""
    kinds = {kind: [name for name in nodes if nodes[name] == kind] for kind in nodes.values()}
    if len(kinds) > 1:
        raise refuse("F141", detail="; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items()))


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return what is another one than when the acceptance began, in words."""
    return [f"{what} {value} -> {now.get(what, 'unknown')}" for what, value in before.items() if now.get(what) != value]


def _each(values: Any) -> str:
    """Return different values, each once, with their number where there are several."""
    counted = Counter(map(_text, values))
    return ", ".join(f"{number} x {value}" if number > 1 else value for value, number in sorted(counted.items())) or "-"


def _text(value: Any) -> str:
    """Return a value that a node says of itself; what it does not say is unknown."""
    if isinstance(value, (str, int, float)):
        return re.sub(r"[^\x20-\x7e]", "?", str(value))[:MOST] or "-"
    return "unknown"
