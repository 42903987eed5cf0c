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
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.channel import Progress, send
from ansible_collections.gpulab.node.plugins.plugin_utils.this_run import this_run

SECONDS = 10.0  # between two looks
SILENT = "F008"  # a restart of Slurm's controller is no end of a wait of hours


class ActionModule(NormalAction):
    """Run the module, once or until the node is idle."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what the module returns; of a wait that was in vain, users still says who uses the node."""
        host, mine = (task_vars or {})["inventory_hostname"], this_run(os.getppid())
        by = f"{mine['user']} on {mine['machine']}"
        given = self._task.args
        self._task.args = {**given, "run": given.get("run") or by, "by": by, "host": host, "lock": mine}
        begun, minutes = time.monotonic(), float(given.get("minutes") or 0)
        while True:
            try:
                result: dict[str, Any] = super().run(tmp, task_vars)
            except AnsibleConnectionFailure as error:
                result = {"unreachable": True, "msg": str(error)}
            late = minutes > 0 and time.monotonic() - begun >= minutes * 60
            silent = (result.get("refusal") or {}).get("code") == SILENT
            waiting = result.get("users") or result.get("unreachable") or silent
            if given["work"] != "wait" or not waiting or late or self._task.check_mode:
                return result
            who = "Slurm's controller" if silent else "the node"
            line = f"in use: {result['users']}" if result.get("users") else f"{who} does not answer"
            send(Progress(host, "Wait for its users", time.monotonic() - begun, line))
            time.sleep(SECONDS)
