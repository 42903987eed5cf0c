# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a node has the release that a capture was made of: another one has packages and paths of other names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.facts import system

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.machine import Release
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node


def difference(node: Node, then: Release) -> str:
    """Return how the release differs, in words; empty where it is the same."""
    now = system.read_release(node)
    same = (now["id"], now["version"]) == (then.id, then.version)
    return "" if same else f"it is for {then.name}, and the node has {now['name']}"
