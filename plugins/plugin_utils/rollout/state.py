# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of each node of a rollout: <rollouts>/<run>/rollout.json on the controller, replaced at each step.

It says where a run stopped. What a node needs is read from the node each time, never from here.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import asdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.run_lock import Run  # noqa: TC002 - records looks for it
from ansible_collections.gpulab.node.plugins.plugin_utils.directory import locked
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse
from ansible_collections.gpulab.node.plugins.plugin_utils.this_run import is_dead, this_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = 1
FILE = "rollout.json"
# waiting: as before. draining to proving: on the way. busy: its users were not done in time. refused: not begun.
WAITING, DRAINING, CHANGING, PROVING = "waiting", "draining", "changing", "proving"
DONE, CURRENT, BUSY, REFUSED, FAILED = "done", "current", "busy", "refused", "failed"
ON_THE_WAY = (DRAINING, CHANGING, PROVING)
OPEN = (WAITING, *ON_THE_WAY, BUSY, REFUSED, FAILED)


class Refused(TypedDict):
    """Why nothing goes on."""

    code: str
    cause: str
    remedy: str


class _Begun(TypedDict, total=False):
    begun: bool


class Host(_Begun):
    """A node of a rollout."""

    state: str
    since: str
    kind: str
    due: list[str]
    out_since: str | None
    back: str | None
    before: dict[str, Any]
    after: dict[str, Any]
    refusal: Refused | None
    again: bool


class Rollout(TypedDict):
    """A rollout, as its record has it."""

    schema: int
    run: str
    began: str
    holder: Run
    stopped: Refused | None
    order: list[str]
    canaries: list[str]
    proven: list[str]
    hosts: dict[str, Host]


def now() -> str:
    """Return this moment, UTC in ISO 8601."""
    return f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"


def new(run: str, holder: Run) -> dict[str, Any]:
    """Return a rollout without nodes."""
    empty: dict[str, Any] = {"order": [], "canaries": [], "proven": [], "hosts": {}}
    return {"schema": SCHEMA, "run": run, "began": now(), "holder": holder, "stopped": None, **empty}


def host(kind: str, due: list[str]) -> dict[str, Any]:
    """Return a node that waits for its turn."""
    times = {"since": now(), "out_since": None, "back": None}
    return {
        "state": WAITING,
        **times,
        "kind": kind,
        "due": due,
        "before": {},
        "after": {},
        "refusal": None,
        "again": False,
    }


def come_again(entry: dict[str, Any], *, fenced: bool) -> None:
    """Note whether a node still has this rollout's fence, and whether its change had begun when the last run ended."""
    begun = entry.get("begun", False) or entry["state"] in (CHANGING, PROVING, FAILED)
    entry.update(again=fenced, begun=fenced and begun)


def runs(directory: Path) -> list[Path]:
    """Return the files of all rollouts, the newest first."""
    return sorted(directory.glob(f"*/{FILE}"), reverse=True)


def read(path: Path) -> dict[str, Any]:
    """Return a rollout. Raises Refusal H220 where its record is damaged."""
    found: Any = records.read(path, Rollout, None, "gpulab does not know how far the rollout came.")
    document: dict[str, Any] = found
    return document


def unfinished(directory: Path) -> Path | None:
    """Return the newest rollout if it is not at its end. Raises Refusal F002 while another run works on it, H220."""
    newest = next(iter(runs(directory)), None)
    if newest is None:
        return None
    document = read(newest)
    if _is_at_work(document["holder"]):
        raise refuse("F002", run=document["run"], **document["holder"])
    return newest if any(one["state"] in OPEN for one in document["hosts"].values()) else None


def _is_at_work(holder: Run) -> bool:
    """Tell whether a run of this machine is alive; that of another machine shows by its locks on the nodes."""
    here = this_run(os.getppid())
    of_here = (holder["machine"], holder["boot"]) == (here["machine"], here["boot"])
    return of_here and (holder["pid"], holder["started"]) != (here["pid"], here["started"]) and not is_dead(holder)


@contextlib.contextmanager
def changing(path: Path) -> Iterator[dict[str, Any]]:
    """Give a rollout to be changed, and write it; hosts of one batch come one after the other. Raises H220, H221."""
    with locked(path.parent):
        document = read(path)
        yield document
        records.write(path, document)


def enter(entry: dict[str, Any], state: str) -> None:
    """Let a node be in this state from now on."""
    entry.update(state=state, since=now())
    if state == DRAINING:
        entry.update(out_since=entry["out_since"] if entry["again"] else entry["since"], back=None, refusal=None)
    if state in (DONE, BUSY, REFUSED) and entry["out_since"] and not entry["back"]:
        entry["back"] = entry["since"]


def out_seconds(entry: dict[str, Any]) -> int | None:
    """Return for how long a node was out of service; None where it was not, or still is."""
    if not entry["out_since"] or not entry["back"]:
        return None
    return int((datetime.fromisoformat(entry["back"]) - datetime.fromisoformat(entry["out_since"])).total_seconds())


def last_seconds(directory: Path) -> dict[str, int]:
    """Return for how long each node was out of service the last time that a rollout changed it."""
    found: dict[str, int] = {}
    for path in runs(directory):
        for name, entry in read(path)["hosts"].items():
            seconds = out_seconds(entry) if entry["state"] == DONE else None
            if seconds is not None:
                found.setdefault(name, seconds)
    return found


def obstacle(document: dict[str, Any], name: str, batch: list[str]) -> dict[str, str] | None:
    """Return the refusal that keeps a node from being changed now, none where its turn has come.

    A node that failed or was lost on the way stops those after it, and so does a kind of which no node is proven.
    """
    if document["stopped"]:
        return dict(document["stopped"])
    for other in document["order"]:
        entry = document["hosts"][other]
        if other == name or other in batch:
            continue
        if entry["state"] in (FAILED, REFUSED) and entry["refusal"]:
            why = {"cause": entry["refusal"]["cause"].rstrip("."), "remedy": entry["refusal"]["remedy"]}
            return asdict(refuse("F005", host=other, **why))
        if entry["state"] in ON_THE_WAY:
            return asdict(refuse("F012", host=other, state=entry["state"], since=entry["since"]))
    mine = document["hosts"][name]
    if name not in document["canaries"] and not mine["again"] and mine["kind"] not in document["proven"]:
        return asdict(refuse("F011", detail=f"none of {', '.join(document['canaries']) or 'them'} was proven"))
    return None
