"""Adds to the timeline of `make lab` when each role and each play without one began and ended, over all hosts."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ansible.plugins.callback import CallbackBase

if TYPE_CHECKING:
    from ansible.executor.stats import AggregateStats
    from ansible.inventory.host import Host
    from ansible.playbook.play import Play
    from ansible.playbook.task import Task


class CallbackModule(CallbackBase):
    """Writes a line for each phase: begin and end in seconds since 1970, and its name."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "timeline"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        """Begin with what comes before the first play."""
        super().__init__()
        self._play, self._phase, self._began = "", "Ansible's start", time.time()

    def v2_playbook_on_play_start(self, play: Play) -> None:
        """Remember the play."""
        self._play = play.get_name().strip()

    def v2_runner_on_start(self, host: Host, task: Task) -> None:  # noqa: ARG002 - Ansible's signature
        """End the phase before where a host begins a task of another one."""
        role = task._role  # noqa: SLF001 - Ansible gives a callback no other way to it
        phase = role.get_name().rpartition(".")[2] if role else self._play
        if phase != self._phase:
            self._end(phase)

    def v2_playbook_on_stats(self, stats: AggregateStats) -> None:  # noqa: ARG002 - Ansible's signature
        """End the last phase."""
        self._end("")

    def _end(self, following: str) -> None:
        now = time.time()
        with Path(os.environ["LAB_TIMELINE"]).open("a", encoding="utf-8") as file:
            file.write(f"{self._began:.0f} {now:.0f} {self._phase}\n")
        self._phase, self._began = following, now
