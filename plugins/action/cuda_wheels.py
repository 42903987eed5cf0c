# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.cuda_wheels: fetch the wheels of each toolkit that is to change, then put it in its place."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.environments.venv import advice_on, essence
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.long_step import LongStep, LongStepAction
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse


class ActionModule(LongStepAction):
    """Look at the node; where something is to do, make one toolkit after the other, and remove what is not wanted."""

    def carry_out(self, args: dict[str, Any]) -> dict[str, Any]:
        """Bring the toolkits to the wanted state. Raises Refusal."""
        self._args = args
        seen = self._ask_node("look")
        for version in seen.pop("gone", []):
            self._ask_node("remove", version)
        for version in seen.pop("todo", []):
            self._make(version)
        return {key: value for key, value in seen.items() if key != "invocation"}

    def _make(self, version: str) -> None:
        """Fetch a toolkit's wheels and put them in place. Raises Refusal C005."""
        argv = self._ask_node("fetch", version)["argv"]
        outcome = self.run_step(LongStep(f"cuda-{version}", argv, int(self._args.get("timeout", 3600))))
        if outcome.rc != 0:
            told = "\n".join(outcome.tail)
            advice = advice_on(told, "Check the node's network, proxy and pip.conf.")
            raise refuse("C005", version=version, line=essence(told), advice=advice, log=outcome.log)
        self._ask_node("finish", version)

    def _ask_node(self, operation: str, only: str | None = None) -> dict[str, Any]:
        return self.call_module("cuda_wheels", {**self._args, "operation": operation, "only": only})
