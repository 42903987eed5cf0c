# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What gpulab's roles leave on a node, and what becomes of it: the roles declare it in meta/leaves.yml. No I/O here.

A pattern is one of rules.py. One that ends in a slash is for a directory itself, and one that does not is for anything
else, but for one that ends in /**. Of a receipt's items, {environment} stands for each Python environment that the role
answers for, {builds} for where its builds lie, and {file:PATTERN} for each file that fits the pattern.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.capture.rules import expression

if TYPE_CHECKING:
    from collections.abc import Iterator

COMES_BACK = "comes_back"  # the role makes it again
CACHE = "cache"  # nobody misses it
CAPTURED = "captured"  # a capture takes it along: others have a part in it, or it must survive
DATA = "data"  # nothing brings it back but a backup
FATES = (COMES_BACK, CACHE, CAPTURED, DATA)
_OF_RECEIPT = re.compile(r"\{(environment|builds|file)(?::([^}]*))?\}")


@dataclass(frozen=True)
class Leaf:
    """Paths that a role leaves, and what becomes of them."""

    role: str
    fate: str
    paths: list[str]


def rules(declared: list[Leaf], items: dict[str, list[str]]) -> list[tuple[str, str]]:
    """Return pairs of pattern and fate; items are those of receipts by role."""
    return [
        (pattern, one.fate)
        for one in declared
        for path in one.paths
        for pattern in _of_receipt(path, items.get(one.role, []))
    ]


def _of_receipt(path: str, items: list[str]) -> Iterator[str]:
    """Yield a pattern for each item of a receipt that it is for; the pattern itself where it is for none."""
    asked = _OF_RECEIPT.match(path)
    if asked is None:
        yield path
        return
    what, wanted, rest = asked[1], asked[2], path[asked.end() :]
    kind = "file" if what == "file" else "environment"
    for name in (item.partition(":")[2] for item in items if item.startswith(f"{kind}:")):
        if what == "file" and not re.fullmatch(expression(wanted), name, re.DOTALL):
            continue
        where = builds(name) if what == "builds" else name
        yield f"{_as_it_is(where)}{rest}"


def builds(environment: str) -> str:
    """Return where the builds of an environment lie."""
    directory, name = posixpath.split(environment)
    return f"{directory}/.builds/{name}"


def _as_it_is(path: str) -> str:
    """Return the pattern that fits a path and no other."""
    return re.sub(r"[*?[]", r"[\g<0>]", path)
