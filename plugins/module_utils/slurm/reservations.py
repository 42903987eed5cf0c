# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes and GPUs that Slurm keeps for somebody at a time: what has to change so that it has them. No I/O happens here.

Slurm says itself which of them are gpulab's, by their comment, and forgets them when they are over.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible_collections.gpulab.node.plugins.module_utils.slurm import attempts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

SHOW = ("scontrol", "--oneliner", "show", "reservation")
OWN = "gpulab"  # the comment of a reservation that gpulab made
TIME = "%Y-%m-%dT%H:%M:%S"  # local time of the controller, as scontrol writes and reads it
_FIELD = re.compile(r"(?:^|\s)([A-Za-z]\w*)=(\S*)")
_DURATION = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d\d))?(?::(\d\d))?")
_NONE = ("", "(null)")


@dataclass(frozen=True)
class Reservation:
    """Nodes, or a number of GPUs on any node, for these users and accounts, from start to end in local time."""

    name: str
    start: datetime
    end: datetime
    nodes: tuple[str, ...] = ()
    gpus: int = 0
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()


class Step(NamedTuple):
    """A command of scontrol's, and how the preview calls it: an action and a thing."""

    arguments: tuple[str, ...]
    action: str
    what: str


class Booking(NamedTuple):
    """A reservation of anybody's, whose nodes Slurm has chosen; start and end in seconds since 1970."""

    name: str
    start: float
    end: float
    nodes: tuple[str, ...]


def bookings(text: str) -> list[Booking]:
    """Parse the output of SHOW, whoever made them."""
    found = [dict(_FIELD.findall(line)) for line in text.splitlines() if line.startswith("ReservationName=")]
    return [
        Booking(
            fields["ReservationName"],
            attempts.seconds(fields.get("StartTime", "")),
            attempts.seconds(fields.get("EndTime", "")),
            tuple(attempts.hosts(listed)) if (listed := fields.get("Nodes", "")) not in _NONE else (),
        )
        for fields in found
    ]


def of_run(run: str, node: str = "") -> str:
    """Return what the reservation of a node by a run is called; without a node, how all of the run's begin."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", f"gpulab-{run}-{node}")


def book(name: str, node: str, end: float, *, again: bool) -> list[str]:
    """Return the command after which no further job starts on a node until the end; running jobs go on.

    again moves the end of one that is there. Slurm refuses it where another reservation has the node, as it would not
    with the flag MAINT.
    """
    until = f"EndTime={time.strftime(TIME, time.localtime(end))}"
    if again:
        return ["scontrol", "update", f"ReservationName={name}", until]
    more = ("StartTime=now", until, f"Nodes={node}", "Users=root", "Flags=IGNORE_JOBS")
    return ["scontrol", "create", "reservation", f"ReservationName={name}", *more]


def give_up(name: str) -> list[str]:
    """Return the command that ends a reservation."""
    return ["scontrol", "delete", f"ReservationName={name}"]


def moment(text: str) -> datetime:
    """Return a time of the controller, to be compared with others of it. Raises ValueError."""
    return datetime.strptime(text, TIME).replace(tzinfo=timezone.utc)


def wanted(entries: Iterable[Mapping[str, Any]]) -> list[Reservation]:
    """Return the reservations of the inventory. Raises ValueError for a start or a duration that is none."""
    return [_wanted(entry) for entry in entries]


def _wanted(entry: Mapping[str, Any]) -> Reservation:
    start = moment(entry["start"])
    length = _DURATION.fullmatch(entry["duration"])
    if not length:
        raise ValueError(entry["duration"])
    days, hours, minutes, seconds = (int(text or 0) for text in length.groups())
    end = start + timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    lists = {name: tuple(sorted(entry.get(name) or ())) for name in ("nodes", "users")}
    accounts = tuple(sorted(entry.get("groups") or ()))
    return Reservation(entry["name"], start, end, gpus=entry.get("gpus") or 0, accounts=accounts, **lists)


def problems(entries: Sequence[Mapping[str, Any]], *, accounts: bool) -> Iterator[tuple[str, str]]:
    """Yield what an entry lacks: its name, and what it needs. accounts tells whether groups are accounts of Slurm."""
    names = [str(entry["name"]) for entry in entries]
    for entry in entries:
        name = f"slurm_reservations {entry['name']}"
        if names.count(entry["name"]) > 1:
            yield name, "a name of its own"
        if bool(entry.get("nodes")) == bool(entry.get("gpus")):
            yield name, "either nodes or gpus"
        if not (entry.get("users") or entry.get("groups")):
            yield name, "users or groups"
        if entry.get("groups") and not accounts:
            yield name, "slurm_accounts: true, as it is for groups"
        try:
            _wanted(entry)
        except ValueError:
            yield name, "a start that the calendar has"


def parse(text: str, hostnames: Callable[[str], str]) -> tuple[list[Reservation], set[str]]:
    """Return gpulab's reservations as SHOW has them, and the names of those of others.

    The nodes of one that asks for GPUs are Slurm's choice, and left out; hostnames tells which are meant by a[1-2].
    """
    found, others = [], set()
    for line in text.splitlines():
        fields = dict(_FIELD.findall(line))
        if "ReservationName" not in fields:
            continue
        if fields.get("Comment") != OWN:
            others.add(fields["ReservationName"])
            continue
        gpus = re.search(r"gres/gpu=(\d+)", fields.get("TRES", ""))
        is_counted = gpus is not None and "SPEC_NODES" not in fields.get("Flags", "")
        found.append(
            Reservation(
                fields["ReservationName"],
                moment(fields["StartTime"]),
                moment(fields["EndTime"]),
                () if is_counted else tuple(sorted(hostnames(fields["Nodes"]).split())),
                int(gpus[1]) if gpus and is_counted else 0,
                _names(fields.get("Users", "")),
                _names(fields.get("Accounts", "")),
            )
        )
    return found, others


def _names(text: str) -> tuple[str, ...]:
    return () if text in _NONE else tuple(sorted(text.split(",")))


def steps(wanted: Iterable[Reservation], there: Iterable[Reservation], now: datetime) -> Iterator[Step]:
    """Yield what has to be done, in its order: what goes makes room first, and what is over is left alone."""
    asked = {one.name: one for one in wanted if one.end > now}
    present = {one.name: _begun(one, asked.get(one.name), now) for one in there}
    # Slurm takes another number of GPUs without a word, and leaves it as it was.
    again = {name for name, one in present.items() if name in asked and one.gpus != asked[name].gpus}
    for name in sorted(present.keys() - asked.keys() | again):
        yield Step(("delete", f"ReservationName={name}"), "delete", f"reservation {name}")
    for name, one in asked.items():
        if name not in present or name in again:
            start = one.start.strftime(TIME) if one.start > now else "now"
            yield Step(("create", *_settings(one, f"StartTime={start}")), "make", f"reservation {name}")
        elif one != present[name]:
            moved = [f"StartTime={one.start.strftime(TIME)}"] if one.start != present[name].start else []
            yield Step(("update", *_settings(one, *moved), *_emptied(one)), "set", f"reservation {name}")


def _begun(there: Reservation, asked: Reservation | None, now: datetime) -> Reservation:
    """Return a reservation with the start that it is to have, where both are over: nobody can change it any more."""
    over = asked is not None and asked.start <= now and there.start <= now
    return replace(there, start=asked.start) if asked and over else there


def _settings(one: Reservation, *times: str) -> Iterator[str]:
    yield f"ReservationName={one.name}"
    yield from times
    yield f"EndTime={one.end.strftime(TIME)}"
    yield from (f"{field}={','.join(names)}" for field, names in _lists(one) if names)
    yield f"TRES=gres/gpu={one.gpus}" if one.gpus else f"Nodes={','.join(one.nodes)}"
    yield f"Comment={OWN}"


def _emptied(one: Reservation) -> Iterator[str]:
    """Yield what takes the last name off a list; Slurm makes no reservation with it."""
    yield from (f"{field}=" for field, names in _lists(one) if not names)


def _lists(one: Reservation) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return ("Users", one.users), ("Accounts", one.accounts)
