# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.venv_environments: build each environment that is to change, then take it into use."""

from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.gpulab.node.plugins.module_utils.environments.builds import told
from ansible_collections.gpulab.node.plugins.module_utils.environments.venv import classify
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.long_step import LongStep, LongStepAction


class ActionModule(LongStepAction):
    """Look at the node; where something is to do, fetch uv, and make one environment after the other."""

    unforeseen: ClassVar[dict[str, Any]] = {"changed": False, "unlisted": [], "abandoned": []}

    def carry_out(self, args: dict[str, Any]) -> dict[str, Any]:
        """Bring the environments to the wanted state. Raises Refusal."""
        self._args = args
        seen = self._ask_node("look")
        todo, gone, given = seen.pop("todo", {}), seen.pop("gone", []), seen.pop("given", [])
        if todo:
            self._run("uv", "environments-uv", self._ask_node("fetch")["argv"])
        changes = [self._make(name) for name in todo] + [self._ask_node("finish", only=name) for name in gone]
        changes += [self._ask_node("give", only=name) for name in given]
        warnings = [note for one in changes for note in one.pop("notes", [])]
        if warnings:
            seen["warnings"] = warnings
        if changes:
            seen.update(told(changes, seen["changes"]))
        return {key: value for key, value in seen.items() if key != "invocation"}

    def _make(self, name: str) -> dict[str, Any]:
        """Make an environment and return how it changed. Raises Refusal."""
        self._run(name, f"environment-{name}-lock", self._ask_node("lock", only=name)["argv"])
        self._run(name, f"environment-{name}", self._ask_node("make", only=name)["argv"])
        return self._ask_node("finish", only=name)

    def _run(self, name: str, step: str, argv: list[str] | None) -> None:
        """Run a step, where there is one. Raises Refusal."""
        if argv is None:
            return
        outcome = self.run_step(LongStep(step, argv, int(self._args.get("timeout", 3600))))
        if outcome.rc != 0:
            raise classify("\n".join(outcome.tail), name, outcome.log)

    def _ask_node(self, operation: str, **more: str) -> dict[str, Any]:
        return self.call_module("venv_environments", {**self._args, "operation": operation, **more})
