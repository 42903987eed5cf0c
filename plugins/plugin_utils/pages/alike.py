# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts of which the same is to be said, together. No I/O happens here."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

HOST = "HOST"


def alike(records: Mapping[str, Any]) -> list[tuple[list[str], Any]]:
    """Return the names of hosts whose records are the same, and that record, in the order of the first of each.

    A record is data as JSON has it. Where records differ in nothing but each host's own name, HOST stands for the name.
    """
    equal: dict[str, list[str]] = {}
    for name, record in records.items():
        equal.setdefault(json.dumps(record, sort_keys=True), []).append(name)
    hosts: dict[str, list[str]] = {}
    texts: dict[str, list[str]] = {}
    for text, names in equal.items():
        key = _without_name(text, names[0]) if len(names) == 1 else text
        hosts.setdefault(key, []).extend(names)
        texts.setdefault(key, []).append(text)
    return [(names, json.loads(texts[key][0] if len(texts[key]) == 1 else key)) for key, names in hosts.items()]


def _without_name(text: str, name: str) -> str:
    return re.sub(rf"(?<![\w.-]){re.escape(json.dumps(name)[1:-1])}(?![\w-])", HOST, text)
