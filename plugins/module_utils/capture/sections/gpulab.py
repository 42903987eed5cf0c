# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What gpulab did on a node, as its capture says it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Lock:
    """The lock of a Python environment that gpulab made."""

    path: str
    text: str


@dataclass(frozen=True)
class Gpulab:
    """What gpulab did: the items of its receipts by role, and the packages that its transactions brought."""

    receipts: dict[str, list[str]]
    locks: list[Lock]
    brought: list[str]
