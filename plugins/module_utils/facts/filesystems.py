# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file systems of a node: where its data lies, and how much room is left."""

from __future__ import annotations

import errno
import os
import posixpath
from functools import partial
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core.child import DONE, Child, Emit
from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import (
    KERNELS_OWN,
    Mount,
    holding,
    is_below,
    mounts,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.machine import Filesystem

ALWAYS = ("/", "/boot", "/var", "/tmp")  # noqa: S108 - a place to measure, nothing is written
BELOW_NO_DATA = ("/dev", "/proc", "/run", "/sys", "/etc", "/var/lib/docker", "/var/lib/containers", "/snap")
MIB = 1 << 20
FAILED = (errno.EIO, errno.EUCLEAN)  # of a disk, or of a file system that the kernel has shut down


def worth_knowing(table: list[Mount]) -> list[Mount]:
    """Choose the mounts that hold a system's or a user's data, and where the usual directories lie."""
    chosen = {
        mount.place: mount
        for mount in table
        if mount.type not in KERNELS_OWN and not any(is_below(mount.place, tree) for tree in BELOW_NO_DATA)
    }
    for path in ALWAYS:
        below = holding(path, table)
        if below:
            chosen.setdefault(path, below._replace(place=path))
    return [chosen[place] for place in sorted(chosen)]


def disk(node: Node, device: str) -> tuple[bool | None, bool | None]:
    """Say whether a block device turns, and whether it is NVMe; None where there is no such device."""
    block = f"/sys/dev/block/{device}"
    if not node.exists(block):
        return None, None
    whole = node.resolve(block)
    if not node.is_dir(f"{whole}/queue"):  # a partition: the disk is above it
        whole = posixpath.dirname(whole)
    turns = node.text(f"{whole}/queue/rotational")
    return turns == "1" if turns else None, posixpath.basename(whole).startswith("nvme")


def errors(node: Node, device: str) -> int | None:
    """Return how many errors ext4 has counted in a file system until it was last checked; None for other types."""
    block = f"/sys/dev/block/{device}"
    name = posixpath.basename(node.resolve(block)) if node.exists(block) else ""
    return node.number(f"/sys/fs/ext4/{name}/errors_count") if name else None


class FilesystemsQuery:
    """The facts ``filesystems``; each is measured in a child, for a dead network mount answers nobody."""

    def __init__(self, node: Node, seconds: float) -> None:
        """Start measuring."""
        self._node = node
        self._mounts = worth_knowing(mounts(node.text("/proc/self/mountinfo")))
        self._children = [Child(partial(_measure, node.path(mount.place)), seconds) for mount in self._mounts]

    def facts(self) -> list[Filesystem]:
        """Return one record per mount; sizes are None where it did not answer (``responsive`` false)."""
        nothing = {"readable": None, "size_mib": None, "free_mib": None, "free_inodes": None}
        found: list[Filesystem] = []
        for mount, child in zip(self._mounts, self._children):
            measured = child.wait() == DONE
            sizes = child.messages[0] if measured and child.messages else nothing
            rotational, nvme = disk(self._node, mount.device)
            found.append(
                {
                    "mount": mount.place,
                    "type": mount.type,
                    "source": mount.source,
                    "read_only": mount.read_only,
                    "responsive": measured,
                    "readable": sizes["readable"],
                    "errors": errors(self._node, mount.device),
                    "size_mib": sizes["size_mib"],
                    "free_mib": sizes["free_mib"],
                    "free_inodes": sizes["free_inodes"],
                    "rotational": rotational,
                    "nvme": nvme,
                }
            )
        return found


def _measure(path: Path, emit: Emit) -> None:
    sizes = os.statvfs(path)
    emit(
        {
            "readable": _readable(path),
            "size_mib": sizes.f_blocks * sizes.f_frsize // MIB,
            "free_mib": sizes.f_bavail * sizes.f_frsize // MIB,
            "free_inodes": sizes.f_favail if sizes.f_files else None,
        }
    )


def _readable(path: Path) -> bool:
    try:
        with os.scandir(path) as entries:
            next(entries, None)
    except OSError as error:
        return error.errno not in FAILED
    return True
