# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The contents of captured files. People may change them meanwhile, so no link is followed on the way to one."""

from __future__ import annotations

import base64
import errno
import os
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core import beneath

if TYPE_CHECKING:
    from pathlib import Path

# Removed, or replaced by a link, a device, or a directory by a file.
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EINVAL}


def read(root: Path, path: str, start: int, size: int) -> dict[str, Any] | None:
    """Return a part of a regular file: {data (Base64), mode}, or {unreadable: why}; None where there is no file now."""
    try:
        with beneath.at(root, path, follow=False) as place, place.opened() as opened:
            mode, data = os.fstat(opened).st_mode, os.pread(opened, size, start)
    except OSError as error:
        return None if error.errno in _GONE else {"unreadable": error.strerror}
    return {"data": base64.b64encode(data).decode("ascii"), "mode": mode}
