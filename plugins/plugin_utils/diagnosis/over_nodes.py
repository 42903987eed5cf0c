# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ranks of one job over several nodes wait for: which ranks are missing, and which one stands elsewhere."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import counted
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.hang import DISTRIBUTED, TORCHRUN
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import HANG, MOST, STOPS, Finding, listed
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.recorded import findings as recorded
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.recorded import spans

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import Diagnosis, Rank

    Job = dict[int, tuple[str, Rank]]  # of each rank the host and what it does there

SHOWN = 16


def jobs(documents: Mapping[str, Diagnosis]) -> dict[str, Job]:
    """Return the jobs that run over several nodes, by the address and port at which they meet."""
    found: dict[str, Job] = {}
    for host, document in documents.items():
        for rank in document.ranks:
            if rank.world_size > rank.local_world_size:
                found.setdefault(rank.job, {})[rank.rank] = (host, rank)
    return found


def findings(documents: Mapping[str, Diagnosis]) -> Iterator[Finding]:
    """Yield what the documents of the nodes tell together and none of them alone."""
    dumps = [(dump, host) for host, document in documents.items() for dump in document.dumps]
    if len({host for _dump, host in dumps}) > 1:
        by_time = sorted(dumps, key=lambda one: one[0].written)
        places = {(dump.files, dump.rank): host for dump, host in by_time}
        yield from recorded((dump for dump, _host in dumps), places)
    for name, job in jobs(documents).items():
        size = max(rank.world_size for _host, rank in job.values())
        missing = [number for number in range(size) if number not in job]
        if missing:
            hosts = ", ".join(sorted({host for host, _rank in job.values()}))
            yield Finding(
                f"rank {spans(missing)} of the job at {name}, which has {size}, is not on {hosts}: it has died, was "
                "not started, or runs on a node that was not asked",
                "Ask all its nodes: -l NODE,...; if it has died, end the job where it was started and read the first "
                "error in its log",
                STOPS,
                _told(job),
                "hang-missing-rank",
                HANG,
                TORCHRUN,
            )
        usual, held = Counter(rank.stands for rank in _of(job)).most_common(1)[0]
        odd = {number: one for number, one in job.items() if one[1].stands != usual}
        if 2 * held > len(job) and odd:
            number, (host, rank) = min(odd.items())
            yield Finding(
                f"rank {spans(list(odd))} of the job at {name} stands elsewhere than the others: rank {number} on"
                f" {host} {rank.stands}, {held} others: {usual}",
                f"On {host}: py-spy dump --pid {rank.pid}; the log of rank {number} says what came before",
                MOST,
                _told(job),
                "hang-odd-rank",
                HANG,
                DISTRIBUTED,
            )


def _of(job: Job) -> list[Rank]:
    return [rank for _host, rank in job.values()]


def _told(job: Job) -> tuple[str, ...]:
    return tuple(
        f"rank {number}, {host}, {rank.command} (PID {rank.pid}): {rank.stands}"
        for number, (host, rank) in sorted(job.items())[:SHOWN]
    )


def lines(documents: Mapping[str, Diagnosis]) -> list[str]:
    """Return what the nodes tell together as people read it; nothing where there is no job over several nodes."""
    found = list(findings(documents))
    if found:
        return [f"over nodes: {counted(len(found), 'finding')}", *listed(found)]
    return [
        f"over nodes: all {len(job)} ranks of the job at {name} stand alike" for name, job in jobs(documents).items()
    ]
