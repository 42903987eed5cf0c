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
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.gpulab.node.plugins.module_utils.capture import cron, homes
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.jobs import Jobs, Timer, Unit
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
SYSTEM = "system"  # the manager of the system
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


def read(node: Node, owned: Callable[[str], bool]) -> Jobs:
    """Return what a node starts by itself; owned tells whether a package has a path."""
    listed = node.start(list(unit_states.LIST_FILES))
    places = homes.Places(node)
    units, known = _found(node, places, owned)
    found = [(_with_state(unit, known), text) for unit, text in units]
    return Jobs(
        cron=cron.read(node, owned),
        at=list(cron.at_jobs(node)),
        units=[unit for unit, _text in found],
        timers=[_timer(unit, text) for unit, text in found if unit.kind == UNIT and unit.unit.endswith(_TIMER)],
        unit_states=unit_states.file_states(listed.output()),
    )


def _found(
    node: Node, places: homes.Places, owned: Callable[[str], bool]
) -> tuple[list[tuple[Unit, str]], dict[str, unit_states.Unit]]:
    """Return the units by their files, each with its text, and what systemd says of the system's."""
    kept = list(_kept(node, places))
    links: dict[tuple[bool, str | None], list[str]] = {}
    for one in kept:
        links.setdefault((one.system, one.user), []).extend(_links(places, one.path))
    directories = [_Units(node, places, one, links[one.system, one.user]) for one in kept]
    units = [unit for directory in directories for unit in directory.read(owned)]
    asked = sorted({unit.unit for unit, _text in units if unit.manager == SYSTEM and "@." not in unit.unit})
    return units, unit_states.by_name(node.start(unit_states.show(_SHOWN, *asked)).output() or "") if asked else {}


def _with_state(unit: Unit, known: dict[str, unit_states.Unit]) -> Unit:
    state = known.get(unit.unit) if unit.manager == SYSTEM else None
    return replace(unit, enabled=state.file_state or unit.enabled, active=state.active_state or None) if state else unit


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


class _Units:
    """The units of one directory; links are the names that links of the same manager enable."""

    def __init__(self, node: Node, places: homes.Places, kept: _Place, links: list[str]) -> None:
        self._node, self._places, self._kept, self._links = node, places, kept, links
        self._lingers = kept.user in node.names(homes.LINGER)

    def read(self, owned: Callable[[str], bool]) -> Iterator[tuple[Unit, str]]:
        """Yield those that no package has, each with its text."""
        for name in self._places.names(self._kept.path):
            match, path = _UNIT.fullmatch(name), f"{self._kept.path}/{name}"
            if match and match["changed"]:
                parts = [part for part in self._places.names(path) if part.endswith(".conf")]
                yield from (
                    self._unit(f"{name}/{part}", match["changed"], DROP_IN)
                    for part in parts
                    if not owned(f"{path}/{part}")
                )
            elif match and not owned(path):
                yield self._unit(name, name, *self._kind(name))

    def _kind(self, name: str) -> tuple[str, str | None]:
        """Return what a file is, and where it leads."""
        path = f"{self._places.followed(self._kept.path)}/{name}"
        target = self._node.link(path)
        if target is None:
            return (MASK if self._node.size(path) == 0 else UNIT), None
        masked = posixpath.normpath(posixpath.join(self._kept.path, target)) == os.devnull
        return (MASK if masked else LINK), target

    def _unit(self, name: str, unit: str, kind: str, target: str | None = None) -> tuple[Unit, str]:
        prefix, _at, suffix = unit.partition("@.")
        links = [one for one in self._links if one.startswith(f"{prefix}@") and one.endswith(f".{suffix}")]
        instances = links if suffix else []
        path = f"{self._kept.path}/{name}"
        text = "" if kind in (MASK, LINK) else self._places.text(path)
        by_links = "enabled" if unit in self._links or instances else "disabled"
        made = Unit(
            path=path,
            unit=unit,
            kind=kind,
            target=target,
            manager=SYSTEM if self._kept.system else "user",
            user=self._kept.user,
            linger=self._lingers,
            enabled={MASK: "masked", LINK: "linked"}.get(kind, by_links),
            active=None,
            instances=sorted({link for link in instances if link != unit}),
            gpulab=owned_files.is_own(text),
        )
        return made, text


def _timer(unit: Unit, text: str) -> Timer:
    activates = _ACTIVATES.findall(text)
    started = activates[-1] if activates else unit.unit[: -len(_TIMER)] + ".service"
    return Timer(unit.path, unit.unit, unit.user, unit.enabled, unit.active, _SCHEDULE.findall(text), started)
