# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watch over what torchrun started on a node by itself, without Slurm: who hangs is told, and nothing is ended.

Anybody may start programs with any names and variables. So each user's are looked at apart, in a child with a deadline
of its own, and no more than so many: who starts many, or holds up their readers, is not watched, and keeps nobody else
from it. What is found goes to the user whose processes they are, to the log, and as numbers to Prometheus.
"""

from __future__ import annotations

import contextlib
import pwd
import socket
import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis import processes
from ansible_collections.gpulab.node.plugins.module_utils.facts.processes import boot_time, owner
from ansible_collections.gpulab.node.plugins.module_utils.monitoring import collector, metrics, telling
from ansible_collections.gpulab.node.plugins.module_utils.slurm.attempts import Attempt
from ansible_collections.gpulab.node.plugins.module_utils.watch import controller, judge, looks, reports
from ansible_collections.gpulab.node.plugins.module_utils.watch.looks import Memory, RankLook

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.watch.judge import Finding

DIRECTORY = Path("/run/gpulab-hangs")  # it is forgotten at a boot, as the processes are
METRICS = Path("/var/lib/prometheus/node-exporter/gpulab-hangs.prom")
SECONDS = 30.0  # what the look at one user's ranks may take; all are looked at side by side
MOST_USERS, MOST_JOBS = 32, 16  # jobs are those of one user
HANGS = (
    "It goes on and holds its GPUs. Where it is lost, end torchrun: kill {job}. Where its ranks are: py-spy dump --pid"
    " PID. Ranks are counted on this node; of those on others nothing is known here."
)

Memories = dict[str, dict[str, Memory]]  # by user
FIND = looks.of_torchrun


def users(node: Node, table: Mapping[int, processes.Stat]) -> list[int]:
    """Return who may have ranks here and has an account, by their numbers: nobody else can be told."""
    found: dict[int, None] = {}
    for pid, stat in sorted(table.items(), key=lambda one: one[1].start):
        uid = owner(node, pid) if stat.command.startswith(looks.PYTHON) else None
        if uid is not None and uid not in found:
            with contextlib.suppress(KeyError):
                pwd.getpwuid(uid)
                found[uid] = None
    return list(found)[:MOST_USERS]


def seen(
    node: Node, memories: Memories, now: float, seconds: float = SECONDS
) -> tuple[Memories, list[Attempt], list[RankLook]]:
    """Return what to remember, the jobs that run, and their ranks; who could not be looked at in time is left out."""
    table = processes.table(node)
    begun = {uid: looks.Look(node, seconds, partial(FIND, uid=uid)) for uid in users(node, table)}
    kept, jobs, ranks = {}, [], []
    boot = boot_time(node.text("/proc/stat"))
    for uid, one in begun.items():
        memory = memories.get(str(uid), {})
        found = one.result(memory, now)
        kept[str(uid)] = found[0] if found else memory
        of_user = sorted({rank.job for rank in found[1]} & table.keys() if found else ())[:MOST_JOBS]
        jobs += [_job(pid, uid, boot + table[pid].start / processes.TICKS) for pid in of_user]
        ranks += [rank for rank in (found[1] if found else ()) if rank.job in of_user]
    return kept, jobs, ranks


def _job(pid: int, uid: int, start: float) -> Attempt:
    """Return a job that runs, as the judge knows them; it has the number of torchrun's process."""
    nodes = [_name()]
    return Attempt(pid, pid, "RUNNING", uid, True, 0, start, 0.0, 0, 0, 0, nodes)  # noqa: FBT003 - it has a terminal or not


def measured(state: judge.WatchState, now: float) -> str:
    """Return what was told, and how many jobs hang now, for Prometheus."""
    found = metrics.Metrics()
    found.gauge("gpulab_hangs_timestamp_seconds", "When the jobs of torchrun were looked at.", now)
    found.gauge("gpulab_hangs_jobs", "Jobs of torchrun that hang.", sum(at == now for at in state.done.values()))
    return found.text()


def tell(found: Iterable[Finding], before: Iterable[Finding]) -> None:
    """Tell the owners, and the log."""
    found = list(found)
    for finding in found:
        controller.log(finding)
    for uid, findings in controller.due(found, before).items():
        text = controller.message(findings, _name(), {}, HANGS)
        telling.tell(uid, f"a job that {controller.happened(findings)}", text)


def main(arguments: list[str]) -> None:
    """Look once. arguments are two numbers of minutes: see monitoring_tell_hangs."""
    after, start = (60.0 * max(int(number), 0) for number in arguments)
    now, path = time.time(), DIRECTORY / "looks.json"
    if path.exists() and 0 <= now - path.stat().st_mtime < looks.APART:
        return
    try:
        memories = records.read(path, Memories, {})
    except Refusal:
        memories = {}
    state = controller.remembered(DIRECTORY / "state.json", now)
    kept, jobs, ranks = seen(Node(), memories, now)
    records.write(
        path,
        {uid: {key: asdict(one) for key, one in of.items()} for uid, of in kept.items()},
        0o600,
    )
    report = reports.Report(_name(), now, True, [], [], [], now, ranks)  # noqa: FBT003 - no kernel log is asked for
    new, found = judge.look(state, jobs, {}, {report.node: report}, now, after, start)
    records.write(DIRECTORY / "state.json", asdict(replace(new, counts={})), 0o600)  # first: nobody is told twice
    if METRICS.parent.is_dir():
        with contextlib.suppress(OSError):
            collector.write(METRICS, measured(new, now))
    tell(found, state.found)


def _name() -> str:
    return socket.gethostname().partition(".")[0]
