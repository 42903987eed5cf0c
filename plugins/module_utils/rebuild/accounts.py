# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Accounts and groups of a rebuilt node: they get the numbers that they had, and no account of the new system goes.

Texts are those of passwd(5), shadow(5), group(5), gshadow(5), subuid(5). No I/O happens here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import account_files
from ansible_collections.gpulab.node.plugins.module_utils.core.account_files import (
    GROUP,
    GSHADOW,
    PASSWD,
    SHADOW,
    SUBGID,
    SUBUID,
    Range,
    number,
)
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.rebuild import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

FILES = (GROUP, GSHADOW, PASSWD, SHADOW, SUBUID, SUBGID)  # in the order in which they are written
SECTION = "accounts"
LEAST = 1000  # UID_MIN of login.defs where it says nothing else
SYSTEM, PEOPLE = range(999, 99, -1), 60000  # numbers for system accounts, and the end of those for people
_EXPIRES = 7  # the field of shadow(5)
_LOCKED = "!"

Table = dict[str, list[str]]


@dataclass(frozen=True)
class Node:
    """What is asked about the node.

    host is its name in the inventory, user who Ansible connects as; least is the first number of a person,
    same_release tells whether the system is the one that was captured, has_shell whether a program is there. restored
    and restored_groups are what an earlier run brought back: what people changed of them since stays. today is the day
    since 1970; reserved are numbers that own files and that no local account of the capture has: users', groups'.
    """

    host: str
    user: str
    least: int = LEAST
    same_release: bool = True
    has_shell: Callable[[str], bool] = bool
    restored: Collection[str] = ()
    restored_groups: Collection[str] = ()
    today: int = 0
    reserved: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())


@dataclass
class Plan:
    """What is to be done.

    texts are new texts of files, uids and gids numbers that change, old to new; whole and whole_groups are what has all
    that it had before; lacking are names, and why they have not.
    """

    texts: dict[str, str] = field(default_factory=dict)
    uids: dict[int, int] = field(default_factory=dict)
    gids: dict[int, int] = field(default_factory=dict)
    whole: list[str] = field(default_factory=list)
    whole_groups: list[str] = field(default_factory=list)
    lacking: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class _File:
    """A file: its accounts by name, in their order, and the lines that are none, as those of NIS."""

    table: Table
    others: list[str]

    def text(self) -> str:
        return "".join(f"{line}\n" for line in [*map(":".join, self.table.values()), *self.others])


def parse(path: str, text: str) -> _File:
    """Read a file like passwd(5)."""
    found = _File({}, [])
    for line in text.split("\n"):
        fields = account_files.fields(path, line)
        if fields:
            found.table.setdefault(fields[0], fields)
        elif line.strip():
            found.others.append(line)
    return found


def plan(now: Mapping[str, str], captured: Mapping[str, str], node: Node) -> Plan:
    """Return what changes; now and captured have the texts by path. Raises Refusal R041."""
    new = {path: parse(path, now.get(path, "")) for path in FILES}
    old = {path: parse(path, captured.get(path, "")) for path in FILES}
    made = Plan()
    for path in (PASSWD, GROUP):
        made.lacking += [(line.partition(":")[0], f"{path} had a line that is no account") for line in old[path].others]
    old_users = _there(old[PASSWD].table, new[PASSWD].table, node.restored)
    old_groups = _there(old[GROUP].table, new[GROUP].table, node.restored_groups)
    primary = frozenset(int(fields[3]) for fields in old_users.values())
    gids = _numbers(new[GROUP].table, old_groups, node, node.reserved[1] | primary)
    uids = _numbers(new[PASSWD].table, old_users, node, node.reserved[0])
    made.gids, made.uids = _moves(new[GROUP].table, gids), _moves(new[PASSWD].table, uids)

    users = _users(new[PASSWD].table, old_users, uids, gids, new[GROUP].table, node, made)
    tables = {
        GROUP: _groups(new[GROUP].table, old_groups, gids, node.restored_groups),
        GSHADOW: _gshadow(new[GSHADOW].table, old[GSHADOW].table, node.restored_groups),
        PASSWD: users,
        SHADOW: _shadow(new[SHADOW].table, old[SHADOW].table, users, node, made),
    }
    for path, table in tables.items():
        text = _File(table, new[path].others).text()
        if text != now.get(path, "") and (table or path in now):
            made.texts[path] = text
    for path in (SUBUID, SUBGID):
        text = _ranges(now.get(path, ""), captured.get(path, ""), node.restored)
        if text != now.get(path, "") and path in captured:
            made.texts[path] = text
    incomplete = {name for name, _why in made.lacking}
    made.whole = [name for name in old_users if name not in incomplete]
    made.whole_groups = list(old_groups)
    return made


def _there(captured: Table, now: Table, restored: Collection[str]) -> Table:
    """Return what was captured, but for what somebody removed after it had come back."""
    return {name: fields for name, fields in captured.items() if name in now or name not in restored}


def _numbers(now: Table, captured: Table, node: Node, reserved: Iterable[int]) -> dict[str, int]:
    """Return the number of each name, users or groups: a captured one has its own, another one its own if it is free.

    root stays 0 in any case.
    """
    found = {name: int(fields[2]) for name, fields in captured.items()}
    found.update((name, 0) for name, fields in now.items() if int(fields[2]) == 0)
    taken = {*found.values(), *reserved}
    used = taken | {int(fields[2]) for fields in now.values()}
    for name, fields in now.items():
        own = int(fields[2])
        if name in found:
            continue
        if own in taken:
            own = _free(own, used, node)
        found[name] = own
        used.add(own)
    return found


def _free(former: int, used: Collection[int], node: Node) -> int:
    candidates: Iterable[int] = SYSTEM if former < node.least else range(node.least, PEOPLE)
    for candidate in candidates:
        if candidate not in used and (former >= node.least or candidate < node.least):
            return candidate
    raise refuse("R041", host=node.host, detail=f"no number is free for the one that is {former} now")


def _moves(now: Table, numbers: Mapping[str, int]) -> dict[int, int]:
    moves: dict[int, int] = {}
    for name, fields in now.items():
        moves.setdefault(int(fields[2]), numbers[name])
    return {former: new for former, new in moves.items() if former != new}


def _users(  # noqa: PLR0913, PLR0917 - the parts of one table
    now: Table, captured: Table, uids: dict[str, int], gids: dict[str, int], groups: Table, node: Node, made: Plan
) -> Table:
    by_gid: dict[str, str] = {}
    for name, fields in groups.items():
        by_gid.setdefault(fields[2], name)
    found: Table = {}
    for name, fields in now.items():
        group = by_gid.get(fields[3])
        own = [*fields[:2], str(uids[name]), str(gids[group]) if group else fields[3], *fields[4:]]
        if name in captured:
            own[3] = captured[name][3] if uids[name] else own[3]
            is_person = int(captured[name][2]) >= node.least or uids[name] == 0
            if name not in node.restored and (node.same_release or is_person):
                own[4:] = _described(name, captured[name], fields, node, made)
        found[name] = own
    for name, fields in captured.items():
        found.setdefault(name, fields)
    return found


def _described(name: str, captured: list[str], now: list[str], node: Node, made: Plan) -> list[str]:
    """Return gecos, home and shell; a shell that is not there yet would lock out who Ansible connects as."""
    gecos, home, shell = captured[4:]
    if name == node.user:
        if home != now[5]:
            made.lacking.append(
                (name, f"its home was {home}; it stays {now[5]}, where the keys of this connection are")
            )
        if shell != now[6] and not node.has_shell(shell or "/bin/sh"):
            made.lacking.append((name, f"its shell {shell} is not there yet"))
            shell = now[6]
        home = now[5]
    return [gecos, home, shell]


def _members(*lists: str) -> str:
    return ",".join(dict.fromkeys(one for text in lists for one in text.split(",") if one))


def _groups(now: Table, captured: Table, gids: dict[str, int], restored: Collection[str]) -> Table:
    found = {name: [*fields[:2], str(gids[name]), fields[3]] for name, fields in now.items()}
    for name, fields in captured.items():
        own = found.get(name, fields)
        members = own[3] if name in restored else _members(own[3], fields[3])
        found[name] = [*own[:2], str(gids[name]), members]
    return found


def _gshadow(now: Table, captured: Table, restored: Collection[str]) -> Table:
    """Return the lines of gshadow: a password as captured where the new system has none."""
    found = dict(now)
    for name, fields in captured.items():
        if name in restored:
            continue
        own = found.get(name, fields)
        password = fields[1] if own[1] in ("", "!", "*") else own[1]
        found[name] = [name, password, _members(own[2], fields[2]), _members(own[3], fields[3])]
    return found


def _shadow(now: Table, captured: Table, users: Table, node: Node, made: Plan) -> Table:
    found = dict(now)
    for name, user in users.items():
        former = captured.get(name)
        if former and name not in node.restored:
            found[name] = former
            expires = number(former[_EXPIRES])
            if name == node.user and expires is not None and expires <= node.today:
                made.lacking.append((name, "its account had expired; it stays open for this connection"))
                found[name] = [*former[:_EXPIRES], "", *former[_EXPIRES + 1 :]]
        elif name not in found and user[1] == "x":
            found[name] = [name, _LOCKED, *[""] * 7]
            made.lacking.append((name, "its password was not captured; it is locked"))
    return found


def _overlap(one: Range, other: Range) -> bool:
    return one.first < other.first + other.count and other.first < one.first + one.count


def _apart(one: Range, fixed: list[Range], every: list[Range]) -> Range:
    """Return a range, behind all others where it overlaps one that is fixed."""
    if one in fixed or not any(_overlap(one, other) for other in fixed):
        return one
    return replace(one, first=max(each.first + each.count for each in every))


def _ranges(now: str, captured: str, restored: Collection[str]) -> str:
    """Return subuid or subgid: captured ranges as they were; one of the new system that overlaps them is moved."""
    new = account_files.ranges(now)
    came = [one for one in account_files.ranges(captured) if one.who not in restored]
    names = {one.who for one in came}
    fixed = [*came, *(one for one in new if one.who in restored)]
    found: list[Range] = []
    for one in new:
        if one.who in names:
            found += [each for each in came if each.who == one.who and each not in found]
        else:
            found.append(_apart(one, fixed, [*fixed, *new, *found]))
    found += [one for one in came if one not in found]
    others = [line for line in now.split("\n") if line.strip() and not account_files.ranges(line)]
    return "".join(f"{line}\n" for line in [*(f"{one.who}:{one.first}:{one.count}" for one in found), *others])
