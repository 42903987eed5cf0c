# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mounts that a process sees, from its mountinfo in /proc. No I/O happens here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def unescaped(field: str) -> str:
    """Return a field of mountinfo or fstab as it was meant: white space stands there in octal, after a backslash."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), field)


def mount_lines(mountinfo: str) -> Iterator[tuple[str, str, str, str, set[str], str]]:
    """Parse /proc/self/mountinfo: (place, device as "8:1", type, source, options of both, root).

    The options are those of the mount and of the file system; root is the directory of the file system in that place.
    """
    for line in mountinfo.splitlines():
        left, separator, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        if not separator or len(fields) < 6 or len(tail) < 2:  # noqa: PLR2004 - as in proc_pid_mountinfo(5)
            continue
        options = {*fields[5].split(","), *(tail[2].split(",") if len(tail) > 2 else [])}  # noqa: PLR2004
        yield unescaped(fields[4]), fields[2], tail[0], unescaped(tail[1]), options, unescaped(fields[3])


def mounts(mountinfo: str) -> list[dict[str, Any]]:
    """Parse /proc/self/mountinfo: {mount, type, device ("8:1"), source, read_only}; a later mount hides an earlier."""
    found = {
        place: {"mount": place, "type": kind, "device": device, "source": source, "read_only": "ro" in options}
        for place, device, kind, source, options, _root in mount_lines(mountinfo)
    }
    return list(found.values())


def swaps(text: str) -> dict[str, tuple[int, int]]:
    """Parse /proc/swaps: the MiB of each path, and how many of them are in use."""
    lines = (line.split() for line in text.splitlines()[1:])
    return {
        unescaped(fields[0]): (int(fields[2]) // 1024, int(fields[3]) // 1024)
        for fields in lines
        if len(fields) >= 4 and fields[2].isdigit() and fields[3].isdigit()  # noqa: PLR2004 - path, type, size, used
    }


def is_below(path: str, directory: str) -> bool:
    """Tell whether a path is a directory's, or below it."""
    return path == directory or path.startswith(f"{directory.rstrip('/')}/")


def holding(path: str, table: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Find the mount that a path lies on."""
    above = [entry for entry in table if is_below(path, entry["mount"])]
    return max(above, key=lambda entry: len(entry["mount"]), default=None)
