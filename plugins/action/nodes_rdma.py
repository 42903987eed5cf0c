# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell each node of the play with which others it sends RDMA, and start it there."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.plugin_utils.peers.over_rdma import arrange
from ansible_collections.gpulab.node.plugins.plugin_utils.report.hosts import known_facts

FACTS = ("gpulab", "gpulab_measurements")


class ActionModule(ActionBase):
    """Arrange the pairs, the same on every host, and run the module where the host takes part."""

    _supports_async = True
    _supports_check_mode = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the module's result, or at once why the host does not take part."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        host = task_vars["inventory_hostname"]
        parts, reasons = arrange(known_facts(task_vars["hostvars"], task_vars["ansible_play_hosts_all"], FACTS))
        if host not in parts:
            skipped = {"state": "skipped", "reason": reasons[host]}
            return {**result, "changed": False, "ansible_facts": {"gpulab_nodes_rdma": skipped}}
        started: dict[str, Any] = self._execute_module(
            module_name="gpulab.node.nodes_rdma",
            module_args={**self._task.args, "name": host, **parts[host]},
            task_vars=task_vars,
            wrap_async=self._task.async_val,
        )
        # What an earlier run found is no answer of this one.
        return {"ansible_facts": {"gpulab_nodes_rdma": None}, **started}
