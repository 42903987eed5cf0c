# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What came back of a node and what did not: by the steps of the rebuild, and by the captures before and after it."""

from __future__ import annotations

import re
from dataclasses import asdict
from fnmatch import fnmatchcase
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import one_line
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import compared_text
from ansible_collections.gpulab.node.plugins.plugin_utils.capture.compare import Change

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.compare import Comparison
    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.rebuild_state import Missing

SCHEMA = 1
RELEASE = ["machine", "system", "version"]  # which differs where the node came back with another release
MOST = 60  # lines of a part that people are shown; the document has all


def document(comparison: Comparison, missing: Iterable[Missing], expected: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return {schema, host, from, to, missing, differences, expected, unknown}.

    comparison is the one of the captures before and after. expected are the records of the catalog for differences
    that each reinstall makes, or that are told elsewhere; a difference that fits none of them, and is not of something
    that is missing, is in differences. expected counts the others by reason.
    """
    missing = list(missing)
    names = [one["name"] for one in missing]
    other = any([one.section, *one.subject] == RELEASE for one in comparison.changes)
    expected = [one for one in expected if other or "release" not in one]
    differences, counts = [], dict.fromkeys((one["reason"] for one in expected), 0)
    for change in comparison.changes:
        subject = [change.section, *change.subject]
        record = next((one for one in expected if _fits(subject, change, one)), None)
        if change.before is change.after is None:
            continue  # a setting that is null is one that is not set
        if record:
            counts[record["reason"]] += 1
        elif not _is_of_missing([*change.subject, *_names(change.before)], names):
            differences.append(asdict(change))
    return {
        "schema": SCHEMA,
        "host": comparison.host,
        "from": comparison.former,
        "to": comparison.later,
        "missing": missing,
        "differences": differences,
        "expected": {reason: count for reason, count in counts.items() if count},
        "unknown": comparison.unknown,
    }


def _names(value: Any) -> list[str]:
    """Return what people call a thing that its capture names by a digest, as an image."""
    return [*value.get("names", ())] if isinstance(value, dict) else []


def _fits(subject: Sequence[str], change: Change, record: dict[str, Any]) -> bool:
    """Tell whether a difference is the record's: each of its patterns fits the name at its place."""
    if change.change not in record.get("change", (change.change,)):
        return False
    alike = record.get("alike")
    if alike and len({re.sub(alike, "", str(side)) for side in (change.before, change.after)}) > 1:
        return False
    return any(
        len(patterns) <= len(subject) and all(map(fnmatchcase, subject, patterns)) for patterns in record["subjects"]
    )


def _is_of_missing(subject: Sequence[str], names: Sequence[str]) -> bool:
    """Tell whether a difference is that something is missing: what that is called, but for its kind, is in it."""
    words = {word for one in subject for word in one.split()}
    return any(name in subject or name.rpartition(" ")[2] in words for name in names)


def lines(found: dict[str, Any]) -> list[str]:
    """Return it for people."""
    told = [f"{found['host']}: back from the capture of {found['from']}"]
    told += [f"  {count} differences: {reason}" for reason, count in found["expected"].items()]
    if found["missing"]:
        told.append("  DID NOT COME BACK:")
        for section, group in groupby(
            sorted(found["missing"], key=lambda one: one["section"]), lambda one: one["section"]
        ):
            rows = [f"      {one_line(one['name'])}: {one_line(one['why'])}" for one in group]
            told += [f"    {section}:", *_first(rows)]
    if found["differences"]:
        told.append("  OTHERWISE THAN BEFORE:")
        changes = [Change(**one) for one in found["differences"]]
        told += _first([f"    {one.section}: {compared_text.text(one)}" for one in changes])
    if not found["missing"] and not found["differences"]:
        told.append("  all is back")
    return told


def _first(rows: list[str]) -> list[str]:
    more = [f"      and {len(rows) - MOST} more; the document has all"] if len(rows) > MOST else []
    return [*rows[:MOST], *more]
