# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which collective operation a job hangs in, and by which rank, from the dumps of its ranks and NCCL's warnings."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from math import prod
from typing import TYPE_CHECKING

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

    from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import Case, Dump, Group, Stands

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
        jobs[dump["files"]].append(dump)
    for files, found in jobs.items():
        of_one_hang = _together(found)
        places = {rank: host for (name, rank), host in (hosts or {}).items() if name == files}
        for finding in _job({dump["rank"]: dump for dump in of_one_hang}, places):
            unread = [dump for dump in of_one_hang if dump["problem"]]
            yield Finding(
                finding.cause,
                finding.remedy,
                finding.cost,
                (
                    f"{files}*, written until {max(dump['written'] for dump in of_one_hang)}",
                    *finding.evidence,
                    *(f"rank {dump['rank']}: its dump cannot be read ({dump['problem']})" for dump in unread[:SHOWN]),
                ),
                "hang-collective",
                HANG,
                FLIGHT_RECORDER,
            )


def _together(dumps: list[Dump]) -> list[Dump]:
    """Return the dumps of the last hang: one for each rank, and none of an earlier one."""
    newest = {dump["rank"]: dump for dump in sorted(dumps, key=lambda one: one["written"])}
    last = max(map(_time, newest.values()))
    return [dump for _rank, dump in sorted(newest.items()) if last - _time(dump) <= TOGETHER]


def _time(dump: Dump) -> datetime:
    return datetime.strptime(dump["written"], "%Y-%m-%dT%H:%M:%S%z")


def _job(dumps: dict[int, Dump], hosts: Mapping[int, str]) -> Iterator[Finding]:
    """Yield a finding for each process group of a job that waits, in the order in which they began to."""
    groups: dict[tuple[str, tuple[int, ...]], dict[int, Group]] = defaultdict(dict)
    for rank, dump in dumps.items():
        for group in dump["groups"]:
            groups[group["name"], tuple(group["ranks"])][rank] = group
    waiting = [
        (min(created), members, found) for (_name, members), found in groups.items() if (created := _since(found))
    ]
    for _created, members, found in sorted(waiting, key=lambda one: one[0]):
        # A member that has called nothing in this group yet is not in `found`, but its dump is there.
        read = {rank for rank, dump in dumps.items() if not dump["problem"]}
        yield _group(members or tuple(sorted(found)), found, read, dumps, hosts)


def _since(group: dict[int, Group]) -> list[str]:
    return [one["stands"]["created"] or "" for one in group.values() if one["stands"]]


def _group(
    members: tuple[int, ...], group: dict[int, Group], read: set[int], dumps: dict[int, Dump], hosts: Mapping[int, str]
) -> Finding:
    standing = {rank: one["stands"] for rank, one in group.items() if one["stands"]}
    number = min(one["number"] for one in standing.values())
    here = {rank: one for rank, one in standing.items() if one["number"] == number}
    name = next(iter(group.values()))["name"]
    behind = [rank for rank in members if rank in read and (rank not in group or group[rank]["last"] < number)]
    absent = [rank for rank in members if rank not in read]
    first = next(iter(here.values()))
    place = f"{first['operation']}, operation {number} of {name}"
    seen = tuple(_seen(rank, group.get(rank), number, hosts) for rank in [*behind, *here][:SHOWN])
    if behind:
        elsewhere = {rank: where for rank in behind if (where := _elsewhere(dumps[rank], name))}
        root = [rank for rank in behind if rank not in elsewhere]
        does = "".join(f"; rank {rank} waits in {where}" for rank, where in list(elsewhere.items())[:SHOWN])
        culprit = (root or behind)[0]
        last = _last(group.get(culprit))
        return Finding(
            f"{ranks_of(behind)} did not come to {place}, in which {ranks_of(here)} wait{_s(here)}{does}",
            f"Look at what rank {culprit} does{_on(hosts, culprit)} after {last}: its log, and py-spy dump --pid of it."
            " All ranks have to call the same operations, with as many batches each",
            STOPS if root else MOST,
            seen,
        )
    operations = defaultdict(list)
    for rank, one in here.items():
        operations[one["operation"]].append(rank)
    if len(operations) > 1:
        parts = sorted(operations.items(), key=lambda one: len(one[1]))
        said = ", ".join(f"{ranks_of(ranks)} in {operation}" for operation, ranks in parts)
        lines = "; ".join(f"{operation} is called at {_at(here[ranks[0]])}" for operation, ranks in parts)
        return Finding(
            f"the ranks call different operations as number {number} of {name}: {said}",
            f"Let every rank call the same operations in the same order: {lines}",
            STOPS,
            seen,
        )
    given = defaultdict(list)
    for rank, one in here.items():
        given[tuple(map(prod, one["sizes"])), tuple(one["types"])].append(rank)
    if len(given) > 1 and first["operation"] in ALIKE:
        unlike = sorted(given.values(), key=len)
        said = ", ".join(f"{ranks_of(ranks)} give{_s(ranks)} {_tensors(here[ranks[0]])}" for ranks in unlike)
        return Finding(
            f"the ranks give different sizes or types to {place}: {said}",
            f"Give the same sizes and types on every rank at {_at(here[unlike[0][0]])}; drop or fill the last batch"
            " (DataLoader(drop_last=True))",
            STOPS,
            seen,
        )
    if absent:
        return Finding(
            f"{ranks_of(here)} wait{_s(here)} in {place}; {ranks_of(absent)} left no dump that was read",
            "Ask all nodes of the job: -l NODE,...; one without a dump has died: read the first error in its log",
            MOST,
            seen,
        )
    return Finding(
        f"all ranks wait in {place}: none is missing, and what moves the data stands still",
        "Run it again with NCCL_DEBUG=INFO; ansible-playbook playbooks/verify.yml tests the nodes' links",
        HALF,
        seen,
    )


def _s(ranks: Iterable[int]) -> str:
    """Return the s of the verb for a single rank."""
    return "s" if len(set(ranks)) == 1 else ""


def _on(hosts: Mapping[int, str], rank: int) -> str:
    return f" on {hosts[rank]}" if rank in hosts else ""


def _at(stands: Stands) -> str:
    return stands["place"] or "a line that was not recorded"


def _tensors(stands: Stands) -> str:
    shapes = (f"{kind} {tuple(size)}" for kind, size in zip(stands["types"], stands["sizes"]))
    return ", ".join(shapes) or "nothing"


def _last(group: Group | None) -> str:
    return f"operation {group['last']}" if group and group["last"] else "its start"


def _elsewhere(dump: Dump, name: str) -> str | None:
    """Return where a rank waits in another group than the one of this name."""
    for group in dump["groups"]:
        if group["name"] != name and group["stands"]:
            return f"{group['stands']['operation']}, operation {group['stands']['number']} of {group['name']}"
    return None


def _seen(rank: int, group: Group | None, number: int, hosts: Mapping[int, str]) -> str:
    who = f"rank {rank}" + (f", {hosts[rank]}" if rank in hosts else "")
    if group and group["stands"] and group["stands"]["number"] == number:
        one = group["stands"]
        return f"{who}: {one['operation']} of {_tensors(one)} at {_at(one)}, since {one['created']}"
    return f"{who}: {_last(group)} was its last"


@rule("hang-collective", HANG, FLIGHT_RECORDER)
def collective(case: Case) -> Iterator[Finding]:
    """Find the operation in which the ranks stand, by the dumps of PyTorch's flight recorder."""
    yield from findings(case.evidence["dumps"])


@rule("hang-nccl-warning", HANG, LOGGING)
def warning(case: Case) -> Iterator[Finding]:
    """Find what NCCL warned of in its log, and what is known of it."""
    for log in case.evidence["nccl_logs"]:
        record = case.process(log["pid"])
        if not record or not case.is_asked(record):
            continue
        text = "\n".join(log["warnings"])
        explained = next((one for one in pasted.errors(case.catalog, text) if one.cost), None)
        yield Finding(
            f"NCCL of {named(record)} warns: " + (explained.cause if explained else log["warnings"][-1]),
            explained.remedy if explained else f"Read what came before it: less {log['path']}",
            MOST if explained else SOME,
            (explained.evidence[0] if explained else log["warnings"][-1], log["path"]),
            source=explained.source if explained else "",
        )
