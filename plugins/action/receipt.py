# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.receipt: add what the role worked from, which the controller knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.plugins.action.normal import ActionModule as NormalAction
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import host_types
from ansible_collections.gpulab.node.plugins.plugin_utils.roles import due

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Plan


class ActionModule(NormalAction):
    """Run the module with the role's inputs; the playbook that removes the roles sets __removing."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what the module returns; in check mode, where nothing is recorded, the node is not asked."""
        if self._task.check_mode:
            return {"changed": False}
        variables = task_vars or {}
        known = variables.get("ansible_facts", {})
        args = dict(self._task.args)
        if variables.get("__removing"):
            args["state"] = "absent"
        elif "gpulab_plan" in known:
            plan: Plan = known["gpulab_plan"]
            values = host_types.values(plan, variables, self._templar.template)
            args["inputs"] = due.inputs(args["role"], plan, known["gpulab"], values, variables)
            args["plan"] = due.compared(args["role"], plan)
        else:  # the receipt of an earlier run does not tell what this one did; the next run with a plan looks itself
            args["state"] = "absent"
        self._task.args = args
        result: dict[str, Any] = super().run(tmp, variables)
        return result
