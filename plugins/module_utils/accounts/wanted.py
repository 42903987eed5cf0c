# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The people that an inventory names, and what is wrong with the lists alone. No I/O happens here."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.accounts import keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

NUMBERS = range(20000, 60000)  # above what adduser gives to the first people, below systemd's dynamic users
PRESENT, LEAVING, ABSENT = "present", "leaving", "absent"
EXPIRED = 1  # the day of shadow(5) on which the account of somebody who leaves has expired
NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_DAY_ZERO = date(1970, 1, 1)


@dataclass(frozen=True)
class Group:
    """A group of users_groups."""

    name: str
    gid: int


@dataclass(frozen=True)
class Person:
    """A person of users_people; until is the last day of the account, as it was written."""

    name: str
    uid: int
    groups: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    mail: str = ""
    until: str | None = None
    state: str = PRESENT
    heir: str | None = None
    quota: str = ""

    @property
    def last_day(self) -> date | None:
        """The last day; None where none is given. Raises ValueError where it is no date."""
        return date.fromisoformat(self.until) if self.until else None

    @property
    def expires(self) -> int | None:
        """The day since 1970 on which nobody gets in any more; None for never."""
        if self.state != PRESENT:
            return EXPIRED
        last = self.last_day
        return (last - _DAY_ZERO).days + 1 if last else None


@dataclass(frozen=True)
class Wanted:
    """Both lists, where homes are made, and whether the sessions of those who leave are ended."""

    groups: list[Group] = field(default_factory=list)
    people: list[Person] = field(default_factory=list)
    homes: str = "/home"
    leave_now: bool = False


def parse(groups: Iterable[Mapping[str, Any]], people: Iterable[Mapping[str, Any]], **further: Any) -> Wanted:
    """Return what the inventory wants; further are other fields of Wanted."""
    made = [
        Person(
            name=entry["name"],
            uid=entry["uid"],
            groups=tuple(entry.get("groups") or ()),
            keys=tuple(line.strip() for line in entry.get("keys") or ()),
            mail=entry.get("mail") or "",
            until=entry.get("until"),
            state=entry.get("state") or PRESENT,
            heir=entry.get("heir"),
            quota=entry.get("quota") or "",
        )
        for entry in people
    ]
    return Wanted([Group(entry["name"], entry["gid"]) for entry in groups], made, **further)


def problems(wanted: Wanted, today: date, expires: Mapping[str, int | None] | None = None) -> Iterator[tuple[str, str]]:
    """Yield (code, what is wrong) of the lists alone; expires are the days on which accounts of the node end, by name.

    A last day that has come is wrong only where an account has another one: a node that comes later, or is
    reinstalled, has none yet, and gets one that has expired.
    """
    yield from (("U001", text) for text in _contradictions(wanted))
    yield from (("U003", text) for text in _bad_keys(wanted.people))
    yield from (("U004", text) for text in _unclear_ends(wanted.people, today, expires or {}))
    staying = {person.name for person in wanted.people if person.state == PRESENT}
    for person in wanted.people:
        if person.heir is not None and (person.heir not in staying or person.heir == person.name):
            yield "U005", f"{person.heir!r}, the heir of {person.name!r}, is nobody who stays"


def _contradictions(wanted: Wanted) -> Iterator[str]:
    """Yield what two entries have in common; a person's own group has the person's name and number."""
    names, numbers = defaultdict(list), defaultdict(set)
    entries = [(group.name, group.gid) for group in wanted.groups]
    entries += [(person.name, person.uid) for person in wanted.people]
    for name, number in entries:
        names[name].append(number)
        numbers[number].add(name)
    yield from (f"{name!r} cannot be the name of an account" for name in names if not NAME.fullmatch(name))
    yield from (f"{name!r} is named {len(given)} times" for name, given in names.items() if len(given) > 1)
    for number, who in numbers.items():
        if len(who) > 1:
            yield f"{' and '.join(map(repr, sorted(who)))} have the number {number}"
    known = {group.name for group in wanted.groups}
    for person in wanted.people:
        for name in set(person.groups) - known:
            yield f"{person.name!r} is in the group {name!r}, which users_groups does not have"


def _bad_keys(people: Iterable[Person]) -> Iterator[str]:
    owners: dict[str, str] = {}
    for person in people:
        for place, line in enumerate(person.keys, 1):
            wrong = keys.problem(line)
            other = owners.setdefault(keys.body(line), person.name)
            if wrong:
                yield f"key {place} of {person.name!r} {wrong}"
            elif other != person.name:
                yield f"key {place} of {person.name!r} is a key of {other!r}, too"


def _unclear_ends(people: Iterable[Person], today: date, expires: Mapping[str, int | None]) -> Iterator[str]:
    for person in people:
        try:
            last = person.last_day
        except ValueError:
            yield f"until of {person.name!r} is no date"
            continue
        is_new = person.name in expires and expires[person.name] != person.expires
        if last and last < today and person.state == PRESENT and is_new:
            yield f"until of {person.name!r} was {last}, and the state is not leaving"
