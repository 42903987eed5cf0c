# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network interfaces of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.facts_node import Node

INTERFACES = "/sys/class/net"


def read(node: Node) -> list[dict[str, Any]]:
    """Return the facts ``network``: {"name"} of each interface."""
    return [{"name": name} for name in node.names(INTERFACES) if node.is_dir(f"{INTERFACES}/{name}")]
