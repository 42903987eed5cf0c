# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What package managers and builds mean by what they print (catalog/tool_messages.yml). No I/O happens here."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache

from ansible_collections.gpulab.node.plugins.module_utils.core.tool_messages import MESSAGES, SPEAKERS, Message

LONGEST = 1000  # characters of a line


@dataclass(frozen=True)
class Meaning:
    """A known message in a report.

    lines: every place in the report that says it, each in one line; the first one stands first.
    place: where in the report the first one begins. spans: from where to where the lines of each go.
    groups: what the pattern's groups matched there.
    """

    message: Message
    lines: tuple[str, ...]
    place: int
    spans: tuple[tuple[int, int], ...]
    groups: dict[str, str] = field(default_factory=dict)

    @property
    def cause(self) -> str:
        """Return what is behind it, as a clause; empty where the message has a refusal of its own."""
        return self._filled(self.message.cause)

    @property
    def remedy(self) -> str:
        """Return what cures it, without a full stop; empty where the message has a refusal of its own."""
        return self._filled(self.message.remedy)

    def _filled(self, text: str) -> str:
        return text.replace("{tool}", next(iter(self.groups.values()), ""))


def cut(report: str) -> str:
    """Return a report with its lines cut: no tool needs a longer one, and to search it would take minutes."""
    return "\n".join(line[:LONGEST] for line in report.split("\n"))


def find(report: str, *tools: str, weak: bool = False) -> Meaning | None:
    """Return the first known message of these tools in the report, by the table's order; None where it has none.

    weak: only those that builds which succeed print, too; else only the others.
    """
    for message in MESSAGES:
        matches = _pattern(message).finditer(report) if message.tool in tools and message.weak == weak else ()
        found = list(matches)
        if found:
            groups = {name: text for name, text in found[0].groupdict().items() if text}
            spans = tuple(_span(report, match) for match in found)
            lines = tuple(" ".join(report[slice(*span)].split()) for span in spans)
            return Meaning(message, lines, found[0].start(), spans, groups)
    return None


def speaking(report: str) -> frozenset[str]:
    """Return the tools whose words are in a text that may be of any program."""
    return frozenset(tool for tool, forms in _speakers().items() if forms.search(report))


def _span(report: str, match: re.Match[str]) -> tuple[int, int]:
    """Return from where to where the lines go that a match is in."""
    start, end = report.rfind("\n", 0, match.start()) + 1, report.find("\n", match.end())
    return start, end if end >= 0 else len(report)


@cache
def _speakers() -> dict[str, re.Pattern[str]]:
    return {tool: re.compile("|".join(forms), re.MULTILINE) for tool, forms in SPEAKERS.items()}


@cache
def _pattern(message: Message) -> re.Pattern[str]:
    return re.compile("|".join(message.patterns), re.MULTILINE)
