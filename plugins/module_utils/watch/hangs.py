# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a job of several ranks hangs, and which rank the others wait for. No I/O happens here.

A hang needs stacks that were equal in three looks at least, no work on the network and nothing read or written; a rank
that sends, reads or writes makes it none. A rank that is gone or stopped is a fact. All else is a suspicion, for a
program may compute for long. A slow start is one where ranks wait for others that have not come to them yet; only
stacks of Python show it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.watch.looks import (
    COLLECTIVE_WORDS,
    FILES,
    NETWORK,
    STACKS,
    STARTING_WORDS,
    RankLook,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.slurm.attempts import Attempt
    from ansible_collections.gpulab.node.plugins.module_utils.watch.reports import Report

HANG, SUSPICION, SLOW_START = "hang", "suspicion", "slow start"
FRESH = 150  # seconds for which a report counts
LOOKS = 3  # looks at a stack that have to be equal
SHOWN = 8  # ranks that a cause names
LONGEST = 100  # characters of a line of a stack
STOPPED = ("T", "t")

Ranks = dict[int, tuple[str, RankLook]]  # of each rank its node


def find(
    attempt: Attempt, reports: Mapping[str, Report], now: float, silence: float, grace: float
) -> tuple[str, str, list[str], list[str]] | None:
    """Return (what is seen, cause, nodes, evidence) of a job that hangs; None for one that goes on, or is not known.

    silence: seconds for which nothing may have changed; grace: seconds after its start in which none is called a hang.
    A slow start is told in these, too.
    """
    there = {name: reports[name] for name in attempt.nodes if name in reports and _says(reports[name], now)}
    if attempt.state != "RUNNING" or len(there) < len(attempt.nodes):
        return None
    ranks: Ranks = {
        one.rank: (name, one) for name, said in there.items() for one in said.ranks or () if one.job == attempt.job
    }
    late = max([silence, *(2 * one.longest for _name, one in ranks.values())])
    still = [
        one for name, one in ranks.values() if one.looks >= LOOKS and _stands(one.still_since, there[name], now, late)
    ]
    slow = _slow_start(attempt, ranks, there, now, late)
    if slow or now - attempt.start < grace:
        return slow
    moving = {number: one for number, one in ranks.items() if one[1] not in still}
    if 2 * len(still) < max(2, len(ranks)) or any(_works(one, there[name], now, late) for name, one in moving.values()):
        return None
    since = min(now - late, max(one.still_since or now for one in still))
    seen, cause, nodes = _cause(attempt, ranks, moving)
    what = sorted({name for one in still for name in one.quiet})
    return (
        seen,
        cause,
        nodes,
        [f"since {_clock(since)} at the latest, {len(still)} of {len(ranks)} ranks stand: {', '.join(what)}"],
    )


def _slow_start(
    attempt: Attempt, ranks: Ranks, there: Mapping[str, Report], now: float, late: float
) -> tuple[str, str, list[str], list[str]] | None:
    """Return what find returns where ranks have waited for the others of their job for so many seconds; else None.

    Their stacks alone count: who waits asks PyTorch's store again and again, which is some kilobytes a second.
    """
    here = {number: one for number, one in ranks.items() if one[1].at == STARTING_WORDS}
    away = {number: one for number, one in ranks.items() if number not in here}
    waiting = [
        one
        for name, one in here.values()
        if one.looks >= LOOKS and _stands(one.quiet.get(STACKS), there[name], now, late)
    ]
    if not waiting or any(one.at == COLLECTIVE_WORDS for _name, one in away.values()):
        return None
    size = max(one.size for one in waiting)
    missing = [number for number in range(min(size, len(ranks) + SHOWN)) if number not in ranks]
    evidence = [f"since {_clock(now - late)} at the latest, {len(waiting)} of {size} ranks wait in {STARTING_WORDS}"]
    if away:
        evidence += [f"rank {number} on {away[number][0]} {_place(away[number][1])}" for number in sorted(away)[:SHOWN]]
        return SLOW_START, f"{_named(away)} has not come to where the others wait", _nodes(away), evidence
    if missing:
        empty = sorted({*attempt.nodes} - {*_nodes(ranks)}) or attempt.nodes
        return SLOW_START, f"rank {_numbers(missing)} of {size} is not there, and the others wait", empty, evidence
    return SLOW_START, "all ranks wait for each other: they do not get connected", attempt.nodes, evidence


def _place(one: RankLook) -> str:
    """Return where a rank is that the others wait for."""
    if one.state in STOPPED:
        return "is stopped"
    where = f"is in {one.at[:LONGEST]}" if one.at else "shows no stack of Python"
    return f"{where}, and waits in the kernel, as for a disk or a file system" if one.state == "D" else where


def _clock(since: float) -> str:
    return time.strftime("%H:%M", time.localtime(since))


def _says(report: Report, now: float) -> bool:
    return report.ranks is not None and now - report.received <= FRESH


def _stands(since: float | None, report: Report, now: float, late: float) -> bool:
    """Tell whether something has stood for long enough; the time is that of the node's clock."""
    return since is not None and now - since - report.received + report.sent >= late


def _works(one: RankLook, report: Report, now: float, late: float) -> bool:
    """Tell whether a rank has sent, received, read or written something."""
    return not all(_stands(one.quiet.get(name), report, now, late) for name in (NETWORK, FILES))


def _cause(attempt: Attempt, ranks: Ranks, moving: Ranks) -> tuple[str, str, list[str]]:
    size = max(one.size for _name, one in ranks.values())
    gone = [number for number in range(min(size, len(ranks) + SHOWN)) if number not in ranks]
    stopped = {number: one for number, one in ranks.items() if one[1].state in STOPPED}
    waiting = {number: one for number, one in ranks.items() if one[1].state == "D"}
    told = {number: one for number, one in ranks.items() if one[1].at}
    outside = {number: one for number, one in told.items() if one[1].at != COLLECTIVE_WORDS}
    if gone:
        return HANG, f"rank {_numbers(gone)} of {size} is gone, and the others wait", attempt.nodes
    if stopped:
        return HANG, f"{_named(stopped)} is stopped, and the others wait", _nodes(stopped)
    if waiting:
        return SUSPICION, f"{_named(waiting)} waits in the kernel, as for a disk or a file system", _nodes(waiting)
    if outside and 2 * len(outside) < len(told):
        return (
            SUSPICION,
            f"{_named(outside)} is not in the collective operation that the others are in",
            _nodes(outside),
        )
    if moving:
        return SUSPICION, f"{_named(moving)} computes and sends nothing, and the others wait", _nodes(moving)
    return SUSPICION, "no rank goes on, and none stands elsewhere than the others", attempt.nodes


def _numbers(numbers: Iterable[int]) -> str:
    listed = sorted(numbers)
    return ", ".join(map(str, listed[:SHOWN])) + (" and others" if len(listed) > SHOWN else "")


def _named(ranks: Ranks) -> str:
    return f"rank {_numbers(ranks)} on {', '.join(_nodes(ranks))}"


def _nodes(ranks: Ranks) -> list[str]:
    return sorted({name for name, _one in ranks.values()})
