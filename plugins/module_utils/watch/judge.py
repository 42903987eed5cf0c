# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a job of Slurm's ended badly or hangs, by what Slurm says and its nodes have reported. No I/O happens here.

Nothing is ended or drained by this: people are told. What is put back into the queue, retries.py decides. A class is
node, program, user or unknown. Where a node of the job has not reported, or could not read its kernel log, nobody knows
whether it was the node: unknown.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.slurm.attempts import ON_NODES, Attempt
from ansible_collections.gpulab.node.plugins.module_utils.watch import hangs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.slurm.control import NodeState
    from ansible_collections.gpulab.node.plugins.module_utils.watch.reports import Killed, Report, Trouble

CRASH = "crash"
CRASHED = ("FAILED", "NODE_FAIL", "OUT_OF_MEMORY")
NODE, PROGRAM, USER, UNKNOWN = "node", "program", "user", "unknown"
BEFORE, AFTER = 120, 60  # seconds around the end of a job in which what happens on its nodes may be the cause
PATIENCE = 180  # seconds for the reports of its nodes to come
REMEMBERED = 86400  # seconds for which an attempt that is judged is not judged again: longer than Slurm lists it
MOST = 200  # findings that are kept
CLOCK = 10  # seconds that two clocks may differ before it counts: the way of a report takes some of them
_NODES_AFFAIR = ("reset_gpu", "reboot", "contact_support", "check_power", "start_imex")
_SHELL = 128  # a shell's exit status of a program that a signal ended: this and the signal
_OUTPUT = 53  # what Slurm gives as the signal where it cannot open the files of a job
# Slurm calls a job that was cancelled otherwise. srun ends the other tasks by SIGTERM where one has failed.
_ASKED = {
    signal.SIGKILL: (UNKNOWN, "it was ended by SIGKILL, and neither Slurm nor the kernel says by whom"),
    signal.SIGTERM: (UNKNOWN, "it was ended by SIGTERM: by somebody, or by srun because one of its tasks had failed"),
    signal.SIGINT: (USER, "it was ended by SIGINT"),
    signal.SIGHUP: (USER, "it was ended by SIGHUP"),
}
_NOT_FOUND = {126: "it names a program that cannot be run", 127: "it names a program that is not there"}


@dataclass(frozen=True)
class Finding:
    """What is told of a job: what was seen, its class and cause, the nodes concerned, and what else speaks for it."""

    key: str
    job: int
    array: int
    uid: int
    seen: str
    kind: str
    cause: str
    nodes: list[str]
    evidence: list[str]
    time: float
    batch: bool = True


@dataclass(frozen=True)
class Retry:
    """A decision to put an attempt back into the queue: name is what scontrol calls the job, restarts those before it.

    cause and nodes are those of the finding. It is retry number of most. away are the nodes that the job is to keep
    away from; where there are none, why says so. outcome is what came of it, and empty while nobody knows.
    """

    key: str
    job: int
    uid: int
    name: str
    restarts: int
    cause: str
    nodes: list[str]
    number: int
    most: int
    away: list[str]
    why: str
    time: float
    outcome: str = ""


@dataclass(frozen=True)
class WatchState:
    """What the watch remembers: since when it looks, what ran at the last look, what is judged, and what was found.

    counts has the number of findings by "crash node" and so on, since the watch began; retries are the last ones.
    """

    since: float
    running: dict[str, Attempt] = field(default_factory=dict)
    done: dict[str, float] = field(default_factory=dict)
    found: list[Finding] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    retries: list[Retry] = field(default_factory=list, metadata=records.LATER)


def look(  # noqa: PLR0913, PLR0917 - what it judges by
    state: WatchState,
    attempts: list[Attempt],
    nodes: Mapping[str, NodeState],
    reports: Mapping[str, Report],
    now: float,
    silence: float = 600,
    grace: float = 1800,
) -> tuple[WatchState, list[Finding]]:
    """Return the new state, and what is new; nodes and reports are by name, times in seconds since 1970.

    silence and grace, in seconds, are those of hangs.find.
    """
    ended = [one for one in attempts if one.state in CRASHED and one.end >= state.since]
    ended += _requeued(state, attempts, nodes, now)
    found, done = [], {key: at for key, at in state.done.items() if now - at < REMEMBERED}
    for attempt in ended:
        if attempt.key not in done and not _waits(attempt, nodes, reports, now):
            done[attempt.key] = now
            found.append(judged(attempt, nodes, reports, now))
    for attempt in attempts:
        hang = hangs.find(attempt, reports, now, silence, grace)
        if hang:
            seen, cause, concerned, evidence = hang
            name = f"{attempt.key} {seen if seen == hangs.SLOW_START else cause}"  # one rank after the other may come
            if name not in done:
                found.append(_finding(attempt, seen, UNKNOWN, cause, concerned, evidence, now))
            done[name] = now  # for as long as it lasts, it is no news
    counts = dict(state.counts)
    for one in found:
        name = f"{one.seen} {one.kind}"
        counts[name] = counts.get(name, 0) + 1
    running = {one.key: one for one in attempts if one.state in ON_NODES}
    return WatchState(state.since, running, done, (state.found + found)[-MOST:], counts, state.retries), found


def _requeued(
    state: WatchState, attempts: Iterable[Attempt], nodes: Mapping[str, NodeState], now: float
) -> list[Attempt]:
    """Return the attempts that ran, and that Slurm has put back into the queue because a node of theirs is lost."""
    current = {one.job: one for one in attempts}
    return [
        replace(was, state="NODE_FAIL", end=now)
        for was in state.running.values()
        if was.job in current and current[was.job].restarts > was.restarts and _lost(was, nodes)
    ]


def _lost(attempt: Attempt, nodes: Mapping[str, NodeState]) -> list[str]:
    return [name for name in attempt.nodes if name in nodes and "DOWN" in nodes[name].states]


def _waits(attempt: Attempt, nodes: Mapping[str, NodeState], reports: Mapping[str, Report], now: float) -> bool:
    """Tell whether reports are still to come that were written after the end of an attempt, and may say why."""
    if attempt.state == "NODE_FAIL":
        return False
    lost = _lost(attempt, nodes)
    awaited = [name for name in attempt.nodes if name not in lost]
    return now < attempt.end + PATIENCE and not all(_has_reported(attempt, reports.get(name)) for name in awaited)


def _has_reported(attempt: Attempt, report: Report | None) -> bool:
    return report is not None and report.received > attempt.end + 1


def judged(attempt: Attempt, nodes: Mapping[str, NodeState], reports: Mapping[str, Report], now: float) -> Finding:
    """Return the finding on an attempt that ended badly."""
    there = {name: reports[name] for name in attempt.nodes if name in reports}
    silent = [name for name in attempt.nodes if not _has_reported(attempt, there.get(name))]
    blind = [name for name, report in there.items() if not report.readable and name not in silent]
    kind, cause, concerned = _of_nodes(attempt, nodes, there) or ("", "", [])
    evidence = [
        f"{name}: {trouble.meaning}"
        for name, report in there.items()
        for trouble in report.troubles
        if trouble.meaning != cause and _about(attempt, trouble, report)
    ]
    if not kind:
        kind, cause = _of_itself(attempt, there)
        concerned = attempt.nodes
        if kind in (PROGRAM, UNKNOWN) and attempt.state != "OUT_OF_MEMORY":
            evidence += [f"{name}: it has not reported since the job ended" for name in silent]
            evidence += [f"{name}: its kernel log cannot be read" for name in blind]
            kind = UNKNOWN if silent or blind else kind
    evidence += [
        f"{name}: its clock is {abs(_skew(report)):.0f} s {'behind' if _skew(report) > 0 else 'ahead'}"
        for name, report in there.items()
        if abs(_skew(report)) > CLOCK
    ]
    return _finding(attempt, CRASH, kind, cause, concerned, evidence, now)


def _finding(  # noqa: PLR0913, PLR0917 - what is found
    attempt: Attempt, seen: str, kind: str, cause: str, nodes: list[str], evidence: list[str], now: float
) -> Finding:
    of = attempt
    return Finding(of.key, of.job, of.array, of.uid, seen, kind, cause, nodes, evidence, now, of.batch)


def _skew(report: Report) -> float:
    """Return by how many seconds the clock of a node is behind the controller's."""
    return report.received - report.sent


def _about(attempt: Attempt, event: Trouble | Killed, report: Report) -> bool:
    """Tell whether something happened on a node around the end of an attempt, by the controller's clock."""
    skew = _skew(report) if abs(_skew(report)) > CLOCK else 0
    return attempt.end - BEFORE <= event.time + skew <= attempt.end + AFTER


def _of_nodes(
    attempt: Attempt, nodes: Mapping[str, NodeState], reports: Mapping[str, Report]
) -> tuple[str, str, list[str]] | None:
    """Return class, cause and nodes where a node is the cause."""
    lost = _lost(attempt, nodes)
    if attempt.state == "NODE_FAIL":
        return NODE, "Slurm lost the node", lost or attempt.nodes
    if lost:
        return NODE, "the node no longer answers Slurm", lost
    grave = [
        (name, trouble.meaning)
        for name, report in reports.items()
        for trouble in report.troubles
        if trouble.severity == "fail" and trouble.remedy in _NODES_AFFAIR and _about(attempt, trouble, report)
    ]
    unfit = [
        (name, "; ".join(report.unfit))
        for name, report in reports.items()
        if report.unfit and report.received > attempt.end - BEFORE
    ]
    if grave or unfit:
        return NODE, (grave + unfit)[0][1], sorted({name for name, _meaning in grave + unfit})
    for name, report in reports.items():
        if any(one.whole and one.job == attempt.job and _about(attempt, one, report) for one in report.killed):
            return NODE, "the node had no memory left, and the kernel ended a program of the job", [name]
    return None


def _of_itself(attempt: Attempt, reports: Mapping[str, Report]) -> tuple[str, str]:
    """Return class and cause where no node is the cause."""
    killed = (_about(attempt, one, rep) for rep in reports.values() for one in rep.killed if one.job == attempt.job)
    if attempt.state == "OUT_OF_MEMORY" or any(killed):
        return PROGRAM, "it needed more memory than it had asked for"
    if attempt.signal == _OUTPUT:
        return USER, "the files for its output could not be opened"
    if attempt.code in _NOT_FOUND:
        return USER, _NOT_FOUND[attempt.code]
    number = attempt.signal or attempt.worst or (attempt.code - _SHELL if attempt.code > _SHELL else 0)
    if number in set(signal.Signals):
        ended_by = signal.Signals(number)
        return _ASKED.get(ended_by) or (PROGRAM, f"it was ended by {ended_by.name}")
    return PROGRAM, f"it ended with exit status {attempt.code}"
