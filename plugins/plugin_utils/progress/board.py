# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where every host of a run stands: what the progress callback knows. No output happens here.

All times are seconds of one monotonic clock, which the caller reads.
"""

from __future__ import annotations

import re
import textwrap
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
    from ansible_collections.gpulab.node.plugins.plugin_utils.progress.channel import Progress


_LABEL = re.compile(r"(?:\S+ ?){1,3} {2,}|Remedy: ")  # a few words, and the text that is set off from them


@dataclass(frozen=True)
class Failure:
    """What went wrong on a host: the task, and its explanation if there is one, else its message."""

    task: str
    refusal: Refusal | None
    message: str

    @property
    def text(self) -> str:
        """The refusal where there is one, else the message; codes stand at the beginning of lines."""
        return str(self.refusal) if self.refusal else self.message


@dataclass
class HostRun:
    """One host: its first and last sign of life, and the task it works on now, if any.

    due are the roles that have something to do, roles the seconds that each has taken so far, and expected those that
    each took earlier; empty where one of them is not known.
    """

    started: float
    ended: float
    task: str = ""
    task_started: float | None = None
    line: str = ""
    last_shown: float = 0.0
    due: list[str] = field(default_factory=list)
    expected: dict[str, float] = field(default_factory=dict)
    roles: dict[str, float] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)


@dataclass(frozen=True)
class Row:
    """A host that works: its name, its task, for how long, and the last line of the long step in it."""

    host: str
    task: str
    seconds: float
    line: str


class RunBoard:
    """The hosts of a run. Safe to use from several threads."""

    def __init__(self, now: float) -> None:
        """Start with no host."""
        self.started = now
        self._hosts: dict[str, HostRun] = {}
        self._lock = threading.Lock()

    def plan(self, host: str, due: Iterable[str], expected: Mapping[str, float]) -> None:
        """Note the roles that have something to do on a host, in their order, and how long each took earlier."""
        with self._lock:
            self._hosts[host].due, self._hosts[host].expected = list(due), dict(expected)

    def start_task(self, host: str, task: str, now: float) -> None:
        """Note that a host begins a task."""
        with self._lock:
            run = self._hosts.setdefault(host, HostRun(now, now))
            run.task, run.task_started, run.line, run.last_shown = task, now, "", now

    def end_task(self, host: str, now: float) -> float:
        """Note that a host is done with its task; return the seconds that it took."""
        with self._lock:
            run = self._hosts.setdefault(host, HostRun(now, now))
            seconds = 0.0 if run.task_started is None else now - run.task_started
            role = _role(run.task)
            if role:
                run.roles[role] = run.roles.get(role, 0.0) + seconds
            run.task_started, run.line, run.ended = None, "", now
            return seconds

    def fail(self, host: str, failure: Failure) -> None:
        """Note what went wrong on a host."""
        with self._lock:
            self._hosts[host].failures.append(failure)

    def note(self, progress: Progress) -> None:
        """Note the last line of a host's long step."""
        with self._lock:
            if progress.host in self._hosts:
                self._hosts[progress.host].line = progress.line

    def rows(self, now: float) -> list[Row]:
        """Return the hosts that work, the one that has been at its task for longest first."""
        with self._lock:
            rows = [_row(host, run, now) for host, run in self._hosts.items() if run.task_started is not None]
        return sorted(rows, key=lambda row: -row.seconds)

    def at_rest(self) -> tuple[int, int]:
        """Return how many hosts have nothing to do now: those that wait, and those that failed."""
        with self._lock:
            idle = [run for run in self._hosts.values() if run.task_started is None]
            failed = sum(bool(run.failures) for run in idle)
            return len(idle) - failed, failed

    def overdue(self, now: float, interval: float) -> list[Row]:
        """Return the hosts whose task was not shown for so many seconds, and count them as shown."""
        rows = []
        with self._lock:
            for host, run in self._hosts.items():
                if run.task_started is not None and now - run.last_shown >= interval:
                    run.last_shown = now
                    rows.append(_row(host, run, now))
        return rows

    def seconds(self, host: str) -> float:
        """Return the seconds from a host's first to its last sign of life."""
        with self._lock:
            run = self._hosts.get(host)
            return run.ended - run.started if run else 0.0

    def roles(self, host: str) -> dict[str, float]:
        """Return the seconds that each role took on a host."""
        with self._lock:
            run = self._hosts.get(host)
            return {role: round(seconds, 1) for role, seconds in run.roles.items()} if run else {}

    def failures(self, host: str) -> list[Failure]:
        """Return what went wrong on a host."""
        with self._lock:
            run = self._hosts.get(host)
            return list(run.failures) if run else []


def _role(task: str) -> str:
    """Return the role of a task by its name; empty for a task of a playbook."""
    return task.partition(" : ")[0] if " : " in task else ""


def _row(host: str, run: HostRun, now: float) -> Row:
    """Return a host at work; its task has the place of its role among those that are due, and the time that is left."""
    seconds = now - (run.task_started or now)
    return Row(host, run.task.replace(role := _role(run.task), _placed(role, run, seconds), 1), seconds, run.line)


def _placed(role: str, run: HostRun, seconds: float) -> str:
    place = [f"{run.due.index(role) + 1} of {len(run.due)}"] if role in run.due else []
    left = sum(
        max(expected - run.roles.get(name, 0.0) - (seconds if name == role else 0.0), 0.0)
        for name, expected in run.expected.items()
        if name not in run.due or role not in run.due or run.due.index(name) >= run.due.index(role)
    )
    told = ", ".join([*place, *([f"{about(left)} left"] if place and run.expected else [])])
    return f"{role} ({told})" if told else role


def about(seconds: float) -> str:
    """Return how long something takes, as far as that can be known: about 4 min."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return "less than 1 min"
    return f"about {minutes} min" if minutes < 100 else f"about {minutes / 60:.0f} h"  # noqa: PLR2004 - then in hours


def duration(seconds: float) -> str:
    """Return seconds for people: 0.4s, 12s, 3m05s, 1h02m."""
    if seconds < 9.95:  # noqa: PLR2004 - below ten seconds, tenths are worth showing
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"


def wrapped(line: str, columns: int) -> list[str]:
    """Return a line in parts that fit into so many columns, broken between words; a longer word stays whole.

    The parts that follow begin below the text: behind the label of a line that has one, else two columns further in.
    Where the indent leaves little room, it becomes smaller.
    """
    if len(line) <= columns:
        return [line]
    text = line.strip()
    indent = len(line) - len(line.lstrip())
    if indent > columns // 3:
        indent = columns // 6
    label = _LABEL.match(text)
    hang = indent + label.end() if label and indent + label.end() <= columns // 2 else indent + 2
    return textwrap.wrap(
        text,
        columns,
        initial_indent=" " * indent,
        subsequent_indent=" " * hang,
        break_long_words=False,
        break_on_hyphens=False,
    )


def short_task(name: str) -> str:
    """Return a task's name without the name of this collection before its role."""
    return name.strip().removeprefix("gpulab.node.")


def counts(summary: dict[str, int]) -> str:
    """Return a host's counts as other tools read them: ok=3 changed=0, and what else is not zero."""
    shown = {"ok": summary["ok"], "changed": summary["changed"]}
    shown.update({key: value for key, value in summary.items() if key not in shown and value})
    return " ".join(f"{key}={value}" for key, value in shown.items()).replace("failures=", "failed=")


def verdict(summary: dict[str, int]) -> str:
    """Return a host's result in one word."""
    if summary["unreachable"]:
        return "unreachable"
    if summary["failures"]:
        return "failed"
    return "changed" if summary["changed"] else "ok"
