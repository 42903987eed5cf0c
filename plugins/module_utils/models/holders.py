# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which processes have files open or mapped, by device and inode: a container sees them below another path."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import locks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PROC = Path("/proc")
# 7f2c8a000000-7f2c8a001000 r--s 00000000 fe:01 1234567    /srv/models/hub/...
_MAPPED = re.compile(r"^\S+ \S+ \S+ ([0-9a-f]+):([0-9a-f]+) (\d+) +(/.*)$", re.MULTILINE)


def holders(paths: Iterable[Path], proc: Path = PROC) -> dict[Path, list[str]]:
    """Return who has which of these files open, as people may read it. Their names tell them from most others.

    Only what has such a name is looked at more closely: to ask for a file of a dead server would never end.
    """
    files = {path.name: (path, status.st_dev, status.st_ino) for path in paths for status in [path.lstat()]}
    held: dict[Path, list[str]] = {}
    for process in (one for one in proc.iterdir() if one.name.isdigit()) if files else ():
        for path in {*_opened(process, files), *_mapped(process, files)}:
            who = locks.holder(process, path)
            user = f", user {who.user}" if who.user else ""
            held.setdefault(path, []).append(f"process {who.pid} ({who.command[: locks.COMMAND_LENGTH]}{user})")
    return held


Files = dict[str, tuple[Path, int, int]]


def _opened(process: Path, files: Files) -> Iterator[Path]:
    try:
        for descriptor in (process / "fd").iterdir():
            path, device, inode = files.get(Path(os.readlink(descriptor)).name, (process, 0, 0))  # noqa: PTH115
            if inode and (status := descriptor.stat()) and (status.st_dev, status.st_ino) == (device, inode):
                yield path
    except OSError:  # it ended meanwhile
        return


def _mapped(process: Path, files: Files) -> Iterator[Path]:
    """Yield files that a process has mapped; the devices of overlays are others there, but not their paths."""
    try:
        text = (process / "maps").read_text(errors="replace")
    except OSError:
        return
    for major, minor, number, name in _MAPPED.findall(text):
        path, device, inode = files.get(Path(name).name, (process, 0, 0))
        same = (os.makedev(int(major, 16), int(minor, 16)), int(number)) == (device, inode)
        if inode and (same or name == str(path)):
            yield path
