# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of gpulab.node.capture: its action plugin judges them, and its module has them in its documentation."""

from __future__ import annotations

from typing import Any

_TEXTS: dict[str, Any] = {"type": "list", "elements": "str", "default": []}
_RECORDS: dict[str, Any] = {"type": "list", "elements": "dict", "default": []}
_REASON = {"path": {"type": "str", "required": True}, "reason": {"type": "str", "required": True}}
ARGUMENTS: dict[str, Any] = {
    "directory": {"type": "path", "required": True},
    "keep": {"type": "int", "default": 14},
    "paths": _TEXTS,
    "acknowledged": {**_RECORDS, "options": _REASON},
    "receipts": _RECORDS,
    "largest_mib": {"type": "int", "default": 64},
    "age_recipients": _TEXTS,
    "report": {"type": "path"},
}
