# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.work_images: let one image after the other come, each as a long step of the node's own."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.containers.work_images import step_of
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.long_step import LongStep, LongStepAction

SECONDS = 14400


class ActionModule(LongStepAction):
    """Look at the node; where something is to do, let it come, and then let people see it."""

    def carry_out(self, args: dict[str, Any]) -> dict[str, Any]:
        """Bring the images to the wanted state. Raises Refusal."""
        self._args = args
        seen = self.call_module("work_images", args)
        coming = seen.pop("coming", [])
        if args.get("operation") == "judge":
            return {**seen, "changed": False, "changes": []}
        if seen["changed"] and not self._task.check_mode:
            for name in coming:
                self._bring(name)
            seen["in_use"] = self._ask_node("finish")["in_use"]
        return {key: value for key, value in seen.items() if key != "invocation"}

    def _bring(self, name: str) -> None:
        """Let an image come. Raises Refusal."""
        ready = self._ask_node("prepare", only=name)
        seconds = int(self._args.get("timeout") or SECONDS)
        outcome = self.run_step(LongStep(step_of(name), ready["argv"], seconds, ready["environment"]))
        if outcome.rc != 0:
            raise Refusal(**self._ask_node("explain", only=name, printed="\n".join(outcome.tail))["why"])
        self._ask_node("seal", only=name)

    def _ask_node(self, operation: str, **more: str) -> dict[str, Any]:
        return self.call_module("work_images", {**self._args, "operation": operation, **more})
