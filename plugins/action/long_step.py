# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.long_step: run a long command on the node and follow it to its end."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.long_step import LongStep, LongStepAction
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse


class ActionModule(LongStepAction):
    """Run the step that the task describes."""

    def carry_out(self, args: dict[str, Any]) -> dict[str, Any]:
        """Run the step, unless in check mode. Raises Refusal S008 when the command fails."""
        _validated, args = self.validate_argument_spec(
            {
                "name": {"type": "str", "required": True},
                "argv": {"type": "list", "elements": "str", "required": True},
                "environment": {"type": "dict", "default": {}},
                "chdir": {"type": "path", "default": "/"},
                "timeout": {"type": "int", "default": 3600},
            }
        )
        step = LongStep(**args, pick_up=True)
        command = shlex.join(step.argv)
        result = {"changed": True, "changes": changes(run=[command])}
        if self._task.check_mode:
            return {**result, "diff": {"prepared": f"would run: {command}\n"}}
        outcome = self.run_step(step)
        if outcome.rc != 0:
            line = outcome.tail[-1] if outcome.tail else "nothing"
            raise refuse("S008", name=step.name, rc=outcome.rc, line=line, log=outcome.log)
        return {**result, "step": asdict(outcome)}
