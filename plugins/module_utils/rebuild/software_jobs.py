# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The jobs of a capture: cron, at, timers, units of no package. They come back, and start nothing until they may.

Held means: what runs jobs by the clock is disabled, units of people have no link that enables them, and nobody lingers.
What people had disabled or masked is so at once.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.files import DIRECTORY, FILE, LINK
from ansible_collections.gpulab.node.plugins.module_utils.core import unit_states
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.unit_states import DISABLED, ENABLED, MASKED
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import (
    release,
    software_done,
    software_entries,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.steps import Call
    from ansible_collections.gpulab.node.plugins.module_utils.rebuild.software_asked import Held, OfJobs

SECTION = "jobs"
SECONDS = 180  # for services to start
# What starts jobs by the clock.
CLOCKS = ("cron.service", "crond.service", "atd.service", "anacron.service", "anacron.timer", "systemd-cron.target")
_LINKS = re.compile(r"/etc/systemd/(?:system|user)/[^/]+\.(?:wants|requires|upholds)/|/var/lib/systemd/linger/")
# Which program manages the network is decided where the network is restored, with a way back.
_NETWORK = re.compile(r"(?:systemd-network|systemd-resolved|networking|NetworkManager|netplan|connman|wicked)")
_OF_PACKAGES = re.compile(r"(?:/usr)?/lib/systemd/")


@dataclass(frozen=True)
class LetGo:
    """What lets jobs go: files that differ, clocks to enable, units that links enable; lacking lead nowhere."""

    differing: list[Held]
    lacking: list[Held]
    clocks: list[str]
    linked: frozenset[str]


class Jobs:
    """What a capture says of jobs, and this node."""

    def __init__(self, call: Call, asked: OfJobs, root: Path = Path("/")) -> None:
        """Read the states of units. call runs an argument list: (rc, output, errors)."""
        self._call = call
        self._asked = asked
        self._root = root
        self._same = not release.difference(Node(root), asked.release)
        own = {unit.path for unit in asked.units if unit.gpulab}
        self._entries = [one for one in asked.entries if one["path"] not in own]
        self._states = self._now()

    def _now(self) -> dict[str, str]:
        return unit_states.file_states(self._call(list(unit_states.LIST_FILES))[1]) or {}

    def hold(self, *, check_mode: bool) -> dict[str, Any]:
        """Bring jobs back without starting one; return {changes, missing}. What was let go before stays so."""
        if self._is_over():
            return {"changes": [], "missing": []}
        entries = [one for one in self._entries if not self._lets_go(one)]
        differing = software_entries.differing(entries, self._root)
        clocks = [name for name in CLOCKS if self._states.get(name) == ENABLED]
        wanted = self._wanted((DISABLED, MASKED))
        if not check_mode:
            if clocks:
                self._call(["systemctl", "disable", "--now", *clocks])
            software_entries.put(differing, self._root)
            if differing:
                self._call(["systemctl", "daemon-reload"])
            self._switch(wanted)
        told = [f"systemctl disable {name}" for name in clocks]
        told += [f"systemctl {_VERBS[state]} {name}" for name, state in wanted.items()]
        return {"changes": changes(write=[one["path"] for one in differing], run=told), "missing": []}

    def serve(self, *, check_mode: bool) -> dict[str, Any]:
        """Start the services whose settings are back; return {changes, missing}. Later, people start and stop them."""
        if self._is_over():
            return {"changes": [], "missing": []}
        if not check_mode:
            self._call(["systemctl", "daemon-reload"])
            self._call(["timeout", str(SECONDS), "systemctl", "start", "default.target"])
        return {"changes": changes(run=["systemctl start default.target"]), "missing": []}

    def _is_over(self) -> bool:
        return bool(software_done.read(self._root))

    def release(self, *, check_mode: bool) -> dict[str, Any]:
        """Enable jobs as they were and start what was at work; return {changes, missing}.

        Sources of packages that did not answer come back, too.
        """
        if self._is_over():
            return {"changes": [], "missing": []}
        plan = self._plan()
        if not check_mode:
            self._put(plan)
        wanted = self._to_switch(plan)
        if not check_mode:
            self._switch(wanted)
        idle = self._idle(wanted)
        if not check_mode:
            self._start(plan, idle)
        told = [f"systemctl {_VERBS[state]} {name}" for name, state in wanted.items()]
        told += [f"systemctl start {name}" for name in idle]
        written = [one["path"] for one in plan.differing]
        return {"changes": changes(write=written, run=told), "missing": list(self._missing(plan))}

    def _plan(self) -> LetGo:
        waiting = self._asked.sources if self._same else []
        able = [one for one in [*self._entries, *waiting] if self._leads_somewhere(one)]
        return LetGo(
            differing=software_entries.differing(able, self._root),
            lacking=[one for one in self._entries if not self._leads_somewhere(one)],
            # By systemctl, which also tells sysv's links; hold() disabled them in the same way.
            clocks=[name for name in self._wanted((ENABLED,)) if name in CLOCKS],
            linked=frozenset(posixpath.basename(one["path"]) for one in able if self._lets_go(one)),
        )

    def _put(self, plan: LetGo) -> None:
        """Enable clocks, and bring files back: systemd may then know units that it did not know before."""
        if plan.clocks:
            self._call(["systemctl", "enable", *plan.clocks])
        if plan.differing:
            software_entries.put(plan.differing, self._root)
            self._call(["systemctl", "daemon-reload"])
        self._states = self._now()

    def _to_switch(self, plan: LetGo) -> dict[str, str]:
        """Return the units that get another state, with it; links enable the others."""
        states = self._wanted((ENABLED, DISABLED, MASKED))
        wanted = {name: state for name, state in states.items() if state != ENABLED or name not in plan.linked}
        return {**wanted, **dict.fromkeys(plan.clocks, ENABLED)}

    def _start(self, plan: LetGo, idle: list[str]) -> None:
        """Start units and let people linger; nobody waits for them: a job may take its time."""
        if idle:
            self._call(["systemctl", "start", "--no-block", *idle])
        for one in plan.differing:
            if one["path"].startswith("/var/lib/systemd/linger/") and one["kind"] == FILE:
                self._call(["loginctl", "enable-linger", posixpath.basename(one["path"])])
        software_done.write(self._root, self._asked.capture)

    def _missing(self, plan: LetGo) -> Iterator[dict[str, str]]:
        if not self._same:
            return
        for one in plan.lacking:
            why = f"it leads to {one['target']}, which is not on the node"
            yield {"section": SECTION, "name": one["path"], "why": why}
        for name, state in (self._asked.states or {}).items():
            if state == ENABLED and name not in self._states and not self._is_left(name):
                yield {"section": SECTION, "name": name, "why": f"the node has no such unit; it was {state}"}

    @staticmethod
    def _lets_go(entry: Held) -> bool:
        """Tell whether this lets a job start: a link that enables a unit, or a user whose units run without a login."""
        return entry["kind"] != DIRECTORY and bool(_LINKS.match(entry["path"]))

    def _leads_somewhere(self, entry: Held) -> bool:
        """Tell whether a link can be put back as it was; of packages' units, another release has other paths."""
        if entry["kind"] != LINK:
            return True
        target = posixpath.normpath(posixpath.join(posixpath.dirname(entry["path"]), entry["target"]))
        if _OF_PACKAGES.match(target) and not self._same:
            return False
        return target == "/dev/null" or (self._root / target.lstrip("/")).exists() or self._brings(target)

    def _brings(self, path: str) -> bool:
        return any(one["path"] == path for one in self._entries)

    def _is_left(self, name: str) -> bool:
        return name in self._asked.managed or bool(_NETWORK.match(name))

    def _wanted(self, states: tuple[str, ...]) -> dict[str, str]:
        """Return the units of the capture that the node has in another state, with the one that they had."""
        return {
            name: state
            for name, state in (self._asked.states or {}).items()
            if state in states and self._states.get(name, state) != state and not self._is_left(name)
        }

    def _switch(self, wanted: dict[str, str]) -> None:
        for name, state in wanted.items():
            if self._states[name] == MASKED:
                self._call(["systemctl", "unmask", name])
            self._call(["systemctl", _VERBS[state], name])

    def _idle(self, wanted: dict[str, str]) -> list[str]:
        """Return the units that were at work and are not."""
        names = [name for name, state in wanted.items() if state == ENABLED and not name.endswith("@.service")]
        names += [one.unit for one in self._asked.units if one.active == "active" and not one.gpulab]
        asked = unit_states.show(("active_state", "load_state"), *dict.fromkeys(names))
        known = unit_states.parse(self._call(asked)[1]) if names else []
        return [unit.id for unit in known if unit.active_state == "inactive" and unit.load_state == "loaded"]


_VERBS = {ENABLED: "enable", DISABLED: "disable", MASKED: "mask"}
