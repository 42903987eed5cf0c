# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of others, read without a trace: no time of access changes, and no reader waits for ever."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def opened(path: Path) -> int:
    """Open a regular file for reading. Raises OSError for anything else: a FIFO would block its reader for ever."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags | os.O_NOATIME)
    except PermissionError:  # only root and the owner may leave the time of access as it is
        descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return descriptor


def digest(path: Path, algorithm: str) -> bytes | None:
    """Return the digest of a regular file, followed through links; None where it cannot be read."""
    try:
        found = hashlib.new(algorithm, usedforsecurity=False)
        with os.fdopen(opened(path), "rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                found.update(block)
    except (OSError, ValueError):
        return None
    return found.digest()
