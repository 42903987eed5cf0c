# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of accounts whose numbers change: one walk gives them to the new numbers, and a second run ends it.

A number that is new to one account and old to another goes by way of a number that nobody has, so that a walk that was
cut off can begin again: while it runs, a record says how far it came.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
from typing import TYPE_CHECKING, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.core import beneath, records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Numbers = dict[int, int]
AWAY = 1 << 30  # added to a number that waits for its account
ACLS = ("system.posix_acl_access", "system.posix_acl_default")
CAPABILITY = "security.capability"
_HEAD, _ENTRY = struct.Struct("<I"), struct.Struct("<HHI")  # of linux/posix_acl_xattr.h
_NAMED = {0x02: 0, 0x08: 1}  # entries for a user, for a group
_SPECIAL = stat.S_ISUID | stat.S_ISGID
_LOST = "Without it, files may still have the numbers that accounts had before."


class Begun(TypedDict):
    """The record of a walk: the new number of each former one, and the directories that are done."""

    uids: dict[str, int]
    gids: dict[str, int]
    back: bool
    done: list[str]


class Renumbering:
    """A walk that is to be done, or was begun; its record is at place."""

    def __init__(self, place: Path) -> None:
        """Read what was begun. Raises Refusal H220."""
        self._place = place
        begun = records.read(place, Begun, None, _LOST) or {"uids": {}, "gids": {}, "back": False, "done": []}
        self.uids = {int(old): new for old, new in begun["uids"].items()}
        self.gids = {int(old): new for old, new in begun["gids"].items()}
        self._back = begun["back"]
        self._done = set(begun["done"])

    @property
    def begun(self) -> bool:
        """Whether an earlier run did not end its walk."""
        return bool(self.uids or self.gids)

    def begin(self, uids: Numbers, gids: Numbers) -> None:
        """Note what is to be done, before anything is."""
        self.uids, self.gids, self._back, self._done = uids, gids, False, set()
        self._note()

    def first(self, path: Path) -> None:
        """Give one tree its numbers at once: the home of who has to log in meanwhile. A link leads nowhere."""
        for each in _tree(str(path), set()):
            _chown(each, self.uids, self.gids)
        self._done.add(str(path))
        self._note()

    def finish(self, tops: list[str]) -> None:
        """Walk over these file systems, and forget the record."""
        away = [_by_way(numbers) for numbers in (self.uids, self.gids)]
        if not self._back:
            self._walk(tops, away[0][0], away[1][0])
            self._back = True
            self._note()
        self._walk(tops, away[0][1], away[1][1])
        records.remove(self._place)

    def _walk(self, tops: list[str], uids: Numbers, gids: Numbers) -> None:
        if uids or gids:
            for top in tops:
                for path in _tree(top, self._done):
                    _chown(path, uids, gids)

    def _note(self) -> None:
        numbers = {
            name: {str(old): new for old, new in one.items()}
            for name, one in (("uids", self.uids), ("gids", self.gids))
        }
        records.write(self._place, {**numbers, "back": self._back, "done": sorted(self._done)}, 0o600)


def _by_way(numbers: Numbers) -> tuple[Numbers, Numbers]:
    """Return what happens first, and what then: only numbers that are new to another account wait."""
    waiting = {old: new for old, new in numbers.items() if new in numbers}
    first = {old: new + AWAY if old in waiting else new for old, new in numbers.items()}
    return first, {new + AWAY: new for new in waiting.values()}


def _tree(top: str, skip: set[str]) -> Iterator[int]:
    """Yield all files of one file system below a directory, and itself; no other file system is entered.

    Each is held by a descriptor: people may put another one in its place meanwhile.
    """
    left: list[str] = []
    with contextlib.suppress(OSError), beneath.at(beneath.ROOT, top) as place, place.held() as held:
        device = os.fstat(held).st_dev
        yield held
        left += [top] if stat.S_ISDIR(os.fstat(held).st_mode) else []
    while left:
        path = left.pop()
        with contextlib.suppress(OSError), beneath.directory(beneath.ROOT, path) as directory:
            if os.fstat(directory).st_dev == device:
                for name, held in _listed(directory, device):
                    below = f"{path.rstrip('/')}/{name}"
                    if below not in skip:
                        yield held
                        left += [below] if stat.S_ISDIR(os.fstat(held).st_mode) else []


def _listed(directory: int, device: int) -> Iterator[tuple[str, int]]:
    for name in os.listdir(beneath.way(directory)):  # noqa: PTH208 - by a descriptor
        with contextlib.suppress(OSError), beneath.Place(directory, name, roots=False).held() as held:
            if os.fstat(held).st_dev == device:
                yield name, held


def _chown(held: int, uids: Numbers, gids: Numbers) -> None:
    """Give a file to the new numbers. The kernel drops special bits and capabilities with that, so they come again."""
    status, way = os.fstat(held), beneath.way(held)
    uid, gid = uids.get(status.st_uid, -1), gids.get(status.st_gid, -1)
    kept = None
    if uid != -1 or gid != -1:
        with contextlib.suppress(OSError):
            kept = os.getxattr(way, CAPABILITY)
        os.chown(way, uid, gid)
        if not stat.S_ISLNK(status.st_mode) and status.st_mode & _SPECIAL:
            os.chmod(way, stat.S_IMODE(status.st_mode))  # noqa: PTH101 - by a descriptor
        if kept is not None:
            os.setxattr(way, CAPABILITY, kept)
    if not stat.S_ISLNK(status.st_mode):
        _renumber_acls(way, uids, gids)


def _renumber_acls(way: str, uids: Numbers, gids: Numbers) -> None:
    for name in ACLS:
        with contextlib.suppress(OSError):
            before = os.getxattr(way, name)
            after = renumbered_acl(before, uids, gids)
            if after != before:
                os.setxattr(way, name, after)


def renumbered_acl(acl: bytes, uids: Numbers, gids: Numbers) -> bytes:
    """Return an access control list, as the kernel writes it, with new numbers."""
    entries = []
    for tag, permissions, number in _ENTRY.iter_unpack(acl[_HEAD.size :]):
        maps = (uids, gids)[_NAMED[tag]] if tag in _NAMED else {}
        entries.append((tag, permissions, maps.get(number, number)))
    return acl[: _HEAD.size] + b"".join(_ENTRY.pack(*one) for one in entries)
