# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Swap on a file or partition that is declared: the steps from what a node has to that. No I/O happens here.

Nothing is ever made over anything: a file is made only where there is none, and a partition becomes swap only where it
was read whole and is blank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import Swap, swaps
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.storage import refuse

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

MAKE, FORMAT, ON, OFF, DELETE = "make", "format", "on", "off", "delete"
STABLE = ("/dev/disk/by-id/", "/dev/disk/by-partuuid/", "/dev/disk/by-uuid/")  # names that last
FILESYSTEMS = ("ext4", "xfs")  # on which a file of one piece is swap; Btrfs asks for more than that
FREE_SHARE = 0.1  # of the file system: that much stays free beside a new file
MIB = 1 << 20
SIGNATURES = (b"SWAPSPACE2", b"SWAP-SPACE")  # at the end of the first page, see mkswap(8)
PAGES = (4096, 8192, 16384, 65536)


@dataclass(frozen=True)
class Place:
    """What lies in a place. holds says what is there but no swap, empty where there is nothing, or a blank partition.

    Of the file system of a file that is not there yet: mount, filesystem (its type), size_mib and free_mib. device is
    what the kernel says of a partition.
    """

    path: str
    partition: bool = False
    swap: bool = False
    active: bool = False
    holds: str = ""
    mount: str = "/"
    filesystem: str = ""
    size_mib: int = 0
    free_mib: int = 0
    device: Any = None


@dataclass(frozen=True)
class Step:
    """One step: what is done, and with which path."""

    action: str
    path: str


def is_swap(start: bytes) -> bool:
    """Tell whether what begins with these bytes is swap."""
    return any(start[page - 10 : page] in SIGNATURES for page in PAGES)


def link(place: str) -> str:
    """Return the path of a place: UUID=... is one below /dev/disk."""
    return f"/dev/disk/by-uuid/{place[5:]}" if place.startswith("UUID=") else place


def names(node: Node) -> dict[str, list[str]]:
    """Return by the path of each active swap all names by which it may be declared."""
    found = {path: [path] for path in swaps(node.text("/proc/swaps"))}
    for directory in STABLE if any(path.startswith("/dev/") for path in found) else ():
        for name in node.names(directory):
            path = node.resolve(f"{directory}{name}")
            if path in found:
                found[path].append(f"{directory}{name}")
                if directory.endswith("by-uuid/"):
                    found[path].append(f"UUID={name}")
    return found


def plan(place: Place | None, mib: int, former: dict[str, str], running: dict[str, Swap]) -> list[Step]:
    """Return the steps that leave the node with this swap, of mib where it is made, and without gpulab's former ones.

    former has what gpulab did by path: make, format or on. running has the active ones by all their names. A swap that
    is there keeps its size.
    Raises Refusal H098 for a place that holds something, H099 for one without room, H100 for a file system that has no
    swap files.
    """
    steps = []
    for path in sorted(path for path in former if place is None or path != place.path):
        steps += [Step(OFF, path)] if path in running else []
        steps += [Step(DELETE, path)] if former[path] == MAKE else []
    if place is None or place.active:
        return steps
    if place.swap:
        return [*steps, Step(ON, place.path)]
    if place.holds:
        raise refuse("H098", place=place.path, found=place.holds)
    if place.partition:
        return [*steps, Step(FORMAT, place.path), Step(ON, place.path)]
    if place.filesystem not in FILESYSTEMS:
        raise refuse("H100", place=place.path, type=place.filesystem or "unknown", allowed=" or ".join(FILESYSTEMS))
    need = mib + int(place.size_mib * FREE_SHARE)
    if place.free_mib < need:
        raise refuse("H099", mount=place.mount, free=place.free_mib, need=need, mib=mib)
    return [*steps, Step(MAKE, place.path), Step(ON, place.path)]


def too_much(used_mib: int, available_mib: int) -> bool:
    """Tell whether what is in use of a swap does not fit in the memory, with a tenth to spare."""
    return used_mib > available_mib * (1 - FREE_SHARE)
