# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What differs between two captures of a host, as data. Of a secret file it says at most that its content changed.

Values are compared part by part. Items of a list belong together by what names them; a list in which nothing does is
compared as a set.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

SCHEMA = 1
ADDED, GONE, CHANGED = "added", "gone", "changed"
# What names the items of a list, by the list's name; for others, the first of ANY that names each of them.
NAMES = {
    "users": ("name",),
    "groups": ("name",),
    "unnamed": ("kind", "id"),
    "packages": ("name", "architecture"),
    "streams": ("name",),
    "pins": ("file", "packages"),
    "sources": ("file", "name", "uris", "suite"),
    "keys": ("file",),
    "cron": ("path", "user", "command"),
    "units": ("path",),
    "timers": ("path",),
    "environments": ("path",),
    "files": ("path",),
    "remainder": ("path",),
    "filesystems": ("mount",),
    "exports": ("path", "client"),
    "engines": ("program",),
}
ANY = (("serial",), ("uuid",), ("mount",), ("path",), ("name",), ("id",), ("file",), ("source",))
# Changes by themselves, or is said elsewhere: fill levels, ages, what runs at the moment, the proof's results.
PASSING = frozenset(
    {"active", "age_hours", "baseline", "facts", "links", "read_back", "snapshot", "status", "taken", "used"}
)
PARTS = ("machine", "sections", "kept", "acknowledged", "receipts", "remainder", "files")
CONTENT = "content"


@dataclass(frozen=True)
class Change:
    """A difference: change is added, gone or changed; subject are the names that lead to it, from its section down."""

    section: str
    change: str
    subject: list[str]
    before: Any
    after: Any


@dataclass(frozen=True)
class Comparison:
    """What differs between two captures of a host, which are known by their times.

    unknown are the paths of secret files of which nobody knows whether their content changed.
    """

    schema: int
    host: str
    former: str
    later: str
    changes: list[Change]
    unknown: list[str]


def compare(former: Mapping[str, Any], later: Mapping[str, Any], secrets: Mapping[str, bool | None]) -> Comparison:
    """Compare two manifests, as they were written.

    secrets tells of files that are secret in both captures whether their content changed; None, or no word, means that
    nobody knows, and unknown then has the path, where its size has not changed.
    """
    before, after = _plain(former, secrets, 0), _plain(later, secrets, 1)
    _leave_to_roles(before, after)
    changes = [
        Change(subject[0], change, subject[1:], one, other)
        for part in PARTS
        for subject, change, one, other in _differences(
            {part: before[part]} if part != "sections" else before[part],
            {part: after[part]} if part != "sections" else after[part],
            [],
        )
    ]
    sizes = [{one["path"]: one["size"] for one in capture["files"] if one.get("secret")} for capture in (former, later)]
    unknown = [path for path in sizes[0] if sizes[1].get(path) == sizes[0][path] and secrets.get(path) is None]
    return Comparison(SCHEMA, later["host"], former["made"], later["made"], changes, unknown)


def _plain(manifest: Mapping[str, Any], secrets: Mapping[str, bool | None], side: int) -> dict[str, Any]:
    """Return the compared parts; a file's content stands for its SHA-256, and for a secret's size and change."""
    files = []
    for entry in manifest["files"]:
        content = entry.get("sha256")
        if entry.get("secret"):
            content = [entry["size"], side if secrets.get(entry["path"]) else 0]
        files.append(
            {**{key: value for key, value in entry.items() if key not in ("sha256", "size")}, CONTENT: content}
        )
    return {**{part: manifest[part] for part in PARTS}, "files": files}


def _leave_to_roles(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Take out the files of one side that are there on the other, too: as a role's, which a capture does not hold."""
    for side, other in ((before, after), (after, before)):
        receipts = other["sections"].get("gpulab", {}).get("receipts", {})
        of_roles = {item for items in receipts.values() for item in items}
        held = {entry["path"] for entry in other["files"]}
        side["files"] = [
            entry for entry in side["files"] if entry["path"] in held or f"file:{entry['path']}" not in of_roles
        ]


_Difference = tuple[list[str], str, Any, Any]


def _differences(before: Any, after: Any, subject: list[str]) -> Iterator[_Difference]:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _of_objects(_lasting(before), _lasting(after), subject)
    elif isinstance(before, list) and isinstance(after, list) and (not subject or subject[-1] != CONTENT):
        yield from _of_lists(before, after, subject)
    else:
        yield subject, CHANGED, before, after


def _lasting(value: dict[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in value.items() if name not in PASSING}


def _of_objects(before: dict[str, Any], after: dict[str, Any], subject: list[str]) -> Iterator[_Difference]:
    for name in [*before, *(name for name in after if name not in before)]:
        if name in before and name in after:
            yield from _differences(before[name], after[name], [*subject, name])
        elif name in before:
            yield [*subject, name], GONE, before[name], None
        else:
            yield [*subject, name], ADDED, None, after[name]


def _of_lists(before: list[Any], after: list[Any], subject: list[str]) -> Iterator[_Difference]:
    name = _naming(before, after, subject[-1])
    if name:
        yield from _of_objects({name(one): one for one in before}, {name(one): one for one in after}, subject)
        return
    texts = {_text(one): one for one in (*before, *after)}
    counts = Counter(map(_text, before)), Counter(map(_text, after))
    yield from (([*subject, _label(texts[one])], GONE, texts[one], None) for one in counts[0] - counts[1])
    yield from (([*subject, _label(texts[one])], ADDED, None, texts[one]) for one in counts[1] - counts[0])


def _naming(before: list[Any], after: list[Any], of: str) -> Callable[[Any], str] | None:
    """Return what names each item of two lists, each another; None where nothing does."""
    if of == "lock" and _is_unique(package_of, before) and _is_unique(package_of, after):
        return package_of
    if not all(isinstance(one, dict) for one in (*before, *after)):
        return None
    for keys in [NAMES[of]] if of in NAMES else ANY:
        if not all(one.get(key) for one in (*before, *after) for key in keys[:1]):
            continue

        def name(one: Any, keys: tuple[str, ...] = keys) -> str:
            return " ".join(_label(one.get(key)) for key in keys if one.get(key) not in (None, "", []))

        if _is_unique(name, before) and _is_unique(name, after):
            return name
    return None


def _is_unique(name: Callable[[Any], str], items: list[Any]) -> bool:
    return len({name(one) for one in items}) == len(items)


def package_of(line: str) -> str:
    """Return the package that a line of a lock names: name==version, name @ address, or conda's address of a file."""
    line = line.split("#sha256", 1)[0].removeprefix("# pip ").removeprefix("-e ")
    for mark in ("==", " @ "):
        if mark in line:
            return line.split(mark, 1)[0].strip()
    return line.rsplit("/", 1)[-1].rsplit("-", 2)[0] if "/" in line else line


def _label(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ",".join(value)
    return value if isinstance(value, str) else _text(value)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
