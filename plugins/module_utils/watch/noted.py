# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the watch has noted of the jobs of one node in the last hours, for a diagnosis of that node."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import one_line
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.shapes import Noted
from ansible_collections.gpulab.node.plugins.module_utils.watch.controller import STATE
from ansible_collections.gpulab.node.plugins.module_utils.watch.judge import WatchState

if TYPE_CHECKING:
    from pathlib import Path

HOURS = 12
MOST = 20  # jobs; the last ones count
LONGEST = 300  # characters of a cause
LOST = "what the watch has noted"


def read(node: str, now: float, path: Path = STATE) -> list[Noted]:
    """Return what was noted of a node's jobs, the oldest first; node is Slurm's name of it, now seconds since 1970.

    Nothing where there is no watch on this host. Raises Refusal H220 where its record is damaged.
    """
    state = records.read(path, WatchState, WatchState(now), LOST)
    of_node = [one for one in state.found if node in one.nodes and 0 <= now - one.time <= HOURS * 3600]
    return [
        Noted(
            time=datetime.fromtimestamp(one.time, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            job=one.job,
            seen=one_line(one.seen),
            kind=one_line(one.kind),
            cause=_short(one.cause),
            nodes=len(one.nodes),
            evidence=[_short(line) for line in one.evidence if line.startswith(f"{node}: ")][:MOST],
        )
        for one in sorted(of_node, key=lambda one: one.time)[-MOST:]
    ]


def _short(text: str) -> str:
    return one_line(text)[:LONGEST]
