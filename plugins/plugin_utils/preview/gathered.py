# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tasks of a run would change, and what some were asked, as far as they have run.

The callback gpulab.node.preview keeps it in the process that runs the play. The action of the same name runs in a
process that is forked from it, and so has all that was kept before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ansible_collections.gpulab.node.plugins.plugin_utils.preview.changes import Results, TaskResult


class Gathered:
    """Results by host. is_open: whether a callback keeps any."""

    def __init__(self) -> None:
        """Have nothing."""
        self.is_open = False
        self._results: dict[str, Results] = {}
        self._asked: dict[str, list[tuple[str, dict[str, Any]]]] = {}

    def open(self) -> None:
        """Note that a callback keeps results from now on."""
        self.is_open = True

    def keep(self, host: str, results: Iterable[TaskResult]) -> None:
        """Keep what a task said of a host."""
        self._results.setdefault(host, []).extend(results)

    def of(self, host: str) -> Results:
        """Return what the tasks said of a host, in the order in which they ran."""
        return self._results.get(host, [])

    def ask(self, host: str, module: str, arguments: Mapping[str, Any]) -> None:
        """Keep what a task was asked for a host, whether or not it would change something."""
        self._asked.setdefault(host, []).append((module, dict(arguments)))

    def asked(self, host: str) -> list[tuple[str, dict[str, Any]]]:
        """Return the modules and arguments of the tasks that were asked for a host, in the order in which they ran."""
        return self._asked.get(host, [])

    def forget(self) -> None:
        """Begin a new preview."""
        self._results.clear()
        self._asked.clear()


GATHERED = Gathered()
