# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Only one run works on a node at a time. A note on the node names it, until it ends or gives no sign of life.

No process of a run stays on the node between tasks, so each task of gpulab renews the note. Times count from the boot,
because nobody can set that clock; a boot removes the note.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.core import locks, records
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.runs import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCK = Path("/run/gpulab/run.json")
SILENCE = 300.0  # seconds without a sign of life after which a run counts as dead
_NAME = "run.lock"
KEPT = 10  # of the runs that lost the node to another one
LOOK, BEGIN, GO_ON, END = "look", "begin", "go on", "end"


class Run(TypedDict):
    """A run as the controller names it."""

    user: str
    machine: str
    boot: str
    pid: int
    started: int


class HoldingRun(Run):
    """The run that has the node: since when, when it was last seen (CLOCK_BOOTTIME), and which others lost it."""

    since: str
    seen: float
    over: list[Run]


def hold(run: Run, what: str, dead: Run | None = None, lock: Path = LOCK) -> bool:
    """Let a run LOOK at this node, BEGIN its work there, GO_ON with it, or END it. dead is a run known to have ended.

    Returns whether it began with this call. A run that did not begin may go on: it only reads. Raises Refusal S010
    where another run works here, S011 where another run took over the node from this one, and S022.
    """
    if what != BEGIN and not lock.exists():
        return False
    with _alone(lock.parent):
        held = _read(lock)
        if held and same(held, run):
            if what == END:
                records.remove(lock)
            else:
                records.write(lock, {**held, "seen": _now()})
        elif what == BEGIN and (held is None or _is_over(held, dead)):
            over = [*held["over"], _run(held)] if held else []
            since = time.strftime("%Y-%m-%d %H:%M:%S %Z")
            mine = _run(run)
            records.write(lock, {**mine, "since": since, "seen": _now(), "over": over[-KEPT:]})
            return True
        elif held and _is_over(held, dead) and what == LOOK:
            return False
        elif held and (what in (LOOK, BEGIN) or any(same(one, run) for one in held["over"])):
            seconds = max(0, round(_now() - held["seen"]))
            left = max(0, round(SILENCE - seconds))
            raise refuse("S010" if what in (LOOK, BEGIN) else "S011", **held, seconds=seconds, left=left)
    return False


def holder(lock: Path = LOCK) -> HoldingRun | None:
    """Return the run that works on the node; None where none does."""
    return _read(lock)


def same(one: Run, other: Run) -> bool:
    """Tell whether two notes are of the same run."""
    return _run(one) == _run(other)


def _run(of: Run) -> Run:
    return {
        "user": of["user"],
        "machine": of["machine"],
        "boot": of["boot"],
        "pid": of["pid"],
        "started": of["started"],
    }


def _is_over(holder: HoldingRun, dead: Run | None) -> bool:
    return (dead is not None and same(holder, dead)) or _now() - holder["seen"] > SILENCE


def _read(lock: Path) -> HoldingRun | None:
    try:
        return records.read(lock, HoldingRun, None)
    except Refusal:  # nobody can say any more whose it was
        return None


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Lock the note while this process reads and writes it. Raises Refusal S022."""
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    with locks.held(locks.place(_NAME, directory / locks.DIRECTORY.name)):
        yield
