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
        patterns, self._values = [], []
        for pattern, value in rules:
            patterns.append(f"({expression(pattern)})")
            self._values.append(value)
        self._all = re.compile("|".join(patterns), re.DOTALL) if patterns else None
        self._homes = frozenset(home.rstrip("/") for home in homes)

    def find(self, path: str) -> Value | None:
        """Return the value of the first pattern that fits a path; None where none does."""
        if self._all is None:
            return None
        numbers = [found.lastindex for name in self._names(path) if (found := self._all.fullmatch(name))]
        return self._values[min(number for number in numbers if number) - 1] if numbers else None

    def _names(self, path: str) -> Iterator[str]:
        """Yield a path, and how it is named from the home that it lies in."""
        yield path
        end = len(path)
        while end > 0:
            if path[:end] in self._homes:
                yield f"~{path[end:]}"
            end = path.rfind("/", 0, end)
