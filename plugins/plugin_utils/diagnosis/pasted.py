# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of the error that was pasted: causes first, what follows from them behind, what is harmless last."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.kernel_log import CATALOG
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import REMEDIES, SEVERITIES
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis import asked
from ansible_collections.gpulab.node.plugins.module_utils.driver import errors as driver_errors
from ansible_collections.gpulab.node.plugins.module_utils.facts import kernel_log
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog as catalogs
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import HANG, HARMLESS, Finding, Weight

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog

MOST_SHOWN = 400  # characters of a line
MOST_PLACES = 100  # of one pattern
# An error's usual cause; what was seen on the node goes before it. What only follows from an error goes behind what the
# proof says of the node.
KNOWN_TEXT, FOLLOWING = Weight(0.9), Weight(0.7)
COSTS = {catalogs.CAUSE: KNOWN_TEXT, catalogs.FOLLOWS: FOLLOWING, catalogs.HARMLESS: HARMLESS}
_NUMBERED = ("xid", "sxid", "sxid_fatal", "sxid_nonfatal")
_CAUSED = re.compile(r"Xid \((?:PCI:)?(?P<address>[0-9a-fA-F:.]+)\).*caused by previous Xid (?P<xid>\d{1,6})")


def errors(catalog: Catalog, text: str) -> Iterator[Finding]:
    """Explain the known errors in a text: causes in its order, then what follows from them, then what is harmless."""
    yield from sorted([*_of_kernel(text), *_of_programs(catalog, _without_numbered(text))], key=lambda one: -one.cost)


def _of_programs(catalog: Catalog, text: str) -> list[Finding]:
    found = [(match.start(), record) for record in catalog.error_texts if (match := _match(record["pattern"], text))]
    return [
        Finding(
            record["cause"],
            record["remedy"],
            COSTS[record["role"]],
            (_line(text, place).strip()[:MOST_SHOWN],),
            f"error-{record['id']}",
            record["symptom"],
            ", ".join(record["source"]),
        )
        for place, record in sorted(found, key=lambda one: one[0])
    ]


def _match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the first place of a text that means what the pattern says."""
    found = islice(pattern.finditer(text), MOST_PLACES)
    return next((match for match in found if asked.is_meant(text, match.start(), match.end())), None)


def _line(text: str, place: int) -> str:
    return text[text.rfind("\n", 0, place) + 1 :].partition("\n")[0]


def _of_kernel(text: str) -> list[Finding]:
    """Answer pasted lines with the number of an XID or SXid as the proof does, the gravest first."""
    named = "".join(
        f"NVRM: Xid (PCI:{one['address']}): {one['xid']}, named as the cause\n" for one in _CAUSED.finditer(text)
    )
    events = [event for event in kernel_log.events(named + text) if event["kind"] in _NUMBERED]
    answers = [(event, driver_errors.judged(event)) for event in events]
    return [
        Finding(
            judged.meaning,
            REMEDIES[judged.remedy],
            FOLLOWING if judged.remedy == "none" else KNOWN_TEXT,
            (_line(text, max(text.find(event["text"]), 0)).strip()[:MOST_SHOWN],),
            f"error-{event['kind'].partition('_')[0]}-{event['xid']}",
            HANG,
            CATALOG,
        )
        for event, judged in sorted(answers, key=lambda one: -SEVERITIES.index(one[1].severity))
    ]


def _without_numbered(text: str) -> str:
    """Return the text without the lines that are answered by their numbers; each place stays where it was."""
    forms = (kernel_log.XID, kernel_log.SXID)
    lines = (" " * len(line) if any(form.search(line) for form in forms) else line for line in text.split("\n"))
    return "\n".join(lines)
