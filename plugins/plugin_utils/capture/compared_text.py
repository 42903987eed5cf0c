# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The differences between two captures in words, by section."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import first, one_line
from ansible_collections.gpulab.node.plugins.plugin_utils.capture.compare import CHANGED, CONTENT, GONE
from ansible_collections.gpulab.node.plugins.plugin_utils.preview.text import size

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.compare import Change, Comparison

MOST = 40  # lines of a section; the document has all
LONGEST = 100  # characters of a value
# What an item of a section is called; a section that is not here says its own name.
NOUNS = {
    "users": "user",
    "groups": "group",
    "unnamed": "number without a name",
    "cron": "cron line",
    "at": "at job",
    "units": "unit file",
    "unit_states": "unit",
    "timers": "timer",
    "packages": "package",
    "manual": "manually installed package",
    "holds": "hold on",
    "pins": "pin",
    "sources": "package source",
    "keys": "key file",
    "streams": "module stream",
    "snaps": "snap",
    "flatpaks": "flatpak",
    "environments": "environment",
    "files": "file",
    "kept": "kept",
    "acknowledged": "acknowledged",
    "receipts": "backup of",
    "remainder": "left over",
}
NOUNS_BELOW = {
    ("disks", "disks"): "disk",
    ("disks", "filesystems"): "file system on",
    ("disks", "exports"): "export of",
    ("disks", "groups"): "group",
    ("containers", "images"): "image",
    ("containers", "volumes"): "volume",
    ("containers", "containers"): "container",
}


def lines(comparison: Comparison) -> list[str]:
    """Return the comparison for people."""
    found = [f"{comparison.host}: from {comparison.former} to {comparison.later}"]
    for section, changes in groupby(comparison.changes, key=lambda one: one.section):
        texts = [text(change) for change in changes]
        found += [f"  {section}:", *(f"    {one}" for one in texts[:MOST])]
        found += [f"    and {len(texts) - MOST} more"] if len(texts) > MOST else []
    if not comparison.changes:
        found.append("  nothing changed")
    if comparison.unknown:
        paths = first([one_line(path) for path in comparison.unknown], MOST)
        found.append(f"  not known without the key of the secrets: whether the content changed of {paths}")
    return found


def text(change: Change) -> str:
    """Return one change in a line."""
    how, before, after = change.change, change.before, change.after
    name, below = _named(change)
    value = before if how == GONE else after
    if below == [CONTENT]:
        return f"{name}: content changed"
    if below[:1] == ["lock"]:
        return f"{name}: {_values(before)} -> {_values(after)}" if how == CHANGED else f"{name}: {_values(value)} {how}"
    if change.section == "remainder" and not below:
        return f"{name} {how}: {value['files']} files, {size(value['bytes'])}"
    if change.section == "remainder" and below == ["bytes"]:
        return f"{name}: {'grew' if after > before else 'shrank'} from {size(before)} to {size(after)}"
    where = f"{name}: {' '.join(map(one_line, below))}" if below else name
    if how == CHANGED:
        return f"{where} {_values(before)} -> {_values(after)}"
    is_named = isinstance(value, (dict, list)) or value == change.subject[-1]
    return f"{where} {how}" if is_named else f"{where} {how}: {_values(value)}"


def _named(change: Change) -> tuple[str, list[str]]:
    """Return what people call what changed, and the names below it."""
    head, *below = change.subject or [""]
    noun = NOUNS.get(change.section, "")
    if below and (change.section, head) in NOUNS_BELOW:
        noun, (head, *below) = NOUNS_BELOW[change.section, head], below
    return " ".join(filter(None, (noun, one_line(head)))), below


def _values(value: Any) -> str:
    told = one_line(value if isinstance(value, str) else json.dumps(value))
    return told if len(told) <= LONGEST else f"{told[: LONGEST - 1]}…"
