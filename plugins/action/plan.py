# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the resolver on the controller, with the facts and the options of one host."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.inventory_check import structure
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import reasons, resolve


class ActionModule(ActionBase):
    """The action behind the module plan."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the plan, or fail with the refusal as data."""
        result: dict[str, Any] = {**super().run(tmp, task_vars), "changed": False}
        self.validate_argument_spec(argument_spec={})
        variables = task_vars or {}
        facts = variables.get("ansible_facts", {}).get("gpulab")
        if facts is None:
            msg = "the facts of this node are missing: run gpulab.node.gpu_facts before gpulab.node.plan"
            raise AnsibleActionFail(msg)
        values = options.Values(lambda name: self._templar.template(variables.get(name)))
        today = datetime.now(tz=timezone.utc).date()
        groups = variables.get("group_names", ())
        host_type = next((group for group in structure.HOST_TYPES if group in groups), None)
        members = variables.get("groups", {})
        alone = len(members[host_type] if host_type else structure.nodes(members)) == 1
        try:
            plan = resolve(facts, values, catalog.load(), today, host_type, alone=alone)
        except Refusal as refusal:
            return {**result, "failed": True, "msg": str(refusal), "refusal": asdict(refusal)}
        return {**result, "plan": plan, "because": reasons(plan), "ansible_facts": {"gpulab_plan": plan}}
