# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files and directories for their owner alone, whatever the umask."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def make_directory(path: Path) -> None:
    """Make a directory, and those above it that are missing."""
    for one in reversed([path, *path.parents]):
        if not one.is_dir():
            one.mkdir(0o700)
            one.chmod(0o700)


def write(path: Path, data: bytes) -> None:
    """Write a file that is not there yet."""
    make_directory(path.parent)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        os.fchmod(stream.fileno(), 0o600)
        stream.write(data)


def sync(path: Path) -> None:
    """Sync a file, or the names in a directory, to the disk; what is read afterwards comes from there."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
