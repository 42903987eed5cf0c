# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filesystems and container engines of a node."""

from __future__ import annotations

import os
import posixpath
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.child import DONE, Child, Emit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.facts_node import Node
    from ansible_collections.gpulab.node.plugins.module_utils.facts_packages import PackagesQuery

ALWAYS = ("/", "/boot", "/var", "/tmp")  # noqa: S108 - a place to measure, nothing is written
KERNELS_OWN = frozenset({
    "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs",
    "fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "ramfs", "rpc_pipefs", "securityfs", "squashfs",
    "sysfs", "tracefs",
})  # fmt: skip
BELOW_NO_DATA = ("/dev", "/proc", "/run", "/sys", "/etc", "/var/lib/docker", "/var/lib/containers", "/snap")
ENGINES = {
    "docker": ["docker", "--version"],
    "podman": ["podman", "--version"],
    "containerd": ["containerd", "--version"],
    "nvidia_container_toolkit": ["nvidia-ctk", "--version"],
}
# Packages that docker.com's conflict with, or share files with: see its installation guides
DOCKER_RIVALS = ("containerd", "docker-cli", "docker-compose-v2", "docker.io", "moby-engine", "podman-docker", "runc")
MIB = 1 << 20
_VERSION = re.compile(r"\bv?(\d+\.\d+(?:\.\d+)?(?:[-~+.][0-9A-Za-z.~+-]*)?)")


def engine_version(text: str) -> str | None:
    """Find the version in what an engine's --version prints."""
    match = _VERSION.search(text)
    return match.group(1) if match else None


class EnginesQuery:
    """The facts ``engines``; each program runs beside the caller's other work."""

    def __init__(self, node: Node, packages_query: PackagesQuery) -> None:
        """Start them all; none of these asks a daemon. The query has asked for DOCKER_RIVALS."""
        self._packages_query = packages_query
        self._jobs = {name: node.start(argv) for name, argv in ENGINES.items()}

    def facts(self) -> dict[str, Any]:
        """Return each engine's version, None where it is absent, and the docker_rivals there are."""
        texts = {name: job.output() or "" for name, job in self._jobs.items()}
        if texts["docker"].startswith("podman"):  # which podman-docker gives Docker's name
            texts["docker"] = ""
        rivals = sorted(one.name for one in self._packages_query.installed if one.name in DOCKER_RIVALS)
        return {**{name: engine_version(text) for name, text in texts.items()}, "docker_rivals": rivals}


def unescaped(field: str) -> str:
    """Return a field of mountinfo or fstab as it was meant: white space stands there in octal, after a backslash."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), field)


def mount_lines(mountinfo: str) -> Iterator[tuple[str, str, str, str, set[str]]]:
    """Parse /proc/self/mountinfo: (place, device as "8:1", type, source, options of mount and file system)."""
    for line in mountinfo.splitlines():
        left, separator, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        if not separator or len(fields) < 6 or len(tail) < 2:  # noqa: PLR2004 - as in proc_pid_mountinfo(5)
            continue
        options = {*fields[5].split(","), *(tail[2].split(",") if len(tail) > 2 else [])}  # noqa: PLR2004
        yield unescaped(fields[4]), fields[2], tail[0], unescaped(tail[1]), options


def mounts(mountinfo: str) -> list[dict[str, Any]]:
    """Parse /proc/self/mountinfo: {mount, type, device ("8:1"), source, read_only}; a later mount hides an earlier."""
    found = {
        place: {"mount": place, "type": kind, "device": device, "source": source, "read_only": "ro" in options}
        for place, device, kind, source, options in mount_lines(mountinfo)
    }
    return list(found.values())


def holding(path: str, table: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Find the mount that a path lies on."""
    above = [entry for entry in table if path == entry["mount"] or path.startswith(entry["mount"].rstrip("/") + "/")]
    return max(above, key=lambda entry: len(entry["mount"]), default=None)


def worth_knowing(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Choose the mounts that hold a system's or a user's data, and where the usual directories lie."""
    chosen = {}
    for entry in table:
        place = entry["mount"]
        hidden = any(place == tree or place.startswith(tree + "/") for tree in BELOW_NO_DATA)
        if entry["type"] not in KERNELS_OWN and not hidden:
            chosen[place] = entry
    for path in ALWAYS:
        below = holding(path, table)
        if below:
            chosen.setdefault(path, {**below, "mount": path})
    return [chosen[place] for place in sorted(chosen)]


def disk(node: Node, device: str) -> dict[str, bool | None]:
    """Say whether a block device turns, and whether it is NVMe; None where there is no such device."""
    block = f"/sys/dev/block/{device}"
    if not node.exists(block):
        return {"rotational": None, "nvme": None}
    whole = node.resolve(block)
    if not node.is_dir(f"{whole}/queue"):  # a partition: the disk is above it
        whole = posixpath.dirname(whole)
    turns = node.text(f"{whole}/queue/rotational")
    return {"rotational": turns == "1" if turns else None, "nvme": posixpath.basename(whole).startswith("nvme")}


class FilesystemsQuery:
    """The facts ``filesystems``; each is measured in a child, for a dead network mount answers nobody."""

    def __init__(self, node: Node, seconds: float) -> None:
        """Start measuring."""
        self._node = node
        self._mounts = worth_knowing(mounts(node.text("/proc/self/mountinfo")))
        self._children = [Child(partial(_measure, node.path(entry["mount"])), seconds) for entry in self._mounts]

    def facts(self) -> list[dict[str, Any]]:
        """Return one record per mount; sizes are None where it did not answer (``responsive`` false)."""
        nothing = {"size_mib": None, "free_mib": None, "free_inodes": None}
        found = []
        for entry, child in zip(self._mounts, self._children):
            measured = child.wait() == DONE
            sizes = child.messages[0] if measured and child.messages else nothing
            found.append(
                {
                    "mount": entry["mount"],
                    "type": entry["type"],
                    "source": entry["source"],
                    "read_only": entry["read_only"],
                    "responsive": measured,
                    **sizes,
                    **disk(self._node, entry["device"]),
                }
            )
        return found


def _measure(path: Path, emit: Emit) -> None:
    sizes = os.statvfs(path)
    emit(
        {
            "size_mib": sizes.f_blocks * sizes.f_frsize // MIB,
            "free_mib": sizes.f_bavail * sizes.f_frsize // MIB,
            "free_inodes": sizes.f_favail if sizes.f_files else None,
        }
    )
