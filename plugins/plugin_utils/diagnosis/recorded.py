# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which collective operation a job hangs in, and by which rank, from the dumps of its ranks and NCCL's warnings."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Callable

from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis import pasted
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import (
    HALF,
    HANG,
    MOST,
    SOME,
    STOPS,
    Finding,
    named,
    rule,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.shapes import Dump, Group, Stands
    from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import Case

FLIGHT_RECORDER = "https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html"
LOGGING = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
TOGETHER = timedelta(minutes=15)  # between the dumps of one hang; PyTorch writes all when the first rank's time is over
SHOWN = 16
# Operations to which every rank gives as many elements of one type
ALIKE = frozenset({"all_reduce", "broadcast", "reduce", "_all_gather_base", "_reduce_scatter_base"})


def spans(numbers: Iterable[int]) -> str:
    """Write numbers in a row as 8-15."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return ", ".join(str(row[0]) if len(row) == 1 else f"{row[0]}-{row[-1]}" for row in found)


def ranks_of(numbers: Iterable[int]) -> str:
    """Name ranks: rank 3, or ranks 0-2, 7."""
    unique = sorted(set(numbers))
    return f"rank{'s' if len(unique) > 1 else ''} {spans(unique)}"


def findings(dumps: Iterable[Dump], hosts: Mapping[tuple[str, int], str] | None = None) -> Iterator[Finding]:
    """Yield where the jobs stand that left these dumps; hosts names the node of each (files, rank), where known."""
    jobs: dict[str, list[Dump]] = defaultdict(list)
    for dump in dumps:
        jobs[dump.files].append(dump)
    for files, found in jobs.items():
        of_one_hang = _together(found)
        places = {rank: host for (name, rank), host in (hosts or {}).items() if name == files}
        about = f"{files}*, written until {max(dump.written for dump in of_one_hang)}"
        unread = [f"rank {one.rank}: its dump cannot be read ({one.problem})" for one in of_one_hang if one.problem]
        for finding in _job({dump.rank: dump for dump in of_one_hang}, places):
            yield replace(
                finding,
                evidence=(about, *finding.evidence, *unread[:SHOWN]),
                id="hang-collective",
                symptom=HANG,
                source=FLIGHT_RECORDER,
            )


def _together(dumps: list[Dump]) -> list[Dump]:
    """Return the dumps of the last hang: one for each rank, and none of an earlier one."""
    newest = {dump.rank: dump for dump in sorted(dumps, key=lambda one: one.written)}
    last = max(map(_time, newest.values()))
    return [dump for _rank, dump in sorted(newest.items()) if last - _time(dump) <= TOGETHER]


def _time(dump: Dump) -> datetime:
    return datetime.strptime(dump.written, "%Y-%m-%dT%H:%M:%S%z")


def _job(dumps: dict[int, Dump], hosts: Mapping[int, str]) -> Iterator[Finding]:
    """Yield a finding for each process group of a job that waits, in the order in which they began to."""
    groups: dict[tuple[str, tuple[int, ...]], dict[int, Group]] = defaultdict(dict)
    for rank, dump in dumps.items():
        for group in dump.groups:
            groups[group.name, tuple(group.ranks)][rank] = group
    waiting = [
        (min(created), members, found) for (_name, members), found in groups.items() if (created := _since(found))
    ]
    for _created, members, found in sorted(waiting, key=lambda one: one[0]):
        yield _why(_Waiting(members or tuple(sorted(found)), found, dumps, hosts))


def _since(group: dict[int, Group]) -> list[str]:
    return [one.stands.created or "" for one in group.values() if one.stands]


@dataclass(frozen=True)
class _Waiting:
    """A process group that waits: its members, how far each rank has come, the dumps of the job, and their nodes."""

    members: tuple[int, ...]
    group: dict[int, Group]
    dumps: dict[int, Dump]
    hosts: Mapping[int, str]

    @cached_property
    def number(self) -> int:
        """The first operation that has not ended."""
        return min(one.stands.number for one in self.group.values() if one.stands)

    @cached_property
    def here(self) -> dict[int, Stands]:
        """What the ranks that stand in that operation give to it."""
        standing = {rank: one.stands for rank, one in self.group.items() if one.stands}
        return {rank: stands for rank, stands in standing.items() if stands.number == self.number}

    @property
    def absent(self) -> list[int]:
        """The ranks of which no dump could be read."""
        return [rank for rank in self.members if rank not in self.dumps or self.dumps[rank].problem]

    @cached_property
    def behind(self) -> list[int]:
        """The ranks that have not called that operation; one that has called nothing in this group has a dump, too."""
        come = {rank for rank, one in self.group.items() if one.last >= self.number}
        return [rank for rank in self.members if rank not in come and rank not in self.absent]

    @property
    def name(self) -> str:
        """The name of the group."""
        return next(iter(self.group.values())).name

    @property
    def place(self) -> str:
        """The operation in words."""
        return f"{next(iter(self.here.values())).operation}, operation {self.number} of {self.name}"

    def ranks_by(self, key: Callable[[Stands], Any]) -> list[list[int]]:
        """Return the ranks that stand there, those alike by this key together, the fewest first."""
        alike: dict[Any, list[int]] = defaultdict(list)
        for rank, stands in self.here.items():
            alike[key(stands)].append(rank)
        return sorted(alike.values(), key=len)

    def finding(self, cause: str, remedy: str, cost: float) -> Finding:
        """Return a finding with what was seen of each rank."""
        ranks = [*self.behind, *self.here][:SHOWN]
        return Finding(
            cause, remedy, cost, tuple(_seen(rank, self.group.get(rank), self.number, self.hosts) for rank in ranks)
        )


def _why(waiting: _Waiting) -> Finding:
    """Say why a group waits."""
    if waiting.behind:
        return _left_behind(waiting)
    unlike = _different_operations(waiting) or _different_tensors(waiting)
    if unlike:
        return unlike
    here, absent = waiting.here, waiting.absent
    if absent:
        return waiting.finding(
            f"{ranks_of(here)} wait{_s(here)} in {waiting.place}; {ranks_of(absent)} left no dump that was read",
            "Ask all nodes of the job: -l NODE,...; one without a dump has died: read the first error in its log",
            MOST,
        )
    return waiting.finding(
        f"all ranks wait in {waiting.place}: none is missing, and what moves the data stands still",
        "Run it again with NCCL_DEBUG=INFO; ansible-playbook playbooks/verify.yml tests the nodes' links",
        HALF,
    )


def _left_behind(waiting: _Waiting) -> Finding:
    """Name the ranks that did not come, and of those the ones that wait nowhere else."""
    behind, here, hosts = waiting.behind, waiting.here, waiting.hosts
    elsewhere = {rank: where for rank in behind if (where := _elsewhere(waiting.dumps[rank], waiting.name))}
    root = [rank for rank in behind if rank not in elsewhere]
    does = "".join(f"; rank {rank} waits in {where}" for rank, where in list(elsewhere.items())[:SHOWN])
    culprit = (root or behind)[0]
    last = _last(waiting.group.get(culprit))
    return waiting.finding(
        f"{ranks_of(behind)} did not come to {waiting.place}, in which {ranks_of(here)} wait{_s(here)}{does}",
        f"Look at what rank {culprit} does{_on(hosts, culprit)} after {last}: its log, and py-spy dump --pid of it."
        " All ranks have to call the same operations, with as many batches each",
        STOPS if root else MOST,
    )


def _different_operations(waiting: _Waiting) -> Finding | None:
    here = waiting.here
    parts = [(here[ranks[0]], ranks) for ranks in waiting.ranks_by(lambda stands: stands.operation)]
    if len(parts) == 1:
        return None
    said = ", ".join(f"{ranks_of(ranks)} in {stands.operation}" for stands, ranks in parts)
    lines = "; ".join(f"{stands.operation} is called at {_at(stands)}" for stands, _ranks in parts)
    return waiting.finding(
        f"the ranks call different operations as number {waiting.number} of {waiting.name}: {said}",
        f"Let every rank call the same operations in the same order: {lines}",
        STOPS,
    )


def _different_tensors(waiting: _Waiting) -> Finding | None:
    here = waiting.here
    unlike = waiting.ranks_by(lambda stands: (tuple(map(prod, stands.sizes)), tuple(stands.types)))
    if len(unlike) == 1 or next(iter(here.values())).operation not in ALIKE:
        return None
    said = ", ".join(f"{ranks_of(ranks)} give{_s(ranks)} {_tensors(here[ranks[0]])}" for ranks in unlike)
    return waiting.finding(
        f"the ranks give different sizes or types to {waiting.place}: {said}",
        f"Give the same sizes and types on every rank at {_at(here[unlike[0][0]])}; drop or fill the last batch"
        " (DataLoader(drop_last=True))",
        STOPS,
    )


def _s(ranks: Iterable[int]) -> str:
    """Return the s of the verb for a single rank."""
    return "s" if len(set(ranks)) == 1 else ""


def _on(hosts: Mapping[int, str], rank: int) -> str:
    return f" on {hosts[rank]}" if rank in hosts else ""


def _at(stands: Stands) -> str:
    return stands.place or "a line that was not recorded"


def _tensors(stands: Stands) -> str:
    shapes = (f"{kind} {tuple(size)}" for kind, size in zip(stands.types, stands.sizes))
    return ", ".join(shapes) or "nothing"


def _last(group: Group | None) -> str:
    return f"operation {group.last}" if group and group.last else "its start"


def _elsewhere(dump: Dump, name: str) -> str | None:
    """Return where a rank waits in another group than the one of this name."""
    for group in dump.groups:
        if group.name != name and group.stands:
            return f"{group.stands.operation}, operation {group.stands.number} of {group.name}"
    return None


def _seen(rank: int, group: Group | None, number: int, hosts: Mapping[int, str]) -> str:
    who = f"rank {rank}" + (f", {hosts[rank]}" if rank in hosts else "")
    if group and group.stands and group.stands.number == number:
        one = group.stands
        return f"{who}: {one.operation} of {_tensors(one)} at {_at(one)}, since {one.created}"
    return f"{who}: {_last(group)} was its last"


@rule("hang-collective", HANG, FLIGHT_RECORDER)
def collective(case: Case) -> Iterator[Finding]:
    """Find the operation in which the ranks stand, by the dumps of PyTorch's flight recorder."""
    yield from findings(case.evidence.dumps)


@rule("hang-nccl-warning", HANG, LOGGING)
def warning(case: Case) -> Iterator[Finding]:
    """Find what NCCL warned of in its log, and what is known of it."""
    for log in case.evidence.nccl_logs:
        record = case.process(log.pid)
        if not record or not case.is_asked(record):
            continue
        text = "\n".join(log.warnings)
        explained = next((one for one in pasted.errors(case.catalog, text) if one.cost), None)
        yield Finding(
            f"NCCL of {named(record)} warns: " + (explained.cause if explained else log.warnings[-1]),
            explained.remedy if explained else f"Read what came before it: less {log.path}",
            MOST if explained else SOME,
            (explained.evidence[0] if explained else log.warnings[-1], log.path),
            source=explained.source if explained else "",
        )
