# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.former_packages: putting packages back, as a long step."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.packages.apt import ENVIRONMENT
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.long_step import LongStep, LongStepAction

TIMEOUT = 3600


class ActionModule(LongStepAction):
    """Look at the node; where packages are to be put back, do it and see whether all is as it was."""

    def carry_out(self, args: dict[str, Any]) -> dict[str, Any]:
        """Bring the former packages into the wanted state. Raises Refusal D023."""
        seen = self.call_module("former_packages", args)
        told = ("changed", "changes", "versions", "new", "diff")
        result: dict[str, Any] = {key: seen[key] for key in told if key in seen}
        if "script" not in seen or self._task.check_mode:
            return result
        argv = ["sh", "-c", seen["script"]]
        self.run_step(LongStep(f"{args['name']}-restore", argv, int(args.get("timeout", TIMEOUT)), ENVIRONMENT))
        self.call_module("former_packages", {**args, "operation": "judge"})
        return result
