# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a capture's data travels between controller and node: as one text, which Ansible neither reads nor changes.

Names of files may hold bytes that are not UTF-8 (as surrogates in a str); JSON in ASCII keeps them.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any


def packed(value: Any) -> str:
    """Return JSON-able data as one text."""
    return base64.b64encode(zlib.compress(json.dumps(value).encode("ascii"), 1)).decode("ascii")


def unpacked(text: str) -> Any:
    """Return the data of such a text."""
    return json.loads(zlib.decompress(base64.b64decode(text)))
