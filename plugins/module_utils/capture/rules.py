# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Patterns of paths, many at a time. No I/O happens here.

A pattern is an absolute path in which * and ? stand for characters but no slash, ** for any, and [abc] for one of
these. One that ends in /** stands for the directory, too. One that begins with ~ is for each home. The first pattern
that fits a path counts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Value = TypeVar("Value")
_SIGN = re.compile(r"(/\*\*$)|(\*\*)|(\*)|(\?)|(\[[^]]+\])")
ANY = "*"
_MEANINGS = ("(?:/.*)?", ".*", "[^/]*", "[^/]")


def expression(pattern: str) -> str:
    """Return a pattern as a regular expression for a whole path."""
    found, at = "", 0
    for sign in _SIGN.finditer(pattern):
        number = sign.lastindex or 0
        found += re.escape(pattern[at : sign.start()])
        found += _MEANINGS[number - 1] if number <= len(_MEANINGS) else sign[0]
        at = sign.end()
    return found + re.escape(pattern[at:])


class Rules(Generic[Value]):
    """Values by patterns."""

    def __init__(self, rules: Iterable[tuple[str, Value]], homes: Iterable[str] = ()) -> None:
        """Take pairs of pattern and value, and the homes that ~ stands for."""
        ordered = list(rules)
        self._values = [value for _pattern, value in ordered]
        tops = [_top(pattern) for pattern, _value in ordered]
        self._by_top = {
            top: _Group([(number, ordered[number][0]) for number, its in enumerate(tops) if its in (top, ANY)])
            for top in {ANY, *tops}
        }
        self._homes = frozenset(home.rstrip("/") for home in homes)
        self._directory = ""
        self._inside: list[tuple[str, _Group]] = []

    def find(self, path: str) -> Value | None:
        """Return the value of the first pattern that fits a path; None where none does.

        It is fastest for one path after the other in the same directory.
        """
        if not self._values:
            return None
        directory, _slash, name = path.rpartition("/")
        if path in self._homes or not directory:
            names = [(each, self._group(each)) for each in self._names(path)]
        else:
            if directory != self._directory:
                self._directory = directory
                self._inside = [(f"{each}/", self._group(f"{each}/")) for each in self._names(directory)]
            names = [(each + name, group) for each, group in self._inside]
        numbers = [number for each, group in names if (number := group.first(each)) is not None]
        return self._values[min(numbers)] if numbers else None

    def _group(self, name: str) -> _Group:
        return self._by_top.get(_top(name), self._by_top[ANY])

    def _names(self, path: str) -> Iterator[str]:
        """Yield a path, and how it is named from the home that it lies in."""
        yield path
        end = len(path)
        while end > 0:
            if path[:end] in self._homes:
                yield f"~{path[end:]}"
            end = path.rfind("/", 0, end)


class _Group:
    """Patterns for paths that begin alike, with their numbers: hundreds of them would be tried for each path."""

    def __init__(self, patterns: list[tuple[int, str]]) -> None:
        self._numbers = [number for number, _pattern in patterns]
        self._all = re.compile(
            "|".join(f"({expression(pattern)})" for _number, pattern in patterns) or "(?!)", re.DOTALL
        )

    def first(self, name: str) -> int | None:
        """Return the number of the first pattern that fits."""
        found = self._all.fullmatch(name)
        return self._numbers[found.lastindex - 1] if found and found.lastindex else None


def _top(name: str) -> str:
    """Return what a path or a pattern begins with: a directory of the root, ~, or ANY where the pattern is open."""
    top = name[:1] if name.startswith("~") else name[1:].partition("/")[0]
    return ANY if _SIGN.search(top) or not name.startswith(("/", "~")) else top
