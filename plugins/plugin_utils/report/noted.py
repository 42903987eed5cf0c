# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the callback gpulab.node.report noted of this run: what changed on each host, and how long it took.

Ansible runs each task in a fork of the process that calls the callbacks. So the report's action plugin finds here what
was noted before its task began. Where the callback is not enabled, nothing is noted.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.plugin_utils.progress.board import RunBoard

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.report.model import DoneOnHost


class Noted:
    """One run of ansible-playbook, from its beginning."""

    def __init__(self) -> None:
        """Begin now."""
        self.board = RunBoard(time.monotonic())
        self._changed: dict[str, list[str]] = {}

    def change(self, host: str, task: str) -> None:
        """Note that a task changed something on a host."""
        self._changed.setdefault(host, []).append(task)

    def seconds(self) -> float:
        """Return how long the run has taken."""
        return round(time.monotonic() - self.board.started, 1)

    def of(self, host: str) -> DoneOnHost:
        """Return the tasks that changed a host, and the seconds that the run, and each role of it, took there."""
        return {
            "changed": self._changed.get(host, []),
            "seconds": round(self.board.seconds(host), 1),
            "roles": self.board.roles(host),
        }


NOBODY_LOOKED: DoneOnHost = {"changed": None, "seconds": None, "roles": None}
_runs: list[Noted] = []


def begin() -> Noted:
    """Note from now on."""
    _runs[:] = [Noted()]
    return _runs[0]


def noted() -> Noted | None:
    """Return what was noted of this run; None where nobody looked."""
    return _runs[0] if _runs else None
