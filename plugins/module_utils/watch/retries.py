# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a job that ended because of a node is put back into the queue, as its owner allowed in its comment.

Nothing that runs is ended by it: only an attempt that has ended is put back, once. What is decided is written down
before it is done; whoever finds it undone looks first what has become of the job.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Callable

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import one_line
from ansible_collections.gpulab.node.plugins.module_utils.slurm import queue
from ansible_collections.gpulab.node.plugins.module_utils.watch.judge import CRASH, CRASHED, NODE, REMEMBERED, Retry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.gpulab.node.plugins.module_utils.slurm.attempts import Attempt
    from ansible_collections.gpulab.node.plugins.module_utils.slurm.control import NodeState
    from ansible_collections.gpulab.node.plugins.module_utils.watch.judge import Finding

    Ask = Callable[[Sequence[str]], "tuple[int, str, str] | None"]  # exit status, output, errors; None: too late

UNDONE_SECONDS = 240  # for which something decided is still done: Slurm forgets an ended job after 300
UNREADABLE = "it is not put back: of gpulab, its comment may say gpulab:retry=1 to gpulab:retry=9"
LOST = "it was to be put back, and nobody knows whether it was: squeue --me --states=all"
_OURS, _ASKED = "gpulab:", re.compile(r"gpulab:retry=([1-9])")


def asked(comment: str) -> int | None:
    """Return how often the owner lets a job be put back; 0 where the comment does not ask, None where it is unclear."""
    ours = [word for word in comment.split() if word.startswith(_OURS)]
    if not ours:
        return 0
    found = _ASKED.fullmatch(ours[0])
    clear = len(ours) == 1 and found and comment.isprintable() and len(comment) < queue.LONGEST
    return int(found[1]) if clear and found else None


def decide(  # noqa: PLR0913, PLR0917 - what it decides by
    finding: Finding,
    attempt: Attempt | None,
    job: queue.Job | None,
    comment: str,
    nodes: Mapping[str, NodeState],
    before: list[Retry],
    most: int,
) -> Retry | str | None:
    """Return what is to be done with an ended attempt; a text says why nothing is, None that nobody asked for it.

    before has what was decided earlier, on all jobs; most is how often the cluster lets a job be put back.
    """
    if attempt is None or job is None or not finding.key == attempt.key == job.key:
        return None
    ended = attempt.state in CRASHED and job.state in CRASHED
    if not ended or (finding.seen, finding.kind) != (CRASH, NODE) or any(one.key == finding.key for one in before):
        return None
    wanted = asked(comment)
    if wanted == 0:
        return None
    if wanted is None:
        return UNREADABLE
    own = [one for one in before if (one.job, one.uid) == (finding.job, finding.uid) and _recent(one, finding)]
    number = max(attempt.restarts, len(own)) + 1
    bound = min(wanted, most)
    why_not = _impossible(job) or _hopeless(finding, own)
    if not why_not and number > bound:
        whose = " here (slurm_watch_retries_most)" if most < wanted else ""
        why_not = f"it was started again {number - 1} times, and may be {bound} times{whose}"
    if why_not:
        return f"it is not put back: {why_not}"
    suspects = [name for name in finding.nodes if name in attempt.nodes]
    why = _kept(job, suspects, nodes)
    away = [] if why else suspects
    return Retry(
        finding.key,
        finding.job,
        finding.uid,
        job.name,
        job.restarts,
        finding.cause,
        suspects,
        number,
        bound,
        away,
        why,
        finding.time,
    )


def _recent(retry: Retry, finding: Finding) -> bool:
    return finding.time - retry.time < REMEMBERED


def _impossible(job: queue.Job) -> str:
    """Return why Slurm would not put a job back."""
    if not job.batch:
        return "only a job with a script of its own (sbatch) starts again"
    if job.many:
        return "it has several parts"
    return "" if job.requeue else "it was submitted with --no-requeue, or the cluster's JobRequeue is 0"


def _hopeless(finding: Finding, own: list[Retry]) -> str:
    """Return why a program is the cause after all: it met the same on nodes of which none is concerned now."""
    same = [one for one in own if one.cause == finding.cause and not set(one.nodes) & set(finding.nodes)]
    return f"the same happened on {', '.join(same[-1].nodes)}, so the program may be the cause" if same else ""


def _kept(job: queue.Job, suspects: list[str], nodes: Mapping[str, NodeState]) -> str:
    """Return why the suspects are not kept from a job; empty where as many nodes like them are left as it needs."""
    named = [name for name in suspects if name in job.required]
    if named:
        return f"it asks for {', '.join(named)} by name"
    builds = {nodes[name].build for name in suspects if name in nodes}
    left = [
        node
        for node in nodes.values()
        if node.usable
        and node.name not in (*suspects, *job.excluded)
        and node.build in builds
        and set(node.partitions) & set(job.partitions)
    ]
    return (
        ""
        if len(left) >= max(job.count, 1)
        else f"too few other nodes are left to keep it away from {', '.join(suspects)}"
    )


def look(number: int, ask: Ask) -> queue.Job | None:
    """Return a job as Slurm lists it; None where it does not, or does not answer."""
    shown = ask(queue.show(number))
    job = queue.parse(shown[1], number) if shown and not shown[0] else None
    listed = ask(queue.show_excluded(job.name)) if job else None
    return replace(job, excluded=queue.names(listed[1])) if job and listed and not listed[0] else None


def carry_out(retry: Retry, ask: Ask) -> str:
    """Put a job back as it was decided, and return what came of it; empty where Slurm does not answer.

    A job that is no longer in the attempt that was decided on is left, but for the nodes that it keeps away from.
    """
    job = look(retry.job, ask)
    if job is None:
        return ""  # the next look asks again, for as long as it may
    if job.key == retry.key and job.state in CRASHED:
        done = ask(queue.requeue(retry.name))
        if done is None:
            return ""
        if done[0]:
            return f"Slurm did not put it back: {one_line(done[2].strip())[:200]}"
        job = look(retry.job, ask)
    if job is None or job.name != retry.name or job.restarts <= retry.restarts:
        return LOST
    if job.state == "PENDING" and set(retry.away) - set(job.excluded):
        ask(queue.exclude(retry.name, sorted({*job.excluded, *retry.away})))
        job = look(retry.job, ask) or job
    missing = sorted(set(retry.away) - set(job.excluded))
    kept = f"keeps away from {', '.join(retry.away)}" if retry.away else f"may get the same nodes: {retry.why}"
    if missing:
        kept = f"may get {', '.join(missing)} again: Slurm did not take that it is to keep away"
    held = f"; it is held: {queue.release(retry.name)} lets it start" if job.held else ""
    return f"it was put back into the queue ({retry.number} of {retry.most}) and {kept}{held}"
