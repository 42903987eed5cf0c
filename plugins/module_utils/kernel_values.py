# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of the running kernel by name: where each lies, what it holds, what has to change. Reads, writes nothing.

A name with a dot is a sysctl, as ``vm.swappiness``; the others are those of KNOBS.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils import facts_host

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.facts_node import Node

KNOBS = ("transparent_hugepage", "cpu_governor", "nfs_read_ahead_kb")
HUGEPAGE = "/sys/kernel/mm/transparent_hugepage/enabled"
CPUS = "/sys/devices/system/cpu"
NFS = ("nfs", "nfs4")


@dataclass(frozen=True)
class Step:
    """One file of the kernel that is to hold another value."""

    name: str
    path: str
    before: str
    after: str


def paths(name: str, node: Node) -> list[str]:
    """Return the files that hold a value: none where this kernel or this hardware does not have it."""
    if "." in name:
        path = f"/proc/sys/{name.replace('.', '/')}"
        return [path] if node.exists(path) else []
    if name == "transparent_hugepage":
        return [HUGEPAGE] if node.exists(HUGEPAGE) else []
    if name == "cpu_governor":
        governors = (f"{CPUS}/{cpu}/cpufreq/scaling_governor" for cpu in node.names(CPUS) if re.match(r"cpu\d", cpu))
        return [path for path in governors if node.exists(path)]
    mounted = facts_host.mounts(node.text("/proc/self/mountinfo"))
    devices = sorted({entry["device"] for entry in mounted if entry["type"] in NFS})
    read_ahead = (f"/sys/class/bdi/{device}/read_ahead_kb" for device in devices)
    return [path for path in read_ahead if node.exists(path)]


def value(text: str) -> str:
    """Return what a file of the kernel holds: the chosen word of ``always [madvise] never``, white space made one."""
    chosen = re.search(r"\[(\S+)\]", text)
    return chosen.group(1) if chosen else " ".join(text.split())


def read(name: str, node: Node) -> dict[str, str]:
    """Return what each file of a value holds."""
    return {path: value(node.text(path)) for path in paths(name, node)}


def plan(
    wanted: dict[str, str], readings: dict[str, dict[str, str]], remembered: dict[str, dict[str, str]]
) -> list[Step]:
    """Return what has to change so that the wanted values hold, and those no longer wanted are as they were.

    readings has what the files of every wanted and remembered value hold; remembered what they held before gpulab.
    """
    steps = []
    for name, files in readings.items():
        for path, before in files.items():
            after = wanted[name] if name in wanted else remembered[name].get(path, before)
            if value(after) != before:
                steps.append(Step(name, path, before, value(after)))
    return steps
