# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The look of Slurm's controller at its jobs, once a minute: what is new is written down, and then told."""

from __future__ import annotations

import contextlib
import os
import pwd
import syslog
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Job
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import counted, one_line
from ansible_collections.gpulab.node.plugins.module_utils.monitoring import collector, metrics, telling
from ansible_collections.gpulab.node.plugins.module_utils.slurm import attempts, control
from ansible_collections.gpulab.node.plugins.module_utils.watch import judge, reports
from ansible_collections.gpulab.node.plugins.module_utils.watch.judge import Finding, WatchState

if TYPE_CHECKING:
    from collections.abc import Iterable

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


def told(finding: Finding) -> str:
    """Return a finding in one line, without who is concerned."""
    evidence = f" ({'; '.join(finding.evidence)})" if finding.evidence else ""
    return one_line(f"job {finding.job} on {', '.join(finding.nodes)}: {finding.cause}{evidence}")


def message(findings: list[Finding], host: str) -> str:
    """Return what one person is told of some jobs."""
    lines = [f"{host}: {counted(len(findings), 'job')} of yours {'failed' if failed(findings) else 'failed or hangs'}."]
    for finding in findings[:SHOWN]:
        advice = ADVICE[finding.kind] if finding.seen == judge.CRASH else HANGS.format(job=finding.job)
        lines += [told(finding), f"  {advice}"]
    if len(findings) > SHOWN:
        lines.append(f"and {len(findings) - SHOWN} more: squeue --me --states=all")
    return "\n".join([*lines, "gpulab has ended nothing and started nothing."]) + "\n"


def failed(findings: Iterable[Finding]) -> bool:
    """Tell whether none of these still runs."""
    return all(one.seen == judge.CRASH for one in findings)


def due(new: Iterable[Finding], before: Iterable[Finding]) -> dict[int, list[Finding]]:
    """Return who is told of what: each cause once a job, or once for all jobs of an array, and again after a day.

    A job may have the number of one of other days: Slurm begins at 1 again when it has lost its state. Who
    started a program without a script has seen at the terminal how it ended, where it is no node's fault.
    """
    found: dict[int, list[Finding]] = {}
    told_at = {(one.uid, one.array, one.cause): one.time for one in before}
    for one in new:
        about = (one.uid, one.array, one.cause)
        known = one.time - told_at.get(about, 0) < judge.REMEMBERED
        if not known and (one.batch or one.kind in (judge.NODE, judge.UNKNOWN)):
            found.setdefault(one.uid, []).append(one)
        told_at[about] = one.time
    return found


def log(finding: Finding) -> None:
    """Write a finding to the log, for whoever runs the cluster."""
    syslog.openlog("gpulab-watch", 0, syslog.LOG_DAEMON)
    try:
        who = pwd.getpwuid(finding.uid).pw_name
    except KeyError:
        who = str(finding.uid)
    level = syslog.LOG_ERR if finding.kind == judge.NODE else syslog.LOG_WARNING
    syslog.syslog(level, f"{finding.seen}, {finding.kind}, {who}: {told(finding)}")


def measured(state: WatchState, now: float) -> str:
    """Return what the watch has counted, for Prometheus."""
    found = metrics.Metrics()
    found.gauge("gpulab_watch_timestamp_seconds", "When the jobs were looked at.", now)
    for name, count in sorted(state.counts.items()):
        seen, kind = name.split()
        found.counter("gpulab_watch_jobs_total", "Jobs that the watch has told of.", count, seen=seen, cause=kind)
    return found.text()


def remembered(path: Path, now: float) -> WatchState:
    """Return what the watch remembers; one that is damaged is set aside, and the watch begins now."""
    try:
        return records.read(path, WatchState, WatchState(now))
    except Refusal:
        records.set_aside(path)
        return WatchState(now)


def main(arguments: list[str]) -> None:
    """Look at the jobs once. What cannot be written down is not told.

    arguments are two numbers of minutes: see slurm_watch_hang_minutes and slurm_watch_start_minutes.
    """
    silence, grace = (60.0 * max(int(minutes), 0) for minutes in arguments)
    answers = [job.result() for job in [Job(list(argv), SECONDS) for argv in (attempts.SHOW, control.SHOW_NODES)]]
    if not all(answer and answer[0] == 0 for answer in answers):
        msg = "Slurm does not answer"
        raise SystemExit(msg)
    listed, shown = (answer[1] for answer in answers if answer)
    now = time.time()
    before = remembered(STATE, now)
    nodes = {node.name: node for node in control.nodes(shown)}
    state, found = judge.look(before, attempts.parse(listed), nodes, reports.kept(), now, silence, grace)
    records.write(STATE, asdict(state), 0o600)  # first: who is killed here tells nobody twice
    for finding in found:
        log(finding)
    for uid, findings in due(found, before.found).items():
        subject = "a job that failed" if failed(findings) else "a job that hangs"
        telling.tell(uid, subject, message(findings, os.uname().nodename))
    if METRICS.parent.is_dir():
        with contextlib.suppress(OSError):
            collector.write(METRICS, measured(state, now))
