# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far an acceptance came, kept in <acceptances>/<run>/acceptance.json on the controller.

The file is replaced after each measurement. The same command goes on with a run that was cut off: what was measured
decides what comes next, see ladder.py.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.run_lock import Run  # noqa: TC002 - records looks for it
from ansible_collections.gpulab.node.plugins.module_utils.facts.fence import TIME
from ansible_collections.gpulab.node.plugins.plugin_utils.acceptance.ladder import Ladder, Result, Verdicts, Wanted
from ansible_collections.gpulab.node.plugins.plugin_utils.core.directory import locked
from ansible_collections.gpulab.node.plugins.plugin_utils.core.this_run import is_dead, this_run
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = 1
FILE = "acceptance.json"
LOST = "gpulab does not know what the acceptance has measured."


@dataclass
class Floor:
    """The least bus bandwidth in GB/s that counts as passed, and who says so; no value where siblings do."""

    value: float | None
    source: str
    statistic: str


@dataclass
class Measured:
    """One measurement: the step of the ladder, the nodes, and what came of it; rates are in GB/s.

    transport is the backend and the interface that the nodes met over.
    """

    step: str
    nodes: list[str]
    rate: float | None
    lowest: float | None
    highest: float | None
    why: str
    transport: str
    at: str
    seconds: float


@dataclass
class Node:
    """A node as it was when the acceptance began; why: what is wrong with it before anything is measured."""

    domain: str | None
    boards: str
    serial: str
    serials: list[str]
    boot: str
    versions: dict[str, str]
    untested: str = ""
    failed: str = ""


@dataclass
class Acceptance:
    """An acceptance on its way. ended is empty until its certificate is written.

    left_out says what is not tried at all, allowed names the nodes that may stay untested. pending is when the
    measurement that was begun last will have ended on the nodes, in seconds since 1970; 0 where none was begun. until
    is when fenced nodes are back in service (UTC), and empty where they are not fenced.
    """

    run: str
    holder: Run
    began: str
    reason: str
    share: float
    floor: Floor
    nodes: dict[str, Node]
    schema: int = SCHEMA
    left_out: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)
    results: list[Measured] = field(default_factory=list)
    pending: float = field(default=0.0, metadata=records.LATER)
    until: str = field(default="", metadata=records.LATER)
    ended: str = ""

    @property
    def candidates(self) -> dict[str, str | None]:
        """Return the nodes that are measured, with the label of their domain."""
        return {name: node.domain for name, node in self.nodes.items() if not node.untested and not node.failed}

    @property
    def seconds(self) -> float:
        """Return how long the measurements took so far."""
        return sum(measured.seconds for measured in self.results)


def unfinished(directory: Path, names: set[str]) -> Acceptance | None:
    """Return the newest acceptance of just these nodes that is not at its end.

    Raises Refusal F146 while another run works on it, H220 where its record is damaged.
    """
    for path in sorted(directory.glob(f"*/{FILE}"), reverse=True):
        found = read(path)
        if found.ended or {*found.nodes} != names:
            continue
        here = this_run(os.getppid())
        of_here = (found.holder["machine"], found.holder["boot"]) == (here["machine"], here["boot"])
        mine = (found.holder["pid"], found.holder["started"]) == (here["pid"], here["started"])
        if of_here and not mine and not is_dead(found.holder):
            raise refuse("F146", run=found.run, **found.holder)
        return found
    return None


def read(path: Path) -> Acceptance:
    """Return an acceptance. Raises Refusal H220, FileNotFoundError where there is none."""
    found = records.read(path, Acceptance, None, LOST)
    if found is None:
        raise FileNotFoundError(path)
    return found


def write(path: Path, acceptance: Acceptance) -> None:
    """Replace the record. Raises Refusal H221."""
    records.write(path, asdict(acceptance))


@contextlib.contextmanager
def changing(path: Path) -> Iterator[Acceptance]:
    """Give an acceptance to be changed, and write it. Raises H220, H221."""
    with locked(path.parent):
        acceptance = read(path)
        yield acceptance
        write(path, acceptance)


def standing(acceptance: Acceptance, most_seconds: float, each_seconds: float = 0) -> tuple[Wanted | None, Verdicts]:
    """Return the group to measure next, None at the end, and the verdicts so far.

    Times are in seconds: what all groups may take together, 0 without end, and what one of them may take.

    Climbs by the results that there are. A result of another group than the ladder asks for ends it: the record was
    changed by hand, or by another gpulab; what follows is measured again.
    """
    ladder = Ladder(acceptance.candidates, acceptance.floor.value, acceptance.share)
    steps = ladder.climb()
    known = 0
    try:
        wanted = next(steps)
        for measured in acceptance.results:
            if (wanted.step, list(wanted.nodes)) != (measured.step, measured.nodes):
                break
            known += 1
            wanted = steps.send(Result(measured.rate, measured.lowest, measured.highest, measured.why))
        if most_seconds and acceptance.seconds >= most_seconds:
            ladder.give_up(steps, f"the time for all measurements is over ({most_seconds / 60:g} minutes)")
            return None, ladder.verdicts
        if acceptance.until and time.strftime(TIME, time.gmtime(time.time() + each_seconds)) > acceptance.until:
            ladder.give_up(steps, f"no measurement would have ended by {acceptance.until}, when the nodes are back")
            return None, ladder.verdicts
    except StopIteration:
        return None, ladder.verdicts
    finally:
        del acceptance.results[known:]
    return wanted, ladder.verdicts
