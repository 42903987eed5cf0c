# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One option, as an argument spec describes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpulab.node.plugins.plugin_utils.options import forms


@dataclass(frozen=True)
class Option:
    """One variable, or a field of one: its type is a name of Ansible's argument specs, a list has elements."""

    name: str
    type: str
    description: str
    default: Any = None
    choices: tuple[str, ...] = ()
    elements: str | None = None
    form: forms.Form | None = None  # of a text, of the texts in a list, of a dict without fields; see forms.py
    fields: tuple[Option, ...] = ()  # of a dict, and of the dicts in a list
    required: bool = False  # of a field


def of_spec(spec: dict[str, dict[str, Any]], place: str = "") -> tuple[Option, ...]:
    """Return the options of an argument spec; place is the variable that has them as fields, with a dot."""
    return tuple(_option(name, record, f"{place}{name}") for name, record in spec.items())


def _option(name: str, record: dict[str, Any], place: str) -> Option:
    form = forms.OPTIONS.get(place)
    return Option(
        name,
        record.get("type", "str"),
        plain(record.get("description", "")),
        record.get("default"),
        tuple(record.get("choices") or (form.choices if form else ())),
        record.get("elements"),
        form,
        of_spec(record.get("options") or {}, f"{place}."),
        bool(record.get("required")),
    )


def plain(description: str | list[str]) -> str:
    """Return the first paragraph of a description, without its markup."""
    first = description if isinstance(description, str) else description[0]
    return re.sub(r"\b[A-Z]\(([^)]*)\)", r"\1", first).strip()
