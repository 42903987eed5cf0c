# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The contents of captured files. People may change them meanwhile, so no link is followed on the way to one."""

from __future__ import annotations

import base64
import errno
import os
import stat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_ON_THE_WAY = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY
# Removed, or replaced by a link, a device, or a directory by a file.
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO}
_AT_THE_END = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


def read(root: Path, path: str, start: int, size: int) -> dict[str, Any] | None:
    """Return a part of a regular file: {data (Base64), mode}, or {unreadable: why}; None where there is no file now."""
    *directories, name = path.strip("/").split("/")
    opened = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for directory in directories:
            below = os.open(directory, _ON_THE_WAY, dir_fd=opened)
            os.close(opened)
            opened = below
        descriptor = os.open(name, _AT_THE_END, dir_fd=opened)
    except OSError as error:
        return None if error.errno in _GONE else {"unreadable": error.strerror}
    finally:
        os.close(opened)
    try:
        mode = os.fstat(descriptor).st_mode
        data = os.pread(descriptor, size, start) if stat.S_ISREG(mode) else None
    except OSError as error:  # a broken disk
        return {"unreadable": error.strerror}
    finally:
        os.close(descriptor)
    return None if data is None else {"data": base64.b64encode(data).decode("ascii"), "mode": mode}
