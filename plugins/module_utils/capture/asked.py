# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What decides where each path of a node belongs in its capture: the catalog, the roles, and the lab's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.capture.leaves import Leaf
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.files import Acknowledged


@dataclass(frozen=True)
class CapturedPaths:
    """Paths that are captured, of which section they are, and whether they are secret whatever their mode."""

    section: str
    secret: bool
    patterns: list[str]


@dataclass(frozen=True)
class Ephemeral:
    """Paths that nobody misses, and why."""

    reason: str
    patterns: list[str]


@dataclass(frozen=True)
class Asked:
    """What a capture goes by; largest is the size of the largest file, in bytes, receipts are those of backups."""

    captured: list[CapturedPaths]
    ephemeral: list[Ephemeral]
    leaves: list[Leaf]
    paths: list[str]
    acknowledged: list[Acknowledged]
    receipts: list[dict[str, Any]]
    largest: int
