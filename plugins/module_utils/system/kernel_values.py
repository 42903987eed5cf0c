# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of the running kernel by name: where each lies, what it holds, what has to change. Reads, writes nothing.

A name with a dot is a sysctl, as ``vm.swappiness``; the others are those of KNOBS. A slash in the name of a sysctl
stands for a dot, as in the interface eth0/100, and a * for any one part, as systemd-sysctl reads them.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import filter as matching
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import mount_table

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.services import KernelValue, LaterSetting

KNOBS = ("transparent_hugepage", "cpu_governor", "nfs_read_ahead_kb")
# What a sysctl is called: parts with dots between them, never a path. It is a part of other patterns.
SYSCTL = r"[a-z0-9_]+(?:\.[A-Za-z0-9_*:@-]+(?:/[A-Za-z0-9_*:@-]+)*)+"
_PATH = str.maketrans("./", "/.")
_MAY_WRITE = 0o222
HUGEPAGE = "/sys/kernel/mm/transparent_hugepage/enabled"
CPUS = "/sys/devices/system/cpu"
NFS = ("nfs", "nfs4")
# Where systemd-sysctl reads: of files of one name, that of the first directory counts; names decide about the order.
SYSCTL_DIRECTORIES = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d")


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
        return _sysctls(name, node) if re.fullmatch(SYSCTL, name) else []
    if name == "transparent_hugepage":
        return [HUGEPAGE] if node.exists(HUGEPAGE) else []
    if name == "cpu_governor":
        governors = (f"{CPUS}/{cpu}/cpufreq/scaling_governor" for cpu in node.names(CPUS) if re.match(r"cpu\d", cpu))
        return [path for path in governors if node.exists(path)]
    mounted = mount_table.mounts(node.text("/proc/self/mountinfo"))
    devices = sorted({mount.device for mount in mounted if mount.type in NFS})
    read_ahead = (f"/sys/class/bdi/{device}/read_ahead_kb" for device in devices)
    return [path for path in read_ahead if node.exists(path)]


def _sysctls(name: str, node: Node) -> list[str]:
    """Return the files of a sysctl, whose parts may hold a *."""
    found = ["/proc/sys"]
    for part in name.translate(_PATH).split("/"):
        found = [
            f"{directory}/{one}"
            for directory in found
            for one in (matching(node.names(directory), part) if "*" in part else [part])
        ]
    return [path for path in found if node.exists(path) and not node.is_dir(path)]


def look(name: str, node: Node) -> KernelValue:
    """Return what the kernel says of a value that is asked for.

    words are all that the kernel takes, where it says so; near is the sysctl beside it that was likely meant.
    """
    files = paths(name, node)
    beside = name.rpartition(".")[0]
    near = [] if files else get_close_matches(name, [f"{beside}.{one}" for one in _beside(name, node)], 1)
    return {
        "there": bool(files),
        "writable": all(node.path(path).stat().st_mode & _MAY_WRITE for path in files),
        "value": ", ".join(sorted({value(node.text(path)) for path in files})),
        "words": _words(files[0], node) if files else [],
        "near": next(iter(near), None),
    }


def _beside(name: str, node: Node) -> list[str]:
    parts = name.translate(_PATH).split("/") if re.fullmatch(SYSCTL, name) else []
    return [one.translate(_PATH) for one in node.names(posixpath.join("/proc/sys", *parts[:-1]))] if parts else []


def _words(path: str, node: Node) -> list[str]:
    """Return the words that a file of the kernel takes; nothing where it does not list them."""
    text = node.text(path)
    if re.search(r"\[\S+\]", text):
        return text.replace("[", "").replace("]", "").split()
    return node.text(f"{posixpath.dirname(path)}/scaling_available_governors").split() if CPUS in path else []


def value(text: str) -> str:
    """Return what a file of the kernel holds: the chosen word of ``always [madvise] never``, white space made one."""
    chosen = re.search(r"\[(\S+)\]", text)
    return chosen.group(1) if chosen else " ".join(text.split())


def read(name: str, node: Node) -> dict[str, str]:
    """Return what each file of a value holds."""
    return {path: value(node.text(path)) for path in paths(name, node)}


def later(node: Node, ours: str) -> dict[str, LaterSetting]:
    """Return what files that systemd-sysctl reads after ours set, by sysctl; the last counts.

    /etc/sysctl.conf is among them where /etc/sysctl.d/99-sysctl.conf leads to it, as in Debian up to 12 and Ubuntu.
    """
    places: dict[str, str] = {}
    for directory in SYSCTL_DIRECTORIES:
        for name in node.names(directory):
            places.setdefault(name, f"{directory}/{name}")
    found: dict[str, LaterSetting] = {}
    for name in sorted(name for name in places if name.endswith(".conf") and name > ours.rpartition("/")[2]):
        text = (node.data(places[name]) or b"").decode("utf-8", "replace")
        for number, line in enumerate(text.splitlines(), 1):
            key, equals, held = line.partition("=")
            sysctl = _sysctl(key)
            if equals and sysctl:
                found[sysctl] = {"value": value(held), "file": node.resolve(places[name]), "line": number}
    return found


def _sysctl(key: str) -> str | None:
    """Return a sysctl's name with dots, of vm/swappiness too; None for a comment and for a pattern of names."""
    name = key.strip().lstrip("-").strip()
    slash, dot = (name.find(separator) % (len(name) + 1) for separator in "/.")
    plain = name.translate(_PATH) if slash < dot else name
    return plain if re.fullmatch(r"\w[\w./-]*", plain) else None


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
