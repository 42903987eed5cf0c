# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write what the proof found on all hosts of the play, on the controller."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.core.host_file import file_name
from ansible_collections.gpulab.node.plugins.plugin_utils.report.hosts import gather, publish

ARGUMENTS = {
    "directory": {"type": "path"},
    "baseline": {"type": "path"},
    "kept": {"type": "int"},
    "history": {"type": "path"},
}


class ActionModule(ActionBase):
    """Collect the hosts' facts and results from hostvars and write the report."""

    BYPASS_HOST_LOOP = True
    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Write the report and return where it is."""
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        _validated, arguments = self.validate_argument_spec(ARGUMENTS)
        batch = (task_vars.get("__rollout_turn") or {}).get("batch")  # the others of a rollout come later
        hosts = gather(batch or task_vars["ansible_play_hosts_all"], task_vars["hostvars"])
        try:
            report, lines, directory = publish(hosts, arguments, record=not self._task.check_mode)
        except Refusal as refusal:
            return {"failed": True, "msg": str(refusal)}
        return {
            "changed": False,
            "directory": str(directory),
            "verdict": report["verdict"],
            "counts": report["counts"],
            "metrics": {name: str((directory / f"{file_name(name)}.prom").resolve()) for name in hosts},
            "msg": lines,
        }
