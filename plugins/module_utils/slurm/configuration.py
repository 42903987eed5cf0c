# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a slurm.conf says, read as Slurm reads it.

Keywords have no case, a value may stand in quotes, "#" begins a comment, a backslash at the end goes on with the next
line, and Include brings in another file at its place. A line NodeName=DEFAULT or PartitionName=DEFAULT sets what later
lines get that do not say otherwise; several of them add up. See https://slurm.schedmd.com/slurm.conf.html and
src/common/parse_config.c of Slurm. No I/O happens here.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

DIRECTORY = "/etc/slurm"
DEEPEST = 8  # files that include each other
NODE, PARTITION = "nodename", "partitionname"
# What takes the rest of its line for its own.
_RECORDS = (NODE, PARTITION, "downnodes", "frontendname", "nodeset", "switchname")
_PAIR = re.compile(r'\s*([A-Za-z0-9_.]+)\s*[-*+/]?=\s*(?:"([^"]*)"|([^\s"]*))(?=\s|$)')
_INCLUDE = re.compile(r"\s*include\s+(\S+)", re.IGNORECASE)
_COMMENT = re.compile(r"(?<!\\)((?:\\\\)*)#.*")
_GOES_ON = re.compile(r"(?<!\\)(?:\\\\)*(\\)\s*\Z")


@dataclass(frozen=True)
class Configuration:
    """A slurm.conf: its settings, and what DEFAULT gives, by keywords in small letters; and its partitions by name."""

    settings: dict[str, str] = field(default_factory=dict)
    node_defaults: dict[str, str] = field(default_factory=dict)
    partition_defaults: dict[str, str] = field(default_factory=dict)
    partitions: dict[str, dict[str, str]] = field(default_factory=dict)

    def has(self, name: str, word: str) -> bool:
        """Tell whether a setting that is a list with commas holds a word."""
        return word in [one.strip().lower() for one in self.settings.get(name.lower(), "").split(",")]


def pairs(line: str) -> dict[str, str]:
    """Return the settings of a line without a comment, by keywords in small letters, in its order."""
    found = ((pair[1].lower(), pair[2] or pair[3] or "") for pair in _PAIR.finditer(line))
    return {key: re.sub(r"\\(.)", r"\1", value) for key, value in found}


def read(text: str, included: Mapping[str, str] | Callable[[str], str | None]) -> Configuration:
    """Parse a text. included has the texts of the files that it includes, by path, or returns one; None is no file."""
    found = Configuration()
    for line in _lines(text, included if callable(included) else included.get, found, DEEPEST):
        settings = iter(pairs(line).items())
        for key, value in settings:
            if key in _RECORDS:
                _record(found, key, value, dict(settings))
            else:
                found.settings[key] = value
    return found


def _record(found: Configuration, key: str, name: str, settings: dict[str, str]) -> None:
    if name.upper() == "DEFAULT":
        {NODE: found.node_defaults, PARTITION: found.partition_defaults}.get(key, {}).update(settings)
    elif key == PARTITION:
        found.partitions[name] = {**found.partition_defaults, **settings}


def _lines(text: str, included: Callable[[str], str | None], found: Configuration, depth: int) -> Iterator[str]:
    """Yield the lines without comments, those that go on as one, and those of included files at their place."""
    whole = ""
    for raw in [*text.splitlines(), ""]:
        line = _COMMENT.sub(r"\1", raw)
        goes_on = _GOES_ON.search(line)
        whole += line[: goes_on.start(1)] if goes_on else line
        if goes_on:
            continue
        named = _INCLUDE.match(whole)
        if named and depth:
            path = posixpath.join(DIRECTORY, named[1].replace("%c", found.settings.get("clustername", "")))
            yield from _lines(included(path) or "", included, found, depth - 1)
        elif not named:
            yield whole
        whole = ""
