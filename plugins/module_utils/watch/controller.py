# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The look of Slurm's controller at its jobs, once a minute: what is new is written down, then done, and then told."""

from __future__ import annotations

import contextlib
import os
import pwd
import syslog
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Job
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import counted, one_line
from ansible_collections.gpulab.node.plugins.module_utils.monitoring import collector, metrics, telling
from ansible_collections.gpulab.node.plugins.module_utils.slurm import attempts, control, queue
from ansible_collections.gpulab.node.plugins.module_utils.watch import hangs, judge, reports, retries
from ansible_collections.gpulab.node.plugins.module_utils.watch.judge import Finding, Retry, WatchState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.gpulab.node.plugins.module_utils.slurm.attempts import Attempt

STATE = Path("/var/lib/gpulab-watch/state.json")
METRICS = Path("/var/lib/prometheus/node-exporter/gpulab-watch.prom")
SECONDS = 20.0  # what Slurm has to answer in
SHOWN = 5  # jobs of one person that one message names
HANGS = "It goes on and holds its GPUs. Where it is lost, end it: scancel {job}. On its nodes: py-spy dump --pid PID."
ADVICE = {
    judge.NODE: "The node is the cause, not your program. Where it does not wait again (squeue --me), submit it again.",
    judge.PROGRAM: "The end of its output says where: read that first.",
    judge.USER: "The script of the job, or who ended it, is the cause.",
    judge.UNKNOWN: "Nobody knows whether it was the program or a node: read the end of its output.",
}
BACK = "As far as Slurm and the nodes know, a node is the cause; {said}."


def told(finding: Finding) -> str:
    """Return a finding in one line, without who is concerned."""
    evidence = f" ({'; '.join(finding.evidence)})" if finding.evidence else ""
    return one_line(f"job {finding.job} on {', '.join(finding.nodes)}: {finding.cause}{evidence}")


def message(findings: list[Finding], host: str, said: Mapping[str, str], advice_of_hangs: str = HANGS) -> str:
    """Return what one person is told of some jobs; said has what became of retries, by the key of the attempt."""
    lines = [f"{host}: {counted(len(findings), 'job')} of yours {happened(findings)}."]
    for finding in findings[:SHOWN]:
        advice = ADVICE[finding.kind] if finding.seen == judge.CRASH else advice_of_hangs.format(job=finding.job)
        lines += [told(finding), "  " + (BACK.format(said=said[finding.key]) if finding.key in said else advice)]
    if len(findings) > SHOWN:
        lines.append(f"and {len(findings) - SHOWN} more")
    started = "" if any(one.key in said for one in findings) else " and started nothing"
    return "\n".join([*lines, f"gpulab has ended nothing{started}."]) + "\n"


def happened(findings: Iterable[Finding]) -> str:
    """Return in a few words what jobs do that this was found on."""
    alike = {judge.CRASH: "failed", hangs.SLOW_START: "starts slowly"}
    seen = {one.seen for one in findings}
    return alike.get(seen.pop(), "hangs") if len(seen) == 1 else "failed or hangs"


def due(
    new: Iterable[Finding], before: Iterable[Finding], said: Mapping[str, str] | None = None
) -> dict[int, list[Finding]]:
    """Return who is told of what: each cause once a job, or once for all jobs of an array, and again after a day.

    Whatever became of a retry is told.

    A job may have the number of one of other days: Slurm begins at 1 again when it has lost its state. Who
    started a program without a script has seen at the terminal how it ended, where it is no node's fault.
    """
    found: dict[int, list[Finding]] = {}
    told_at = {(one.uid, one.array, one.cause): one.time for one in before}
    for one in new:
        about = (one.uid, one.array, one.cause)
        known = one.time - told_at.get(about, 0) < judge.REMEMBERED
        if one.key in (said or {}) or (not known and (one.batch or one.kind in (judge.NODE, judge.UNKNOWN))):
            found.setdefault(one.uid, []).append(one)
        told_at[about] = one.time
    return found


def log(finding: Finding, said: str = "") -> None:
    """Write a finding, and what became of its retry, to the log, for whoever runs the cluster."""
    syslog.openlog("gpulab-watch", 0, syslog.LOG_DAEMON)
    try:
        who = pwd.getpwuid(finding.uid).pw_name
    except KeyError:
        who = str(finding.uid)
    level = syslog.LOG_ERR if finding.kind == judge.NODE else syslog.LOG_WARNING
    syslog.syslog(level, f"{finding.seen}, {finding.kind}, {who}: {told(finding)}")
    if said:
        syslog.syslog(syslog.LOG_WARNING, one_line(f"retry, {finding.kind}, {who}: job {finding.job}: {said}"))


def measured(state: WatchState, now: float) -> str:
    """Return what the watch has counted, for Prometheus."""
    found = metrics.Metrics()
    found.gauge("gpulab_watch_timestamp_seconds", "When the jobs were looked at.", now)
    for name, count in sorted(state.counts.items()):
        seen, kind = name.rsplit(maxsplit=1)
        found.counter("gpulab_watch_jobs_total", "Jobs that the watch has told of.", count, seen=seen, cause=kind)
    return found.text()


def remembered(path: Path, now: float) -> WatchState:
    """Return what the watch remembers; one that is damaged is set aside, and the watch begins now."""
    try:
        return records.read(path, WatchState, WatchState(now))
    except Refusal:
        records.set_aside(path)
        return WatchState(now)


def ask(argv: Sequence[str]) -> tuple[int, str, str] | None:
    """Return exit status, output and errors of one of Slurm's programs; None where it does not answer in time."""
    return Job(list(argv), SECONDS).result()


def decided(
    found: Iterable[Finding],
    listed: Iterable[Attempt],
    nodes: Mapping[str, control.NodeState],
    before: list[Retry],
    most: int,
) -> tuple[list[Retry], dict[str, str]]:
    """Return which attempts are to be put back into the queue, and why others of which their owner asked it are not."""
    current = {one.key: one for one in listed}
    chosen: list[Retry] = []
    denied = {}
    for finding in found:
        if finding.kind == judge.NODE and finding.key in current:
            job = retries.look(finding.job, ask)
            comment = ask(queue.show_comment(job.name)) if job else None
            words = comment[1].strip() if comment else ""
            what = retries.decide(finding, current[finding.key], job, words, nodes, [*before, *chosen], most)
            if isinstance(what, Retry):
                chosen.append(what)
            elif what:
                denied[finding.key] = what
    return chosen, denied


def carried_out(state: WatchState, now: float) -> WatchState:
    """Do what is decided and not done, also where an earlier look was killed before it came to that."""
    done = []
    for one in state.retries:
        outcome = one.outcome
        if not outcome:
            late = now - one.time > retries.UNDONE_SECONDS
            outcome = retries.LOST if late else retries.carry_out(one, ask)
        done.append(replace(one, outcome=outcome))
    return replace(state, retries=done)


def main(arguments: list[str]) -> None:
    """Look at the jobs once. What cannot be written down is neither done nor told.

    arguments are two numbers of minutes and one of retries: see slurm_watch_hang_minutes, slurm_watch_start_minutes
    and slurm_watch_retries_most.
    """
    hang, start, most = (max(int(number), 0) for number in arguments)
    answers = [job.result() for job in [Job(list(argv), SECONDS) for argv in (attempts.SHOW, control.SHOW_NODES)]]
    if not all(answer and answer[0] == 0 for answer in answers):
        msg = "Slurm does not answer"
        raise SystemExit(msg)
    listed, shown = (answer[1] for answer in answers if answer)
    now = time.time()
    before = remembered(STATE, now)
    nodes = {node.name: node for node in control.nodes(shown)}
    jobs = attempts.parse(listed)
    state, found = judge.look(before, jobs, nodes, reports.kept(), now, 60.0 * hang, 60.0 * start)
    chosen, said = decided(found, jobs, nodes, state.retries, most)
    state = replace(state, retries=[*state.retries, *chosen][-judge.MOST :])
    records.write(STATE, asdict(state), 0o600)  # first: who is killed here tells nobody twice, and starts nothing twice
    undone = {one.key for one in state.retries if not one.outcome}
    state = carried_out(state, now)
    records.write(STATE, asdict(state), 0o600)
    said.update({one.key: one.outcome for one in state.retries if one.key in undone and one.outcome})
    new = {one.key for one in found}
    found += [one for one in before.found if one.key in said and one.key not in new and one.seen == judge.CRASH]
    for finding in found:
        log(finding, said.get(finding.key, ""))
    for uid, findings in due(found, before.found, said).items():
        telling.tell(uid, f"a job that {happened(findings)}", message(findings, os.uname().nodename, said))
    if METRICS.parent.is_dir():
        with contextlib.suppress(OSError):
            collector.write(METRICS, measured(state, now))
