# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.report: what the report says of the run, and a report of a run that ended before its proof."""

from __future__ import annotations

DOCUMENTATION = r"""
name: report
type: aggregate
short_description: What the report says of the run, and a report of a run that ended before its proof
version_added: 1.0.0
author: The gpulab founders (@gpulab)
description:
  - Notes what each task changes and how long the run takes, for M(gpulab.node.report).
  - Where every host was refused, failed or became unreachable, Ansible ends a run before M(gpulab.node.report) is
    reached. This callback then writes the same report, with what ended each host's run.
  - It does so only in whole runs of playbooks that have that task, never in check mode or with C(--tags).
  - Its settings are the variables C(verify_report_directory), C(verify_baseline), C(verify_reports_kept) and
    C(verify_history_directory), as in C(playbooks/verify.yml).
requirements:
  - enabled by C(callbacks_enabled = gpulab.node.report)
"""

import time
from typing import TYPE_CHECKING, Any

from ansible import context
from ansible.plugins.callback import CallbackBase
from ansible.vars.hostvars import HostVars
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.board import short_task
from ansible_collections.gpulab.node.plugins.plugin_utils.report import noted
from ansible_collections.gpulab.node.plugins.plugin_utils.report.hosts import gather, publish

if TYPE_CHECKING:
    from ansible.executor.stats import AggregateStats
    from ansible.executor.task_result import CallbackTaskResult
    from ansible.inventory.host import Host
    from ansible.playbook import Playbook
    from ansible.playbook.play import Play
    from ansible.playbook.task import Task

WRITES_IT = "gpulab.node.report"
ALL = "all"
SETTINGS = {
    "directory": "verify_report_directory",
    "baseline": "verify_baseline",
    "kept": "verify_reports_kept",
    "history": "verify_history_directory",
}


class CallbackModule(CallbackBase):
    """Note the run; keep how each host left it, and write the report at its end, unless the run has done so."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpulab.node.report"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        """Begin without a play."""
        super().__init__()
        self._run = noted.begin()
        self._due = False
        self._play: Play | None = None
        self._names: dict[str, None] = {}
        self._ends: dict[str, dict[str, Any]] = {}

    def v2_playbook_on_start(self, playbook: Playbook) -> None:
        """Look whether the run is to write a report at all."""
        whole = set(context.CLIARGS.get("tags") or (ALL,)) == {ALL} and not context.CLIARGS.get("skip_tags")
        plays = playbook.get_plays()
        self._due = whole and not context.CLIARGS.get("check") and any(_writes(play.tasks) for play in plays)

    def v2_playbook_on_play_start(self, play: Play) -> None:
        """Keep the play, for its hosts and their variables."""
        self._play = play
        self._names.update(dict.fromkeys(host.name for host in _inventory(play).get_hosts(play.hosts)))

    def v2_runner_on_start(self, host: Host, task: Task) -> None:
        """Note that a host is at work."""
        self._run.board.start_task(host.get_name(), short_task(task.get_name()), time.monotonic())

    def v2_runner_on_skipped(self, result: CallbackTaskResult) -> None:
        """Note that a host is done with its task."""
        self._end(result)

    def v2_runner_on_ok(self, result: CallbackTaskResult) -> None:
        """Note a change; see that the run writes its report itself."""
        self._end(result)
        if result.result.get("changed"):
            self._run.change(result.host.get_name(), short_task(result.task.get_name()))
        self._due = self._due and result.task.action != WRITES_IT

    def v2_runner_on_failed(self, result: CallbackTaskResult, ignore_errors: bool = False) -> None:  # noqa: FBT001, FBT002
        """Keep why a host left the run."""
        self._end(result)
        self._due = self._due and result.task.action != WRITES_IT
        if not ignore_errors:
            self._ends[result.host.get_name()] = {**result.result, "failed": True}

    def v2_runner_on_unreachable(self, result: CallbackTaskResult) -> None:
        """Keep that a host could not be reached."""
        self._end(result)
        self._ends[result.host.get_name()] = {**result.result, "unreachable": True}

    def v2_playbook_on_stats(self, stats: AggregateStats) -> None:  # noqa: ARG002 - Ansible's signature
        """Write the report where the run could not."""
        if not self._due or not self._ends or self._play is None:
            return
        hostvars = HostVars(_inventory(self._play), self._play.get_variable_manager(), self._play.get_loader())
        first = next(iter(self._ends))
        others = {"failed": True, "msg": f"the run ended before it reached this host, because {first} failed"}
        try:
            hosts = gather(self._names, hostvars, {**dict.fromkeys(self._names, others), **self._ends})
            settings = {name: hostvars[first].get(variable) for name, variable in SETTINGS.items()}
            _document, lines, _directory = publish(hosts, settings)
            said = lines[-1]  # where it is; what became of the hosts has been shown
        except Refusal as refusal:
            said = str(refusal)
        self._display.display(said)

    def _end(self, result: CallbackTaskResult) -> None:
        self._run.board.end_task(result.host.get_name(), time.monotonic())


def _inventory(play: Play) -> Any:
    return play.get_variable_manager()._inventory  # noqa: SLF001 - Ansible gives a callback no other way to it


def _writes(tasks: Any) -> bool:
    """Tell whether the report's task is among tasks and blocks."""
    for task in tasks or ():
        inner = [*getattr(task, "block", ()), *getattr(task, "rescue", ()), *getattr(task, "always", ())]
        if getattr(task, "action", None) == WRITES_IT or _writes(inner):
            return True
    return False
