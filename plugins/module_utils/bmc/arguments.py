# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What gpulab.node.bmc takes: its action plugin checks it, and the module on the node takes the same."""

from __future__ import annotations

from typing import Any

READ, CYCLE = "read", "cycle"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "work": {"type": "str", "choices": [READ, CYCLE], "default": READ},
    "power": {"type": "bool", "default": False},
    "most": {"type": "int", "default": 1},
    "dead": {"type": "str"},
    "fence": {"type": "dict"},
    "run": {"type": "str"},
    "slurm": {"type": "str"},
    "boot_once": {"type": "str"},
    "protocol": {"type": "str", "choices": ["redfish", "ipmi"], "default": "redfish"},
    "lost": {"type": "bool", "default": False},
    "held": {"type": "dict"},
    "firmware": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "kind": {"type": "str", "required": True},
            "component": {"type": "str", "required": True},
            "versions": {"type": "list", "elements": "str", "required": True},
            "why": {"type": "str"},
        },
    },
    "alone": {"type": "bool", "default": False},
}
