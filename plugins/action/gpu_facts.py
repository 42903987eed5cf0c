# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.gpu_facts: the first contact with a node, so whatever keeps a run away from the node shows here.

The cause becomes part of the result, so every callback, AWX and ansible-runner show code, cause and remedy.
Here the facts of a node enter the controller, so here their form is checked.
A role that begins its work with this task is refused for unknown variables and on a node where another run works.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any

from ansible.constants import INTERNAL_STATIC_VARS
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action.normal import ActionModule as NormalAction
from ansible_collections.gpulab.node.plugins.module_utils.core.run_lock import BEGIN, END, GO_ON, LOOK
from ansible_collections.gpulab.node.plugins.module_utils.reading import program
from ansible_collections.gpulab.node.plugins.plugin_utils import inventory_check, options
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.core.this_run import is_dead, this_run
from ansible_collections.gpulab.node.plugins.plugin_utils.facts import forms
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.kernel_forms import VARIABLE
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.explain import SshAddress, explain, full
from ansible_collections.gpulab.node.plugins.plugin_utils.roles import known, leaves
from ansible_collections.gpulab.node.plugins.plugin_utils.roles.code import RoleCode

DEFAULTS = {name: option.get("default") for name, option in program.ARGUMENTS.items()}
NO_SPACE = "H008"
# A file server that is gone would not answer; what is always full says nothing.
DF = "for what in -P -Pi; do timeout 5 df -l $what -x squashfs -x iso9660 -x efivarfs; done"
# What a look returns. Ansible takes what else a node says, as add_host, out of a module's answer, not out of this one.
RETURNED = ("changed", "failed", "msg", "refusal", "holder", "ansible_facts", "clock")


class ActionModule(NormalAction):
    """Run the module; if it cannot run, say why."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what the module returns, or the failure with its refusal."""
        args, variables = dict(self._task.args), task_vars or {}
        if args.get("work") in (LOOK, BEGIN):
            given = {name: value for name, value in variables.items() if name not in INTERNAL_STATIC_VARS}
            if unknown := inventory_check.unknown(given, options.load()):
                return failure(unknown)
        args["kernel_values"] = self._kernel_values(variables)
        args["own_paths"] = leaves.exact() if self._task.check_mode else []
        self._task.args = args
        if not self._task.check_mode:
            self._task.args = {**args, "work": args.get("work", GO_ON), "run": this_run(os.getppid())}
        raised: AnsibleError | None = None
        begun = time.time()
        try:
            result = self._read(tmp, variables)
            if result.get("holder") and is_dead(result["holder"]):
                self._task.args["dead"] = result["holder"]
                result = self._read(tmp, variables)
        except AnsibleConnectionFailure as error:
            raised, result = error, {"unreachable": True, "msg": str(error)}
        except AnsibleError as error:
            raised, result = error, {"failed": True, "msg": str(error)}
        host = variables.get("inventory_hostname", "")
        if not ("refusal" in result or result.get("failed") or result.get("unreachable")):
            return taken_over(result, host, (begun, time.time()))
        return self._explained({name: part for name, part in result.items() if name != "ansible_facts"}, host, raised)

    def _read(self, tmp: str | None, variables: dict[str, Any]) -> dict[str, Any]:
        """Return what the program that the last run left on the node answers, or else the module."""
        digest = reader()
        if self._is_pipelining_enabled("new") and not self._task.async_val:
            asked = {**DEFAULTS, **self._task.args, "program": None}
            asked["timeout"] = int(asked["timeout"])
            words = ["-I", "-c", program.COMMAND, f"{program.PLACE}/{digest}"]
            call = shlex.join([_interpreter(variables), *words])
            data = json.dumps({"asked": asked, "check_mode": self._task.check_mode}).encode()
            answer = self._low_level_execute_command(call, in_data=data)
            told = answered_by_program(answer["stdout"]) if answer["rc"] == 0 else None
            if told is not None:
                return told
            if asked["work"] != END:  # remove.yml has just taken it away
                self._task.args["program"] = digest  # to be left there: it is missing, or it does not work
        answered: dict[str, Any] = super().run(tmp, variables)
        return answered

    def _explained(self, result: dict[str, Any], host: str, raised: AnsibleError | None) -> dict[str, Any]:
        """Return a failure with its refusal; raise what is none of those that can be explained."""
        if "refusal" in result:
            return result
        why = explain(result, host, unreachable=bool(result.get("unreachable")), address=self._address(host))
        if why and why.code == NO_SPACE:
            why = replace(why, cause=f"{why.cause}{self._full()}")
        if why:
            return {**result, "msg": str(why), "refusal": asdict(why)}
        if raised:
            raise raised
        return result

    def _full(self) -> str:
        """Return which file systems of the node are full; df needs neither Python nor a file of its own."""
        try:
            answer = self._low_level_execute_command(DF)
        except AnsibleError:
            return ""
        found = full(answer["stdout"])
        return f" (full: {', '.join(found)})" if found else ""

    def _kernel_values(self, variables: dict[str, Any]) -> list[str]:
        """Return the names that the host's tuning_overrides sets; none where they cannot be told: the plan says why."""
        try:
            given = self._templar.template(variables.get(VARIABLE))
        except AnsibleError:
            return []
        return [name for name in given if isinstance(name, str)] if isinstance(given, Mapping) else []

    def _address(self, host: str) -> SshAddress:
        """Return where the connection goes: the host's name where the plugin does not know an address."""
        try:
            told = [self._connection.get_option(name) for name in ("host", "remote_user", "port")]
        except KeyError:
            return SshAddress(host)
        return SshAddress(str(told[0] or host), *told[1:])


@lru_cache(maxsize=1)
def reader() -> str:
    """Return a digest of the code that reads the facts on a node."""
    code = RoleCode(known.ROOT)
    return code.digest_of(code.reached({"plugins/modules/gpu_facts.py"}))


def _interpreter(variables: dict[str, Any]) -> str:
    """Return the node's Python, as far as the inventory tells."""
    told = str(variables.get("ansible_python_interpreter") or "auto")
    return "/usr/bin/python3" if told.startswith("auto") else told


def answered_by_program(output: str) -> dict[str, Any] | None:
    """Return what the program on the node answers, and nothing else that it says; None where that is no answer."""
    try:
        told = json.loads(output.splitlines()[-1])
    except (IndexError, ValueError, RecursionError):
        return None
    return {name: told[name] for name in RETURNED if name in told} if isinstance(told, dict) else None


def ahead(clock: Any, begun: float, ended: float) -> int | None:
    """Return by how many seconds a clock, read between two times, is ahead for sure; None for what is no time."""
    if isinstance(clock, bool) or not isinstance(clock, (int, float)) or not math.isfinite(clock):
        return None
    return round(max(clock - ended, 0) or min(clock - begun, 0))


def taken_over(result: dict[str, Any], host: str, between: tuple[float, float]) -> dict[str, Any]:
    """Return the module's result with the facts that are its own and no others, or the refusal of what cannot be.

    between are the times on the controller before the node was asked and after it has answered.
    """
    told, clock = result.get("ansible_facts") or {}, result.pop("clock", None)
    why = forms.refusal(told.get("gpulab"), host)
    if why:
        return failure([why])
    if isinstance(told["gpulab"].get("system"), dict):
        told["gpulab"]["system"]["clock_ahead_seconds"] = ahead(clock, *between)
    known = {"gpulab": told["gpulab"], "gpulab_check_mode": told.get("gpulab_check_mode") is True}
    missing = told.get("gpulab_missing")
    known["gpulab_missing"] = [path for path in missing if isinstance(path, str)] if isinstance(missing, list) else []
    known["gpulab_software_trial"] = told.get("gpulab_software_trial")  # who takes it looks at its form
    return {**result, "ansible_facts": known}
