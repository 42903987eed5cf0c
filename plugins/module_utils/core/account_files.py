# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of passwd(5), group(5), shadow(5), gshadow(5), subuid(5) and subgid(5).

A line counts only as a whole: with a name, with as many fields as its file has, and with numbers where these stand.
Comments and lines of NIS (+ and -) do not. No I/O happens here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

PASSWD, GROUP, SHADOW, GSHADOW = "/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow"
SUBUID, SUBGID = "/etc/subuid", "/etc/subgid"
# By file: how many fields a line has, and which of them are numbers.
_FORMS: dict[str, tuple[int, tuple[int, ...]]] = {
    PASSWD: (7, (2, 3)),
    GROUP: (4, (2,)),
    SHADOW: (9, ()),
    GSHADOW: (4, ()),
    SUBUID: (3, (1, 2)),
    SUBGID: (3, (1, 2)),
}


class User(NamedTuple):
    """A line of passwd(5); password is what stands in its second field."""

    name: str
    password: str
    uid: int
    gid: int
    gecos: str
    home: str
    shell: str


class Group(NamedTuple):
    """A line of group(5)."""

    name: str
    password: str
    gid: int
    members: tuple[str, ...]


class Secret(NamedTuple):
    """What shadow(5) has of a user: the hash, and the day since 1970 on which the account expires, None for never."""

    hash: str
    expires: int | None


@dataclass(frozen=True)
class Range:
    """A line of subuid(5) or subgid(5): who (a name or a number) has which numbers for containers."""

    who: str
    first: int
    count: int


def number(text: str) -> int | None:
    """Return the number of a user or a group; None where a text is none."""
    return int(text) if re.fullmatch(r"[0-9]{1,10}", text) else None


def fields(file: str, line: str) -> list[str] | None:
    """Return the fields of a line of one of these files; None where it is no whole one."""
    count, numbers = _FORMS[file]
    found = line.split(":")
    whole = len(found) == count and found[0] and not line.startswith(("#", "+", "-"))
    return found if whole and all(number(found[place]) is not None for place in numbers) else None


def rows(file: str, text: str) -> list[list[str]]:
    """Return the fields of each whole line of one of these files."""
    return [found for line in text.split("\n") if (found := fields(file, line)) is not None]


def users(text: str) -> list[User]:
    """Return the users of passwd(5), or of what getent printed."""
    return [User(row[0], row[1], int(row[2]), int(row[3]), *row[4:]) for row in rows(PASSWD, text)]


def groups(text: str) -> list[Group]:
    """Return the groups of group(5), or of what getent printed."""
    return [
        Group(name, password, int(gid), tuple(filter(None, map(str.strip, members.split(",")))))
        for name, password, gid, members in rows(GROUP, text)
    ]


def secrets(text: str) -> dict[str, Secret]:
    """Return by name what shadow(5) has of users."""
    return {row[0]: Secret(row[1], number(row[7])) for row in reversed(rows(SHADOW, text))}


def ranges(text: str) -> list[Range]:
    """Return the ranges of subuid(5) or subgid(5)."""
    return [Range(who, int(first), int(count)) for who, first, count in rows(SUBUID, text)]
