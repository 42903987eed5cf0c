# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.fence: say whose fence it is, and wait on the controller until nobody uses the node.

Each look at the node is a task of its own there, so a wait of hours holds no connection and outlives a lost one.
"""

from __future__ import annotations

import os
import time
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action.normal import ActionModule as NormalAction
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.core.this_run import this_run
from ansible_collections.gpulab.node.plugins.plugin_utils.peers import host_names
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.channel import Progress, send
from ansible_collections.gpulab.node.plugins.plugin_utils.rollout import kubernetes_fence

SECONDS = 10.0  # between two looks
# A restart of what answers for the cluster is no end of a wait of hours.
SILENT = {"F008": "Slurm's controller", "F014": "Kubernetes"}


class ActionModule(NormalAction):
    """Run the module, once or until the node is idle."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what the module returns; of a wait that was in vain, users still says who uses the node."""
        host, mine = (task_vars or {})["inventory_hostname"], this_run(os.getppid())
        by = f"{mine['user']} on {mine['machine']}"
        given = self._task.args
        self._task.args = {**given, "run": given.get("run") or by, "by": by, "host": host, "lock": mine}
        for name in ("kubeconfig", "kubernetes_node"):
            self._task.args.pop(name, None)
        variables = (task_vars or {}).get("hostvars", {}).get(host, task_vars or {})
        self._cluster = kubernetes_fence.Settings(
            given.get("kubeconfig") or None,
            given.get("kubernetes_node") or None,
            tuple(host_names.names(host, variables)),
        )
        begun, minutes = time.monotonic(), float(given.get("minutes") or 0)
        while True:
            result = self._work(tmp, task_vars)
            late = minutes > 0 and time.monotonic() - begun >= minutes * 60
            silent = SILENT.get((result.get("refusal") or {}).get("code", ""))
            waiting = result.get("users") or result.get("unreachable") or silent
            if given["work"] != "wait" or not waiting or late or self._task.check_mode:
                return result
            line = f"in use: {result['users']}" if result.get("users") else f"{silent or 'the node'} does not answer"
            send(Progress(host, "Wait for its users", time.monotonic() - begun, line))
            time.sleep(SECONDS)

    def _work(self, tmp: str | None, task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Do the work once, on the node and in Kubernetes."""
        arguments = self._task.args

        def on_node(args: kubernetes_fence.Given) -> Any:
            self._task.args = args
            try:
                return super(ActionModule, self).run(tmp, task_vars)
            except AnsibleConnectionFailure as error:
                return {"unreachable": True, "msg": str(error)}

        try:
            return {**kubernetes_fence.work(arguments, self._cluster, on_node, check_mode=self._task.check_mode)}
        except Refusal as refusal:
            return failure([refusal])
        finally:
            self._task.args = arguments
