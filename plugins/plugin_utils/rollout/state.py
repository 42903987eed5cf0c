# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of each node of a rollout, kept in <rollouts>/<run>/ on the controller.

rollout.json says what holds for the whole rollout, hosts/NAME.json what became of one node, and unsettled/ has
a file for each node whose change has begun in this run and has not ended well. A step of a node replaces the files of
that node alone, so that it costs the same among ten nodes and among ten thousand.

The record says where a run stopped. What a node needs is read from the node each time, never from here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.run_lock import Run  # noqa: TC002 - records looks for it
from ansible_collections.gpulab.node.plugins.plugin_utils.core.directory import locked
from ansible_collections.gpulab.node.plugins.plugin_utils.core.host_file import file_name, host_of
from ansible_collections.gpulab.node.plugins.plugin_utils.core.this_run import is_dead, this_run
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

SCHEMA = 2
FILE, HOSTS, UNSETTLED = "rollout.json", "hosts", "unsettled"
LOST = "gpulab does not know how far the rollout came."
# waiting: as before. draining to proving: on the way. busy: its users were not done in time. refused: not begun.
# console: somebody has to enrol its key for Secure Boot there.
WAITING, DRAINING, CHANGING, PROVING = "waiting", "draining", "changing", "proving"
DONE, CURRENT, BUSY, CONSOLE, REFUSED, FAILED = "done", "current", "busy", "console", "refused", "failed"
ON_THE_WAY = (DRAINING, CHANGING, PROVING)
OPEN = (WAITING, *ON_THE_WAY, BUSY, CONSOLE, REFUSED, FAILED)


def now() -> str:
    """Return this moment, UTC in ISO 8601."""
    return f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"


@dataclass(frozen=True)
class Refused:
    """Why nothing goes on: a refusal, or the words of a task that failed, then without a code."""

    code: str
    cause: str
    remedy: str


@dataclass
class Host:
    """A node of a rollout.

    before and after are what the report compares of it. out_since and back are when it was taken out of service, and
    brought back. again: it still has this rollout's fence. begun: its change had begun when the last run ended. place:
    its number in the order of the last run, from 0; None where that run leaves it alone.
    """

    kind: str
    due: list[str]
    state: str = WAITING
    since: str = field(default_factory=now)
    out_since: str | None = None
    back: str | None = None
    before: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)
    refusal: Refused | None = None
    again: bool = False
    begun: bool = field(default=False, metadata=records.LATER)
    place: int | None = field(default=None, metadata=records.LATER)


@dataclass
class Rollout:
    """A rollout. An earlier gpulab kept the hosts in the rollout's own file, too."""

    run: str
    holder: Run
    schema: int = SCHEMA
    began: str = field(default_factory=now)
    stopped: Refused | None = None
    canaries: list[str] = field(default_factory=list)
    proven: list[str] = field(default_factory=list)
    hosts: dict[str, Host] = field(default_factory=dict, metadata=records.LATER)

    @property
    def order(self) -> list[str]:
        """Return the nodes that this run changes, in their order."""
        places = {name: entry.place for name, entry in self.hosts.items() if entry.place is not None}
        return sorted(places, key=places.__getitem__)


def come_again(entry: Host, *, fenced: bool) -> None:
    """Note whether a node still has this rollout's fence, and whether its change had begun when the last run ended."""
    begun = entry.begun or entry.state in (CHANGING, PROVING, FAILED)
    entry.again, entry.begun = fenced, fenced and begun


def runs(directory: Path) -> list[Path]:
    """Return the files of all rollouts, the newest first."""
    return sorted(directory.glob(f"*/{FILE}"), reverse=True)


def read(path: Path, names: Iterable[str] | None = None) -> Rollout:
    """Return a rollout with all its hosts, by their names, or with those of these names that it has.

    Raises Refusal H220 where its record is damaged, FileNotFoundError where there is none.
    """
    rollout = records.read(path, Rollout, None, LOST)
    if rollout is None:
        raise FileNotFoundError(path)
    files = (path.parent / HOSTS).glob("*.json") if names is None else (_file(path, name) for name in names)
    for file in sorted(files):
        entry = records.read(file, Host, None, LOST)
        if entry is not None:
            rollout.hosts[host_of(file.stem)] = entry
    return rollout


def write(path: Path, rollout: Rollout) -> None:
    """Write the record of a rollout whose run begins: no change of a node has begun yet. Raises Refusal H221."""
    for name, entry in rollout.hosts.items():
        records.write(_file(path, name), asdict(entry))
    shutil.rmtree(path.parent / UNSETTLED, ignore_errors=True)
    _write_whole(path, rollout)


def _write_whole(path: Path, rollout: Rollout) -> None:
    """Write what holds for the whole rollout; the hosts have files of their own."""
    whole = asdict(replace(rollout, schema=SCHEMA, hosts={}))
    del whole["hosts"]
    records.write(path, whole)


def _file(path: Path, name: str) -> Path:
    return path.parent / HOSTS / f"{file_name(name)}.json"


def unfinished(directory: Path) -> Rollout | None:
    """Return the newest rollout if it is not at its end. Raises Refusal F002 while another run works on it, H220."""
    newest = next(iter(runs(directory)), None)
    if newest is None:
        return None
    rollout = read(newest)
    if _is_at_work(rollout.holder):
        raise refuse("F002", run=rollout.run, **rollout.holder)
    return rollout if any(entry.state in OPEN for entry in rollout.hosts.values()) else None


def _is_at_work(holder: Run) -> bool:
    """Tell whether a run of this machine is alive; that of another machine shows by its locks on the nodes."""
    here = this_run(os.getppid())
    of_here = (holder["machine"], holder["boot"]) == (here["machine"], here["boot"])
    return of_here and (holder["pid"], holder["started"]) != (here["pid"], here["started"]) and not is_dead(holder)


@contextlib.contextmanager
def changing(path: Path, name: str) -> Iterator[tuple[Rollout, Host]]:
    """Give a rollout and one of its hosts to be changed, and write both. Raises H220, H221.

    Hosts of one batch come one after the other.
    """
    with locked(path.parent):
        rollout = read(path, [name])
        entry = rollout.hosts[name]
        yield rollout, entry
        unsettled_file = path.parent / UNSETTLED / file_name(name)
        if entry.state in (*ON_THE_WAY, FAILED, REFUSED):
            unsettled_file.parent.mkdir(exist_ok=True)
            unsettled_file.touch()
        records.write(_file(path, name), asdict(entry))
        _write_whole(path, rollout)
        if entry.state in (DONE, BUSY, CONSOLE):
            unsettled_file.unlink(missing_ok=True)


def unsettled(path: Path, batch: Iterable[str]) -> dict[str, Host]:
    """Return the hosts outside a batch whose change has begun in this run and has not ended well, by their names."""
    directory = path.parent / UNSETTLED
    names = {host_of(file.name) for file in directory.iterdir()} if directory.is_dir() else set()
    others = names.difference(batch)
    return read(path, others).hosts if others else {}


def enter(entry: Host, state: str) -> None:
    """Let a node be in this state from now on."""
    entry.state, entry.since = state, now()
    if state == DRAINING:
        entry.out_since = entry.out_since if entry.again else entry.since
        entry.back = entry.refusal = None
    if state in (DONE, BUSY, CONSOLE, REFUSED) and entry.out_since and not entry.back:
        entry.back = entry.since


def out_seconds(entry: Host) -> int | None:
    """Return for how long a node was out of service; None where it was not, or still is."""
    if not entry.out_since or not entry.back:
        return None
    return int((datetime.fromisoformat(entry.back) - datetime.fromisoformat(entry.out_since)).total_seconds())


def last_seconds(directory: Path, names: Iterable[str]) -> dict[str, int]:
    """Return for how long each of these nodes was out of service the last time that a rollout changed it."""
    found: dict[str, int] = {}
    missing = set(names)
    for path in runs(directory):
        for name, entry in read(path, missing).hosts.items():
            seconds = out_seconds(entry) if entry.state == DONE else None
            if seconds is not None:
                found.setdefault(name, seconds)
        missing -= found.keys()
        if not missing:
            break
    return found


def refused(refusal: Refusal) -> Refused:
    """Return a refusal as a rollout keeps it."""
    return Refused(refusal.code, refusal.cause, refusal.remedy)


def obstacle(rollout: Rollout, name: str, others: Mapping[str, Host]) -> Refused | None:
    """Return the refusal that keeps a node from being changed now, none where its turn has come.

    A node that failed or was lost on the way stops those after it, and so does a kind of which no node is proven.
    others has those whose change began before the node's batch and has not ended well.
    """
    if rollout.stopped:
        return rollout.stopped
    for other, entry in others.items():
        if entry.state in (FAILED, REFUSED) and entry.refusal:
            cause, remedy = entry.refusal.cause.rstrip("."), entry.refusal.remedy
            return refused(refuse("F005", host=other, cause=cause, remedy=remedy))
        if entry.state in ON_THE_WAY:
            return refused(refuse("F012", host=other, state=entry.state, since=entry.since))
    mine = rollout.hosts[name]
    if name not in rollout.canaries and not mine.again and mine.kind not in rollout.proven:
        return refused(refuse("F011", detail=f"none of {', '.join(rollout.canaries) or 'them'} was proven"))
    return None
