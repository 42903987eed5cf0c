# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell each node of the play its part in one all_reduce, and start it there."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.plugin_utils.peers.across_nodes import arrange
from ansible_collections.gpulab.node.plugins.plugin_utils.report.hosts import known_facts

FACTS = ("gpulab", "gpulab_environments", "gpulab_measurements")


class ActionModule(ActionBase):
    """Arrange the meeting, the same on every host, and run the module where the host takes part."""

    _supports_async = True
    _supports_check_mode = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the module's result, or at once why the host does not take part."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        host, hostvars = task_vars["inventory_hostname"], task_vars["hostvars"]
        given = dict(self._task.args)
        among = given.pop("among", None) or task_vars["ansible_play_hosts_all"]
        meeting = arrange(known_facts(hostvars, among, FACTS))
        if host not in meeting.parts:
            skipped = {"state": "skipped", "reason": meeting.reasons.get(host, "it is in another group")}
            return {**result, "changed": False, "ansible_facts": {"gpulab_nodes_all_reduce": skipped}}
        arguments = {
            **given,
            "nodes": list(meeting.nodes),
            "name": host,
            "backend": meeting.backend,
            **meeting.parts[host],
        }
        started: dict[str, Any] = self._execute_module(
            module_name="gpulab.node.nodes_all_reduce",
            module_args=arguments,
            task_vars=task_vars,
            wrap_async=self._task.async_val,
        )
        # What an earlier run found is no answer of this one.
        return {"ansible_facts": {"gpulab_nodes_all_reduce": None}, **started}
