# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write what the proof found on all hosts of the play, on the controller."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.core.host_file import file_name
from ansible_collections.gpulab.node.plugins.plugin_utils.core.hosts_action import HostsAction
from ansible_collections.gpulab.node.plugins.plugin_utils.history.memory import ARGUMENTS as TRENDS
from ansible_collections.gpulab.node.plugins.plugin_utils.report.hosts import gather, publish

ARGUMENTS = {
    "directory": {"type": "path"},
    "baseline": {"type": "path"},
    "kept": {"type": "int"},
    "history": {"type": "path"},
    **TRENDS,
}


class ActionModule(HostsAction):
    """Collect the hosts' facts and results from hostvars and write the report."""

    spec = ARGUMENTS

    def for_hosts(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Write the report and return where it is."""
        batch = (variables.get("__rollout_turn") or {}).get("batch")  # the others of a rollout come later
        hosts = gather(batch or variables["ansible_play_hosts_all"], variables["hostvars"])
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
