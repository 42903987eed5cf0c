# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ports of InfiniBand and RoCE adapters, as the kernel shows them in /sys/class/infiniband."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.machine import InfinibandPort

DEVICES = "/sys/class/infiniband"


def read(node: Node) -> list[InfinibandPort]:
    """Return the facts ``infiniband``: {"device", "port", "link_layer", "state", "physical_state", "rate_gbps"} a port.

    States are the kernel's words in small letters, as "active" and "linkup"; rate_gbps is None where it has none.
    """
    return [
        {
            "device": device,
            "port": int(port),
            "link_layer": node.text(f"{DEVICES}/{device}/ports/{port}/link_layer").lower(),
            "state": _word(node.text(f"{DEVICES}/{device}/ports/{port}/state")),
            "physical_state": _word(node.text(f"{DEVICES}/{device}/ports/{port}/phys_state")),
            "rate_gbps": rate_gbps(node.text(f"{DEVICES}/{device}/ports/{port}/rate")),
        }
        for device in node.names(DEVICES)
        for port in node.names(f"{DEVICES}/{device}/ports")
        if port.isdigit()
    ]


def rate_gbps(text: str) -> float | None:
    """Parse "400 Gb/sec (4X NDR)"."""
    match = re.match(r"([\d.]+) Gb/sec", text)
    return float(match.group(1)) if match else None


def _word(text: str) -> str:
    """Return the word of "4: ACTIVE"."""
    return text.rpartition(":")[2].strip().lower()
