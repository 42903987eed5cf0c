# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What systemctl says of units and of systemd itself. No I/O happens here."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

# As the states of all unit files are asked for.
LIST_FILES = ("systemctl", "list-unit-files", "--no-legend", "--no-pager", "--plain", "--full")
ENABLED, DISABLED, MASKED = "enabled", "disabled", "masked"
_PROPERTIES = {"file_state": "UnitFileState", "path": "FragmentPath"}  # others are called as here, but for the capitals


@dataclass(frozen=True)
class Unit:
    """A unit of systemd, by its properties; empty is what was not asked for, and what systemd does not say.

    load_state is not-found where there is no such unit; path is that of its file; file_state is what a boot does with
    it, as enabled or static.
    """

    id: str
    names: tuple[str, ...] = ()
    load_state: str = ""
    active_state: str = ""
    sub_state: str = ""
    file_state: str = ""
    type: str = ""
    bus_name: str = ""
    restart: str = ""
    path: str = ""
    triggered_by: tuple[str, ...] = ()
    wanted_by: tuple[str, ...] = ()
    required_by: tuple[str, ...] = ()
    upheld_by: tuple[str, ...] = ()


def _property(name: str) -> str:
    return _PROPERTIES.get(name) or name.title().replace("_", "")


_FIELDS = {_property(field.name): field for field in fields(Unit)}


def show(asked: tuple[str, ...], *units: str) -> list[str]:
    """Return the command that says this of units; asked are names of fields, beside id, which parse needs."""
    return ["systemctl", "show", f"--property={','.join(map(_property, ('id', *asked)))}", "--", *units]


def parse(text: str) -> list[Unit]:
    """Return the units in what systemctl show printed; a block without an Id is none."""
    blocks = map(properties, re.split(r"\n[ \t]*\n", text))
    return [_unit(block) for block in blocks if block.get("Id")]


def by_name(text: str) -> dict[str, Unit]:
    """Return the units in what systemctl show printed by all their names."""
    return {name: unit for unit in parse(text) for name in (unit.id, *unit.names)}


def properties(text: str) -> dict[str, str]:
    """Return the properties of one unit, or of systemd itself, by systemd's names for them."""
    return dict(line.partition("=")[::2] for line in text.split("\n") if "=" in line)


def _unit(block: dict[str, str]) -> Unit:
    found = {_FIELDS[name].name: value for name, value in block.items() if name in _FIELDS}
    lists = {field.name for field in _FIELDS.values() if field.default == ()}
    return Unit(**{name: tuple(value.split()) if name in lists else value for name, value in found.items()})  # type: ignore[arg-type]


def file_states(listed: str | None) -> dict[str, str] | None:
    """Return what LIST_FILES printed: enabled, disabled or masked, by unit; None where systemd does not tell."""
    if listed is None:
        return None
    rows = (line.split() for line in listed.split("\n"))
    return {row[0]: row[1] for row in rows if len(row) > 1 and row[1] in (ENABLED, DISABLED, MASKED)}
