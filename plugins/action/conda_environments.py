# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.conda_environments: build each environment that is to change, then take it into use."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.environments.builds import told
from ansible_collections.gpulab.node.plugins.plugin_utils.environment_files import conda_files
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.long_step import LongStep, LongStepAction

CHANNELS = ["conda-forge"]


class ActionModule(LongStepAction):
    """Read the files, look at the node; where something is to do, fetch micromamba, and make one after the other."""

    def carry_out(self, args: dict[str, Any]) -> dict[str, Any]:
        """Bring the environments to the wanted state. Raises Refusal."""
        channels, architecture = args.get("channels") or CHANNELS, args.get("architecture") or "x86_64"
        places = conda_files.CondaSources(
            args.get("channel_alias"), args.get("defaults_channel"), args.get("extra_index_urls") or ()
        )
        requested = [conda_files.resolve(one, channels, architecture, places) for one in args.get("environments") or []]
        self._args = {**args, "environments": requested}
        seen = self._ask_node("look")
        given = seen.pop("given", [])
        todo, gone, last = seen.pop("todo", {}), seen.pop("gone", []), seen.pop("last", None)
        if seen["micromamba"] and not self._task.check_mode:
            self._ask_node("fetch")
        changes = [self._make(name) for name in todo] + [self._ask_node("finish", only=name) for name in gone]
        changes += [self._ask_node("give", only=name) for name in given]
        if last:
            self._ask_node(last)
        if changes:
            seen.update(told(changes, seen["changes"]))
        return {key: value for key, value in seen.items() if key != "invocation"}

    def _make(self, name: str) -> dict[str, Any]:
        """Make an environment and return how it changed. Raises Refusal."""
        argv = self._ask_node("make", only=name)["argv"]
        outcome = self.run_step(LongStep(f"conda-{name}", argv, int(self._args.get("timeout") or 3600)))
        if outcome.rc != 0:
            raise Refusal(
                **self._ask_node("explain", only=name, log=outcome.log, printed="\n".join(outcome.tail))["why"]
            )
        return self._ask_node("finish", only=name)

    def _ask_node(self, operation: str, **more: str) -> dict[str, Any]:
        return self.call_module("conda_environments", {**self._args, "operation": operation, **more})
