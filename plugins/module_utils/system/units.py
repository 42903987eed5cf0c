# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Units of systemd as they are wanted: the steps from what a node has to that. No I/O happens here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.core.unit_states import Unit

UNCHANGED, STARTED, STOPPED, RESTARTED = "unchanged", "started", "stopped", "restarted"
# The options of the module.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "names": {"type": "list", "elements": "str", "required": True},
    "state": {"type": "str", "choices": [UNCHANGED, STARTED, STOPPED, RESTARTED], "default": UNCHANGED},
    "enabled": {"type": "bool"},
    "unmask": {"type": "bool", "default": False},
    "wait": {"type": "bool", "default": True},
    "changed_files": {"type": "list", "elements": "str", "default": []},
}
ASKED = ("names", "load_state", "active_state", "file_state")
START, STOP, RESTART, ENABLE, DISABLE, UNMASK = "start", "stop", "restart", "enable", "disable", "unmask"
_RUNS, _ENDED = ("active", "activating", "reloading"), ("inactive", "failed", "")
_CAN_BE_ENABLED = ("disabled", "masked", "masked-runtime", "linked", "linked-runtime", "bad", "")
_CAN_BE_DISABLED = ("enabled", "enabled-runtime", "linked", "linked-runtime")
_MASKED = ("masked", "masked-runtime")
_FILE = re.compile(r"/systemd/system/([^/]+?)(?:\.d/[^/]+)?\Z")


@dataclass(frozen=True)
class Wanted:
    """What is wanted of units: state is one of the words above; enabled None leaves alone what a boot does.

    unmask allows a start of one that somebody masked; changed are files that the run has just written: a unit that one
    of them is of is restarted where it would be started.
    """

    state: str = UNCHANGED
    enabled: bool | None = None
    unmask: bool = False
    changed: Collection[str] = ()

    @property
    def is_present(self) -> bool:
        """Whether this can hold only for a unit that is on the node."""
        return self.state in (STARTED, RESTARTED) or bool(self.enabled)

    def state_of(self, name: str) -> str:
        """Return the state that a unit shall have."""
        files = {match[1] for match in map(_FILE.search, self.changed) if match}
        return RESTARTED if self.state == STARTED and name in files else self.state


class Step(NamedTuple):
    """A step: what systemctl does, with which unit."""

    action: str
    unit: str


def missing(names: Iterable[str], known: Mapping[str, Unit]) -> list[str]:
    """Return the units that are not on the node."""
    return [name for name in names if name not in known or known[name].load_state == "not-found"]


def plan(names: Iterable[str], known: Mapping[str, Unit], wanted: Wanted) -> list[Step]:
    """Return the steps for units; none for those that are not on the node."""
    absent = missing(names, known)
    return [step for name in names if name not in absent for step in _steps(name, known[name], wanted)]


def _steps(name: str, unit: Unit, wanted: Wanted) -> Iterable[Step]:
    state, runs = wanted.state_of(name), unit.active_state in _RUNS
    if state == STOPPED and unit.active_state not in _ENDED:
        yield Step(STOP, name)
    if wanted.enabled is False and unit.file_state in _CAN_BE_DISABLED:
        yield Step(DISABLE, name)
    if wanted.unmask and unit.file_state in _MASKED:
        yield Step(UNMASK, name)
    if wanted.enabled and unit.file_state in _CAN_BE_ENABLED:
        yield Step(ENABLE, name)
    if state == RESTARTED and runs:
        yield Step(RESTART, name)
    elif state in (STARTED, RESTARTED) and not runs:
        yield Step(START, name)


def shown(steps: Iterable[Step], *, enabled: bool | None) -> dict[str, list[str]]:
    """Return what the preview shows: the units that are enabled or disabled; what a boot leaves as it was is not."""
    telling = {True: (UNMASK, ENABLE, START), False: (DISABLE,), None: ()}[enabled]
    named = list(dict.fromkeys(step.unit for step in steps if step.action in telling))
    return {DISABLE if enabled is False else ENABLE: named}


def outcome(steps: list[Step], missing: list[str], enabled: bool | None) -> dict[str, Any]:  # noqa: FBT001 - three states
    """Return the result of the module, by its steps and the units that are not there."""
    return {
        "changed": bool(steps),
        "changes": changes(**shown(steps, enabled=enabled)),
        "steps": [step._asdict() for step in steps],
        "missing": missing,
    }
