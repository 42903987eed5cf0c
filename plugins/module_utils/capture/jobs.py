# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node starts by itself, by the clock or at boot, and what no package brings back of it.

Units are found where systemd.unit(5) looks for them; what only lives until the next boot, in /run, is left out.
"""

from __future__ import annotations

import os
import posixpath
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible_collections.gpulab.node.plugins.module_utils.capture import cron, homes
from ansible_collections.gpulab.node.plugins.module_utils.core import owned_files, unit_states

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

SYSTEM_UNITS = (
    "/etc/systemd/system",
    "/etc/systemd/system.control",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
)
USERS_UNITS = ("/etc/systemd/user", "/usr/local/lib/systemd/user", "/usr/lib/systemd/user")
OWN_UNITS = (".config/systemd/user", ".config/systemd/user.control", ".local/share/systemd/user")  # below a home
HOMES = "/home"
UNIT, DROP_IN, MASK, LINK = "unit", "drop-in", "mask", "link"
_TYPES = r"(?:service|socket|target|path|timer|mount|automount|swap|slice|device|scope)"
_UNIT = re.compile(rf".+\.{_TYPES}|(?P<changed>(?:.+\.)?{_TYPES})\.d", re.DOTALL)
_TIMER = ".timer"
_ENABLED = (".wants", ".requires", ".upholds")
_SCHEDULE = re.compile(r"^[ \t]*(On[A-Za-z]+[ \t]*=[ \t]*\S.*?)[ \t]*$", re.MULTILINE)
_ACTIVATES = re.compile(r"^[ \t]*Unit[ \t]*=[ \t]*(\S+)", re.MULTILINE)
_SHOWN = ("names", "active_state", "file_state")


class _Place(NamedTuple):
    """A directory of units: of the system's manager, or of users'; of one user, or of all (None)."""

    path: str
    system: bool
    user: str | None = None


def read(node: Node, owned: Callable[[str], bool]) -> dict[str, Any]:
    """Return {"cron", "at", "units", "timers", "unit_states"}; owned tells whether a package has a path.

    cron and at are as cron.read and cron.at_jobs return them.

    units are the files of units that no package has: {"path", "unit", "kind", "target", "manager", "user", "linger",
    "enabled", "active", "instances", "gpulab"}. kind is unit; drop-in, a file that changes a unit; mask, which forbids
    one; or link, another name of a unit or one that lies elsewhere, by target. manager is system or user; user is who
    made it, None for all; linger tells whether that user's units start without a login. enabled and active are
    systemd's words, as of the unit; without systemd's answer, and for users' units, enabled is by the links, and active
    None. instances are those of a template that are enabled; gpulab tells whether a run of gpulab writes the file.

    timers are the timers among them: {"path", "unit", "user", "schedule" (lines of [Timer]), "activates", "enabled",
    "active"}.

    unit_states has each unit file of the system that can be enabled, by its name: enabled, disabled or masked; None
    where systemd does not tell.
    """
    listed = node.start(list(unit_states.LIST_FILES))
    places = homes.Places(node)
    kept = list(_kept(node, places))
    links: dict[tuple[bool, str | None], list[str]] = {}
    for one in kept:
        links.setdefault((one.system, one.user), []).extend(_links(places, one.path))
    lingering = node.names(homes.LINGER)
    found = [unit for one in kept for unit in _units(node, places, one, owned, links[one.system, one.user])]
    units = [unit for unit, _text in found]
    asked = sorted({unit["unit"] for unit in units if unit["manager"] == "system" and "@." not in unit["unit"]})
    known = unit_states.by_name(node.start(unit_states.show(_SHOWN, *asked)).output() or "") if asked else {}
    for unit in units:
        unit["linger"] = unit["user"] in lingering
        state = known.get(unit["unit"]) if unit["manager"] == "system" else None
        unit["enabled"] = (state and state.file_state) or unit["enabled"]
        unit["active"] = (state and state.active_state) or None
    return {
        "cron": cron.read(node, owned),
        "at": cron.at_jobs(node),
        "units": units,
        "timers": [
            _timer(unit, text) for unit, text in found if unit["kind"] == UNIT and unit["unit"].endswith(_TIMER)
        ],
        "unit_states": unit_states.file_states(listed.output()),
    }


def _kept(node: Node, places: homes.Places) -> Iterator[_Place]:
    """Yield the directories in which units are kept."""
    yield from (_Place(path, system=True) for path in SYSTEM_UNITS)
    yield from (_Place(path, system=False) for path in USERS_UNITS)
    owners = {one.home: one.name for one in reversed(homes.accounts(node)) if one.home.strip("/")}
    for name in places.names(HOMES):  # people of a directory are no local accounts
        owners.setdefault(f"{HOMES}/{name}", name)
    yield from (
        _Place(f"{home}/{path}", system=False, user=name) for home, name in owners.items() for path in OWN_UNITS
    )


def _links(places: homes.Places, path: str) -> Iterator[str]:
    """Yield the names of the units that links in a directory enable."""
    for name in places.names(path):
        if name.endswith(_ENABLED):
            yield from places.names(f"{path}/{name}")


def _units(
    node: Node, places: homes.Places, kept: _Place, owned: Callable[[str], bool], links: list[str]
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the records of one directory, each with the unit's text."""

    def record(name: str, unit: str, kind: str, target: str | None = None) -> tuple[dict[str, Any], str]:
        prefix, _at, suffix = unit.partition("@.")
        instances = [link for link in links if suffix and link.startswith(f"{prefix}@") and link.endswith(f".{suffix}")]
        text = "" if kind in (MASK, LINK) else places.text(f"{kept.path}/{name}")
        enabled = {MASK: "masked", LINK: "linked"}.get(kind, "enabled" if unit in links or instances else "disabled")
        made = {
            "path": f"{kept.path}/{name}",
            "unit": unit,
            "kind": kind,
            "target": target,
            "manager": "system" if kept.system else "user",
            "user": kept.user,
            "enabled": enabled,
            "active": None,
            "instances": sorted({link for link in instances if link != unit}),
            "gpulab": owned_files.is_own(text),
        }
        return made, text

    at = places.followed(kept.path)
    for name in places.names(kept.path):
        match, path = _UNIT.fullmatch(name), f"{kept.path}/{name}"
        if match and match["changed"]:
            for part in places.names(path):
                if part.endswith(".conf") and not owned(f"{path}/{part}"):
                    yield record(f"{name}/{part}", match["changed"], DROP_IN)
        if not match or match["changed"] or owned(path):
            continue
        target = node.link(f"{at}/{name}")
        if target is None:
            yield record(name, name, MASK if node.size(f"{at}/{name}") == 0 else UNIT)
        else:
            masked = posixpath.normpath(posixpath.join(kept.path, target)) == os.devnull
            yield record(name, name, MASK if masked else LINK, target)


def _timer(unit: dict[str, Any], text: str) -> dict[str, Any]:
    activates = _ACTIVATES.findall(text)
    return {
        **{name: unit[name] for name in ("path", "unit", "user", "enabled", "active")},
        "schedule": _SCHEDULE.findall(text),
        "activates": activates[-1] if activates else unit["unit"][: -len(_TIMER)] + ".service",
    }
