# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the directories on the controller share: images, media, reports, the history, rollouts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import locks

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

LOCK = ".lock"
LONG = 3600.0  # seconds that an image or a medium may take


def locked(directory: Path, seconds: float = locks.SECONDS) -> AbstractContextManager[None]:
    """Hold the directory's lock; who holds it is waited for so long. Raises Refusal S022, which names him."""
    return locks.held(directory / LOCK, seconds)
