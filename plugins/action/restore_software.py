# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.restore_software: take the software of a capture, and bring it back in steps that can be followed."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

from ansible_collections.gpulab.node.plugins.module_utils.capture.wire import packed, unpacked
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.core.records import typed
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import first, for_people_all
from ansible_collections.gpulab.node.plugins.module_utils.packages.apt import ENVIRONMENT
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import software_containers, software_environments
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.software_asked import TAKEN, Pull
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import captures
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import rebuild_state as states
from ansible_collections.gpulab.node.plugins.plugin_utils.capture.manifest import encodable
from ansible_collections.gpulab.node.plugins.plugin_utils.core.asking import unlogged
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.long_step import (
    LongStep,
    LongStepAction,
    StepOutcome,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import software
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.environments import Environment
    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.captures import Capture
    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.manifest import Finding, Sections
    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.rebuild_state import State

LISTS, PACKAGES = "rebuild-lists", "rebuild-packages"
LISTS_TIMEOUT, PACKAGES_TIMEOUT, IMAGE_TIMEOUT, ENVIRONMENT_TIMEOUT = 1800, 7200, 7200, 7200
MOST_NAMED = 3
MARKER = "/etc/gpulab-installed-by"
PEOPLE = range(1000, 60000)  # the ids that accounts of people usually have
ONLY_APT = "gpulab brings packages back with APT only"


class ActionModule(LongStepAction):
    """Carry out one work of a rebuild."""

    _supports_check_mode = True

    def carry_out(self, args: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - the validated ones
        """Return {changed, changes, missing}. Raises Refusal."""
        _validated, self._args = self.validate_argument_spec(
            {
                "directory": {"type": "path", "required": True},
                "capture": {"type": "str"},
                "unsigned": {"type": "str"},
                "age_identity": {"type": "path"},
                "work": {"type": "str", "choices": list(TAKEN), "required": True},
                "extra_index_urls": {"type": "list", "elements": "str", "default": []},
            }
        )
        host, work = self._task_vars["inventory_hostname"], self._args["work"]
        place = captures.place(Path(self._args["directory"]), host)
        state = states.read(place)
        if work == "begin":
            return self._begin(place, host, state)
        self._capture = captures.named(place, host, self._args["capture"], self._args["unsigned"])
        section = work if work in ("containers", "environments") else "packages"
        self._lacking = [one["name"] for one in state.missing if one["section"] == section] if state else []
        found = WORKS[work](self)
        told = {name: for_people_all(encodable(found[name])) for name in ("changes", "missing")}
        return {"changed": bool(told["changes"]), **told}

    def _begin(self, place: Path, host: str, state: State | None) -> dict[str, Any]:
        """Choose the capture. Raises Refusal R062 where the node still is as somebody left it."""
        unfinished = state if state and not state.reached(states.STATES[-1]) else None
        named, unsigned = self._args["capture"], self._args["unsigned"]
        capture = captures.named(place, host, named or (unfinished.capture if unfinished else None), unsigned)
        found = self._ask_node("look", {})
        if not named and not unfinished and found["done"] in captures.names(place):
            capture = captures.named(place, host, found["done"], unsigned)
        sections = capture.manifest.sections
        if not (named or unfinished or found["done"] or _is_marked(found, capture) or _is_another(found, sections)):
            raise refuse("R062", host=host, capture=capture.path.name)
        results = sorted(sections.baseline.results, key=_gravity)
        return {
            "changed": False,
            "capture": capture.path.name,
            "plan": state.plan if state and state.capture == capture.path.name else None,
            "known": {one.id: one.severity for one in results if _gravity(one)},
        }

    def _locks(self) -> dict[str, Any]:
        locks = list(map(asdict, self._capture.manifest.sections.gpulab.locks))
        return {"changes": changes(write=self._ask_node("look", locks)), "missing": []}

    def _packages(self) -> dict[str, Any]:
        """Try the sources, install what they have, and give it its marks. Raises Refusal R061 where that fails."""
        taken = asdict(software.of_packages(self._capture, self._args["age_identity"], self._lacking))
        seen = self._ask_node("look", taken)
        if seen.get("unable"):
            names = self._capture.manifest.sections.manual or []
            return {"changes": [], "missing": [_missing("packages", name, ONLY_APT) for name in names]}
        if self._task.check_mode:
            return {"changes": changes(write=seen["files"], install=seen["names"]), "missing": seen["missing"]}
        written, installed, missing = [], [], seen["missing"]
        if seen["files"] or seen["names"]:
            self.run_step(LongStep(LISTS, self._ask_node("lists", taken), LISTS_TIMEOUT, ENVIRONMENT))
            found = self._ask_node("install", taken, LISTS)
            missing, installed = found["missing"], found["install"]
            written = [path for path in seen["files"] if path not in {one["name"] for one in missing}]
            outcome = found["argv"] and self.run_step(LongStep(PACKAGES, found["argv"], PACKAGES_TIMEOUT, ENVIRONMENT))
            if outcome and outcome.rc:
                self._ask_node("marks", taken)  # which lets services start again, whatever is there
                raise refuse("R061", line=_last(outcome), log=outcome.log)
        marked = self._ask_node("marks", taken)
        return {
            "changes": [*changes(write=written, install=installed), *marked["changes"]],
            "missing": [*missing, *marked["missing"]],
        }

    def _jobs(self) -> dict[str, Any]:
        is_last = self._args["work"] == "jobs"
        taken = software.of_jobs(self._capture, self._args["age_identity"], sources=is_last)
        found: dict[str, Any] = self._ask_node("look", asdict(taken))
        return found

    def _containers(self) -> dict[str, Any]:
        """Pull images. One that cannot be pulled leaves the others alone."""
        plan = self._ask_node("look", list(map(asdict, self._capture.manifest.sections.containers.engines)))
        over = self._ask_node("done", None)
        done, missing = [], [*plan["missing"]]
        for number, pull in enumerate(typed(plan["pulls"], list[Pull])):
            if over and software_containers.called(pull) not in self._lacking:
                continue
            commands = list(map(shlex.join, software_containers.commands(pull)))
            if not self._task.check_mode:
                script = "\n".join(["set -e", *commands])
                outcome = self.run_step(LongStep(f"rebuild-image-{number}", ["sh", "-c", script], IMAGE_TIMEOUT))
                if outcome.rc:
                    missing.append(software_containers.failed(pull, _last(outcome)))
                    continue
            done += commands
        return {"changes": changes(run=done), "missing": missing}

    def _environments(self) -> dict[str, Any]:
        """Make environments. One that cannot be made leaves the others alone."""
        made, missing, over = [], [], self._ask_node("done", None)
        for number, record in enumerate(software.environments(self._capture)):
            seen = self._ask_node("look", asdict(record))
            if over:  # it is its user's again: only what it lacked before is made or named
                seen["make"] = seen["make"] and record.path in self._lacking
                seen["missing"] = [one for one in seen["missing"] if one["name"] in self._lacking]
            if seen["make"] and not self._task.check_mode:
                seen = self._make(f"rebuild-environment-{number}", record)
            if seen["make"]:
                made.append(record.path)
            missing += seen["missing"]
        return {"changes": changes(build=made), "missing": missing}

    def _make(self, step: str, record: Environment) -> dict[str, Any]:
        """Make an environment and look at it; return whether it was made, and what is missing."""
        argv = self._ask_node("make", asdict(record), step)
        outcome = self.run_step(LongStep(step, argv, ENVIRONMENT_TIMEOUT))
        seen = self._ask_node("look", asdict(record), step)
        if outcome.rc:
            return {"make": False, "missing": [software_environments.missing(record, _last(outcome))]}
        return {"make": True, "missing": seen["missing"]}

    def _check_locks(self) -> dict[str, Any]:
        """Raise Refusal R013 where a package of a lock is not available any more."""
        lost = list(self._lost_locks())
        if lost:
            host = self._task_vars["inventory_hostname"]
            raise refuse("R013", host=host, names=first(lost, MOST_NAMED, "; "))
        return {"changes": [], "missing": []}

    def _lost_locks(self) -> Iterator[str]:
        for number, record in enumerate(software.environments(self._capture)):
            step = f"check-environment-{number}"
            argv = [] if self._task.check_mode else self._ask_node("check", asdict(record), step)
            outcome = self.run_step(LongStep(step, argv, ENVIRONMENT_TIMEOUT)) if argv else None
            if outcome and outcome.rc:
                yield f"{record.path}: {_last(outcome)}"
            gone = self._ask_node("addresses", asdict(record))
            if gone:
                yield f"{record.path}: {gone}"

    def _ask_node(self, operation: str, taken: Any, step: str = "") -> Any:
        """Return the module's answer. Raises Refusal and ModuleError."""
        args = {**self._args, "operation": operation, "asked": packed({"taken": taken, "step": step})}
        with unlogged(self):
            return unpacked(self.call_module("restore_software", args)["answer"])


# What each work does, but begin.
WORKS: dict[str, Callable[[ActionModule], dict[str, Any]]] = {
    "packages": ActionModule._packages,  # noqa: SLF001 - the works are its own
    "hold_jobs": ActionModule._jobs,  # noqa: SLF001
    "services": ActionModule._jobs,  # noqa: SLF001
    "locks": ActionModule._locks,  # noqa: SLF001
    "containers": ActionModule._containers,  # noqa: SLF001
    "environments": ActionModule._environments,  # noqa: SLF001
    "jobs": ActionModule._jobs,  # noqa: SLF001
    "check_locks": ActionModule._check_locks,  # noqa: SLF001
}


def _is_marked(found: dict[str, Any], capture: Capture) -> bool:
    """Tell whether gpulab installed the node since the capture."""
    return bool(found["marker"]) and all(one["path"] != MARKER for one in capture.manifest.files)


def _is_another(found: dict[str, Any], sections: Sections) -> bool:
    """Tell whether an installation is another one than the captured.

    Its id may be the machine's, by systemd; then what runs of gpulab left on it tells, or else people's accounts: of
    those, a node at work loses one now and then.
    """
    if found["machine_id"] != sections.identity.machine_id:
        return True
    if sections.gpulab.receipts:
        return not found["receipts"]
    people = {one.name for one in sections.users if one.uid in PEOPLE}
    return len(people - set(found["users"])) * 2 > len(people)


def _gravity(result: Finding) -> int:
    return ("warn", "fail").index(result.severity) + 1 if result.severity in ("warn", "fail") else 0


def _last(outcome: StepOutcome) -> str:
    """Return the line that says why a step failed: the first that pip calls an error, else the last."""
    errors = [line for line in outcome.tail if line.startswith(("ERROR:", "E: ", "Error"))]
    return (errors or [*outcome.tail] or ["it printed nothing"])[-1 if not errors else 0]


def _missing(section: str, name: str, why: str) -> dict[str, str]:
    return {"section": section, "name": name, "why": why}
