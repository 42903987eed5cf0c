# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of gpulab.node.restore: its action plugin judges them, and its module has them in its documentation."""

from __future__ import annotations

from typing import Any

WORKS = ("gates", "identity", "accounts", "storage", "network", "files")
HARDWARE, RELEASE, DISKS = "hardware", "release", "disks"
ARGUMENTS: dict[str, Any] = {
    "directory": {"type": "path", "required": True},
    "capture": {"type": "str"},
    "unsigned": {"type": "str"},
    "age_identity": {"type": "path"},
    "allow": {"type": "list", "elements": "str", "choices": [HARDWARE, RELEASE, DISKS], "default": []},
    "work": {"type": "str", "choices": list(WORKS), "required": True},
    "minutes": {"type": "int", "default": 5},
}
