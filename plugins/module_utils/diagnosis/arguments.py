# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What gpulab.node.diagnose takes: its action plugin checks it, and the module on the node needs a part of it."""

from __future__ import annotations

from typing import Any

ARGUMENTS: dict[str, dict[str, Any]] = {
    "symptom": {
        "type": "str",
        "choices": ["all", "memory", "hang", "mismatch", "slow", "import", "network"],
        "default": "all",
    },
    "pid": {"type": "int"},
    "user": {"type": "str"},
    "error": {"type": "str"},
    "environment": {"type": "path"},
    "address": {"type": "str"},
    "dumps": {"type": "path"},
    "parameters": {"type": "str"},
    "dtype": {
        "type": "str",
        "choices": ["fp32", "tf32", "bf16", "fp16", "fp8", "int8", "int4"],
        "default": "bf16",
    },
    "optimizer": {
        "type": "str",
        "choices": ["adamw", "adam", "adamw8bit", "lion", "momentum", "sgd", "adafactor"],
        "default": "adamw",
    },
    "seconds": {"type": "float", "default": 3},
    "timeout": {"type": "int", "default": 5},
    "documents": {"type": "path"},
    "noted": {"type": "list", "elements": "dict", "default": []},
}
