# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mounts that a process sees, from its mountinfo in /proc, and active swap. No I/O happens here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


# Types of file systems that are on this machine; whatever is none of them may be another's, and may not answer.
LOCAL = frozenset(
    {
        "bcachefs",
        "btrfs",
        "exfat",
        "ext2",
        "ext3",
        "ext4",
        "f2fs",
        "jfs",
        "overlay",
        "ramfs",
        "tmpfs",
        "vfat",
        "xfs",
        "zfs",
    }
)
# Types of file systems that the kernel makes up: they hold nobody's data, and always answer.
KERNELS_OWN = frozenset({
    "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs",
    "fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "ramfs", "rpc_pipefs", "securityfs", "squashfs",
    "sysfs", "tracefs",
})  # fmt: skip
WITHOUT_OWNERS = {"vfat", "exfat", "squashfs", "iso9660"}


class Mount(NamedTuple):
    """A mount: what is mounted where, with the options of the mount and of its file system.

    device is the file system's number, as "8:1"; root is the directory of the file system that is mounted: a subvolume
    of Btrfs, or what a bind mount shows again.
    """

    place: str
    source: str
    type: str
    device: str
    options: frozenset[str] = frozenset()
    root: str = "/"

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written there."""
        return "ro" in self.options

    @property
    def waits(self) -> bool:
        """Whether this is no file system yet, but an automount that waits for somebody to enter its place."""
        return self.type == "autofs"


class Swap(NamedTuple):
    """The MiB of an active swap, and how many of them are in use."""

    mib: int
    used_mib: int


def unescaped(field: str) -> str:
    """Return a field of mountinfo or fstab as it was meant: white space stands there in octal, after a backslash."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), field)


def every_mount(mountinfo: str) -> list[Mount]:
    """Parse /proc/self/mountinfo: all mounts in their order, those that others hide, too."""
    found = []
    for line in mountinfo.split("\n"):
        left, separator, right = line.partition(" - ")
        fields, tail = left.split(" "), right.split(" ")
        if not separator or len(fields) < 6 or len(tail) < 2:  # noqa: PLR2004 - as in proc_pid_mountinfo(5)
            continue
        place, source, root = map(unescaped, (fields[4], tail[1], fields[3]))
        options = ",".join([fields[5], *tail[2:3]])
        found.append(Mount(place, source, tail[0], fields[2], frozenset(options.split(",")), root))
    return found


def mounts(mountinfo: str) -> list[Mount]:
    """Parse /proc/self/mountinfo: the mounts that can be seen; a later one hides an earlier one in its place."""
    return list({mount.place: mount for mount in every_mount(mountinfo)}.values())


def swaps(text: str) -> dict[str, Swap]:
    """Parse /proc/swaps: the active swaps by their paths."""
    lines = (line.split() for line in text.split("\n")[1:])
    return {
        unescaped(fields[0]): Swap(int(fields[2]) // 1024, int(fields[3]) // 1024)
        for fields in lines
        if len(fields) >= 4 and fields[2].isdecimal() and fields[3].isdecimal()  # noqa: PLR2004 - path, type, size, used
    }


def is_below(path: str, directory: str) -> bool:
    """Tell whether a path is a directory's, or below it."""
    return path == directory or path.startswith(f"{directory.rstrip('/')}/")


def holding(path: str, table: Iterable[Mount]) -> Mount | None:
    """Find the mount that a path without links lies on; of several in one place, the last."""
    above = [mount for mount in table if is_below(path, mount.place)]
    return max(reversed(above), key=lambda mount: len(mount.place), default=None)
