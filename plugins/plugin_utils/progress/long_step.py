# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of a long step: start it, follow it over dropped connections, and say how it ended."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import asdict, dataclass, field
from typing import Any, Callable, ClassVar

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.core.only_asks import only_asks
from ansible_collections.gpulab.node.plugins.plugin_utils.core.this_run import this_run
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.channel import Progress, send
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

# Seconds the node waits for the end of the step in one poll: at least, and at most. A poll costs the node a third of a
# second of the processor that the step computes on.
SHORTEST_WAIT, LONGEST_WAIT = 5.0, 30.0
RECONNECT_PAUSE = 5.0
RECONNECT_TIMEOUT = 300.0
ORPHANED = "ansible-playbook has ended; the step continues on the node, and the next run collects its result"


@dataclass(frozen=True)
class LongStep:
    """A command to run on the node; timeout is in seconds.

    pick_up: the end of a former run's same command counts, if no run has heard it. Without it the command runs again,
    because the node may have changed since; while it still runs, it is attached to.
    """

    name: str
    argv: list[str]
    timeout: int
    environment: dict[str, str] = field(default_factory=dict)
    chdir: str = "/"
    pick_up: bool = False


@dataclass(frozen=True)
class StepOutcome:
    """How a step ended. found: started, attached or picked_up. seconds: what the step took on the node."""

    rc: int
    seconds: float
    tail: list[str]
    log: str
    found: str


class UnansweredError(Exception):
    """The node gave no answer of ours: the connection broke, or the module was killed with it."""


class ModuleError(Exception):
    """A module failed in a way that is no refusal: bad arguments, a bug, a broken connection."""

    def __init__(self, answer: dict[str, Any]) -> None:
        """Keep what it answered."""
        self.answer = answer
        detail = str(answer.get("module_stderr") or answer.get("msg") or "no output").strip()
        super().__init__(detail.splitlines()[-1])


def next_wait(seconds: float) -> float:
    """Return how long the next poll waits: as long again as the step runs, so that its first lines show early."""
    return min(max(seconds, SHORTEST_WAIT), LONGEST_WAIT)


def follow(  # noqa: PLR0913
    step: LongStep,
    ask: Callable[[dict[str, Any]], dict[str, Any]],
    report: Callable[[float, str], None],
    *,
    acknowledge: bool = True,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> StepOutcome:
    """Start the step, or find it on the node, and follow it to its end.

    ask passes arguments to the module long_step and returns its ``step``; it raises UnansweredError when none came,
    and Refusal. report takes the seconds so far and the last line of the log.
    Without acknowledge, that is the caller's to do, once he has done what depends on the end.
    Raises Refusal S005 (timeout), S006 (ended without a result), S007 (the node does not answer any more).
    """

    def poll(wait: float) -> dict[str, Any]:
        asked = clock()
        while True:
            try:
                return ask({"operation": "poll", "name": step.name, "wait": wait})
            except UnansweredError as no_answer:  # noqa: PERF203 - a retry is a loop around a try
                silence = clock() - asked
                if silence > RECONNECT_TIMEOUT:
                    raise refuse("S007", name=step.name, seconds=round(silence), detail=no_answer) from no_answer
                report(status["seconds"] + silence, f"no answer for {silence:.0f} s, the step continues: {no_answer}")
                sleep(RECONNECT_PAUSE)

    status = ask({"operation": "start", **asdict(step)})
    found = status["found"]
    while status["state"] == "running":
        report(status["seconds"], status["line"])
        status = poll(next_wait(status["seconds"]))
    if acknowledge:
        with contextlib.suppress(UnansweredError):  # then the same command will find this result once more
            ask({"operation": "acknowledge", "name": step.name})
    return outcome(step, status, found)


def outcome(step: LongStep, status: dict[str, Any], found: str) -> StepOutcome:
    """Return the outcome of a step that runs no more. Raises Refusal S005 and S006."""
    line = status["line"] or "nothing"
    if status["state"] == "timeout":
        raise refuse("S005", name=step.name, seconds=step.timeout, line=line, log=status["log"])
    if status["state"] != "finished":
        detail = status["detail"] or status["state"]
        raise refuse("S006", name=step.name, detail=detail, line=line, log=status["log"])
    return StepOutcome(status["rc"], status["seconds"], status["tail"], status["log"], found)


class LongStepAction(ActionBase):
    """An action that runs long steps. A subclass implements carry_out and may raise Refusal anywhere in it.

    unforeseen: the result in a play that only keeps what tasks are asked (only_asks); with None, the node is asked.
    """

    unforeseen: ClassVar[dict[str, Any] | None] = None
    _requires_connection = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Carry out the task and turn a refusal into its failure."""
        result = super().run(tmp, task_vars)
        self._task_vars = task_vars or {}
        self._controller = os.getppid()
        if self.unforeseen is not None and only_asks(self._task_vars):
            return {**result, **self.unforeseen}
        try:
            result.update(self.carry_out(dict(self._task.args)))
        except Refusal as refusal:
            result.update(failed=True, msg=str(refusal), refusal=asdict(refusal))
        except ModuleError as error:
            result.update(error.answer)
        return result

    def carry_out(self, args: dict[str, Any]) -> dict[str, Any]:
        """Do the task's work and return what is added to its result."""
        raise NotImplementedError

    def run_step(self, step: LongStep, *, acknowledge: bool = True) -> StepOutcome:
        """Run a long step to its end, reporting on the way; see follow. Raises Refusal."""

        def report(seconds: float, line: str) -> None:
            self.report(step.name, seconds, line)

        return follow(step, self._ask, report, acknowledge=acknowledge)

    def report(self, step: str, seconds: float, line: str) -> None:
        """Tell the operator where this host stands."""
        send(Progress(self._task_vars["inventory_hostname"], step, seconds, line))

    def call_module(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        """Run a module of this collection and return its result. Raises Refusal, and ModuleError."""
        answer = self._execute_module(f"gpulab.node.{name}", module_args=args, task_vars=self._task_vars)
        if "refusal" in answer:
            raise Refusal(**answer["refusal"])
        if answer.get("failed"):
            raise ModuleError(answer)
        return answer

    def _ask(self, args: dict[str, Any]) -> dict[str, Any]:
        if os.getppid() != self._controller:
            raise AnsibleError(ORPHANED)
        try:
            return self.call_module("long_step", {**args, "run": this_run(self._controller)})["step"]
        except (AnsibleConnectionFailure, ModuleError) as error:
            if args["operation"] == "start":
                raise
            self._reset_connection()
            raise UnansweredError(error) from error

    def _reset_connection(self) -> None:
        try:
            self._connection.reset()
        except (AnsibleConnectionFailure, NotImplementedError, AttributeError):
            return
