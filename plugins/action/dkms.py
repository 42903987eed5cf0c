# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.dkms: a kernel module for each of the named kernels, each build a long step."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.driver.dkms import ENVIRONMENT
from ansible_collections.gpulab.node.plugins.plugin_utils.long_step import LongStep, LongStepAction


def step_name(module: str, kernel: str) -> str:
    """Return the name of the step that builds a module for a kernel; systemd does not take every letter of it."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", f"dkms-{module}-{kernel}")


def diff(module: str, before: dict[str, str], after: dict[str, str]) -> dict[str, str]:
    """Return how the module stands for each kernel, for people."""
    sides = {
        name: "".join(f"{kernel} {module} {state}\n" for kernel, state in stands.items())
        for name, stands in (("before", before), ("after", after))
    }
    return {"before_header": "kernel modules", "after_header": "kernel modules", **sides}


class ActionModule(LongStepAction):
    """Look at the node, and build what is missing there."""

    def carry_out(self, args: dict[str, Any]) -> dict[str, Any]:
        """Have the module installed for every kernel. Raises Refusal."""
        seen = self.call_module("dkms", args)
        result = {key: seen[key] for key in ("changed", "changes", "version", "kernels")}
        if not seen["missing"]:
            return result
        if self._task.check_mode:
            after = {**seen["kernels"], **dict.fromkeys(seen["missing"], "installed")}
        else:
            for kernel in seen["missing"]:
                self._build({**args, "version": seen["version"]}, kernel)
            after = result["kernels"] = self.call_module("dkms", args)["kernels"]
        return {**result, "diff": diff(args["module"], seen["kernels"], after)}

    def _build(self, args: dict[str, Any], kernel: str) -> None:
        """Build and install the module for one kernel. Raises Refusal D001 when it does not compile."""
        argv = ["dkms", "install", "-m", args["module"], "-v", args["version"], "-k", kernel]
        timeout = int(args.get("timeout", 1800))
        outcome = self.run_step(LongStep(step_name(args["module"], kernel), argv, timeout, ENVIRONMENT))
        if outcome.rc != 0:
            answer = self.call_module("dkms", {**args, "kernels": [kernel], "operation": "diagnose"})
            raise Refusal(**answer["failure"])
