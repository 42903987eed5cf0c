# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.reload_units: let systemd read its units again, but not while a container may lose its GPU by that."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.module_utils.facts.users import in_use
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

UNITS = "/systemd/system/"  # part of the path of each unit, and of its drop-ins


class ActionModule(ActionBase):
    """Reload, leave it for later, or refuse: by who uses the GPUs, as the facts of the run say."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return whether it was done, and else who uses a GPU."""
        super().run(tmp, task_vars)
        variables = task_vars or {}
        _validated, args = self.validate_argument_spec(
            {
                "paths": {"type": "list", "elements": "str"},
                "refusal": {"type": "str"},
                "force": {"type": "bool", "default": False},
            }
        )
        result: dict[str, Any] = {"changed": False, "reloaded": False, "used_by": ""}
        if args["paths"] is not None and not any(UNITS in path for path in args["paths"]):
            return result
        users = variables["ansible_facts"]["gpulab"]["users_of_gpus"]
        result["used_by"] = "" if args["force"] or users["state"] == "idle" else in_use(users, people=False)
        if args["refusal"]:
            if result["used_by"]:
                told = refuse(args["refusal"], host=variables["inventory_hostname"], who=result["used_by"])
                return {**result, "failed": True, "msg": str(told), "refusal": asdict(told)}
        elif not result["used_by"] and not self._task.check_mode:
            reload = {"daemon_reload": True}
            answer = self._execute_module("ansible.legacy.systemd_service", module_args=reload, task_vars=variables)
            return {**result, **answer, "changed": False, "reloaded": not answer.get("failed")}
        return result
