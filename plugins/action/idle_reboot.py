# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.idle_reboot: reboot a node as ansible.builtin.reboot does, and ask right before whether it is idle."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from ansible.plugins.action.reboot import ActionModule as Reboot
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

BOOT = "cat /proc/sys/kernel/random/boot_id; cut -d' ' -f22 /proc/1/stat"  # a container's boot id is its host's


class ActionModule(Reboot):
    """Reboot a node that nobody works on."""

    _VALID_ARGS = frozenset({"reasons", "reboot_timeout", "force"})
    DEFAULT_BOOT_TIME_COMMAND = BOOT

    def perform_reboot(self, task_vars: dict[str, Any], distribution: str) -> dict[str, Any]:
        """Reboot, unless somebody is at work: all else was asked before this, and the command is next."""
        host, reasons = task_vars["inventory_hostname"], self._task.args["reasons"]
        if not self._task.args.get("force"):
            look = {"work": "look", "host": host}
            answer = self._execute_module(module_name="gpulab.node.fence", module_args=look, task_vars=task_vars)
            start = {"start": datetime.now(timezone.utc), "rebooted": False}
            if answer.get("failed") or "users" not in answer:
                return {**answer, "failed": True, **start}
            if answer["users"]:
                return {**failure([refuse("H030", host=host, who=answer["users"], reasons=reasons)]), **start}
        self._task.args["msg"] = f"gpulab: {reasons}"
        result: dict[str, Any] = super().perform_reboot(task_vars, distribution)
        return result
