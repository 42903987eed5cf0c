# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of the error that was pasted: causes first, what follows from them behind, what is harmless last."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.kernel_log import CATALOG, NOT_STARTED
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import SEVERITIES
from ansible_collections.gpulab.node.plugins.module_utils.checks.remedies import REMEDIES
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis import asked
from ansible_collections.gpulab.node.plugins.module_utils.driver import errors as driver_errors
from ansible_collections.gpulab.node.plugins.module_utils.facts import kernel_log
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog as catalogs
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis import pasted_tools
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import HANG, HARMLESS, Finding, Weight

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.services import KernelEvent

MOST_SHOWN = 400  # characters of a line
MOST_PLACES = 100  # of one pattern
# An error's usual cause; what was seen on the node goes before it. What only follows from an error goes behind what the
# proof says of the node.
KNOWN_TEXT, FOLLOWING = Weight(0.9), Weight(0.7)
COSTS = {catalogs.CAUSE: KNOWN_TEXT, catalogs.FOLLOWS: FOLLOWING, catalogs.HARMLESS: HARMLESS}
_COLOUR, _QUOTE = re.compile(r"\x1b\[[\d;]*m"), re.compile(r"\\+([\"'])")
_LINE_BREAK = re.compile(r"\\n(?=\s|Traceback\b|\w+(?:Error|Exception)\b|\\n|\Z)")
_NUMBERED = ("xid", "sxid", "sxid_fatal", "sxid_nonfatal")
_CAUSED = re.compile(r"Xid \((?:PCI:)?(?P<address>[0-9a-fA-F:.]+)\).*caused by previous Xid (?P<xid>\d{1,6})")


def errors(catalog: Catalog, text: str) -> Iterator[Finding]:
    """Explain the known errors in a text: causes in its order, then what follows from them, then what is harmless."""
    text = _plain(text)
    rest = _without(text, _of_the_kernel(text))
    said = list(pasted_tools.errors(rest, KNOWN_TEXT, FOLLOWING))
    told = [(meaning.place, finding) for meaning, finding in said]
    told += _of_programs(catalog, _without(rest, (span for meaning, _finding in said for span in meaning.spans)))
    in_order = (finding for _place, finding in sorted(told, key=lambda one: one[0]))
    yield from sorted([*_of_kernel(text), *in_order], key=lambda one: -one.cost)


def _plain(text: str) -> str:
    """Return a text as its program wrote it: without colours, and without the escapes of a log that quotes it."""
    text = _COLOUR.sub("", text)
    return _LINE_BREAK.sub("\n", _QUOTE.sub(r"\1", text))


def _of_programs(catalog: Catalog, text: str) -> list[tuple[int, Finding]]:
    found = [(match.start(), record) for record in catalog.error_texts if (match := _match(record["pattern"], text))]
    return [
        (
            place,
            Finding(
                record["cause"],
                record["remedy"],
                COSTS[record["role"]],
                (_line(text, place).strip()[:MOST_SHOWN],),
                f"error-{record['id']}",
                record["symptom"],
                ", ".join(record["source"]),
            ),
        )
        for place, record in found
    ]


def _match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the first place of a text that means what the pattern says."""
    found = islice(pattern.finditer(text), MOST_PLACES)
    return next((match for match in found if asked.is_meant(text, match.start(), match.end())), None)


def _line(text: str, place: int) -> str:
    return text[text.rfind("\n", 0, place) + 1 :].partition("\n")[0]


def _of_kernel(text: str) -> list[Finding]:
    """Answer pasted lines of the kernel's log as the proof does, the gravest first.

    That a GPU did not start only follows where another line says why.
    """
    named = "".join(
        f"NVRM: Xid (PCI:{one['address']}): {one['xid']}, named as the cause\n" for one in _CAUSED.finditer(text)
    )
    answers = [(event, driver_errors.judged(event)) for event in kernel_log.events(named + text)]
    return [
        Finding(
            judged.meaning,
            REMEDIES[judged.remedy],
            FOLLOWING if judged.remedy == "none" or event["kind"] == NOT_STARTED else KNOWN_TEXT,
            (_line(text, max(text.find(event["text"]), 0)).strip()[:MOST_SHOWN],),
            f"error-{_name(event)}",
            HANG,
            CATALOG,
        )
        for event, judged in sorted(answers, key=lambda one: -SEVERITIES.index(one[1].severity))
    ]


def _name(event: KernelEvent) -> str:
    if event["kind"] in _NUMBERED:
        return f"{event['kind'].partition('_')[0]}-{event['xid']}"
    return f"kernel-{event['kind'].replace('_', '-')}"


def _of_the_kernel(text: str) -> Iterator[tuple[int, int]]:
    """Yield from where to where the kernel's lines go that are answered."""
    start = 0
    for line in text.split("\n"):
        if kernel_log.XID.search(line) or kernel_log.SXID.search(line) or kernel_log.events(line):
            yield start, start + len(line)
        start += len(line) + 1


def _without(text: str, answered: Iterable[tuple[int, int]]) -> str:
    """Return the text with blanks for some of its parts; each place stays where it was."""
    characters = list(text)
    for start, end in answered:
        characters[start:end] = ("\n" if one == "\n" else " " for one in characters[start:end])
    return "".join(characters)
