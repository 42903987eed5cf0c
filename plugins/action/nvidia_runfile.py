# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.nvidia_runfile: try the build for every kernel, then let NVIDIA's installer change the driver."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleError
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.driver.dkms import ENVIRONMENT
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.long_step import (
    LongStep,
    LongStepAction,
    StepOutcome,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

TIMEOUT = 3600


class ActionModule(LongStepAction):
    """Look at the node; where something is to do, fetch, try, install, or remove."""

    def carry_out(self, args: dict[str, Any]) -> dict[str, Any]:
        """Bring the driver to the wanted state. Raises Refusal."""
        self._args = args
        seen = self._ask_node("look")
        begun, fetched = seen.pop("begun", None), seen.pop("fetched", False)
        if seen["changed"] and not self._task.check_mode:
            state = args.get("state", "present")
            if state == "absent":
                self._remove(begun)
            elif state == "fetched":
                self._fetch()
            elif state == "confirmed":
                self._ask_node("confirm")
            else:
                self._install(begun, fetched=fetched)
        return {key: value for key, value in seen.items() if key != "invocation"}

    def _fetch(self) -> None:
        """Have the file on the node, by itself or from here. Raises Refusal D030 and what the node says of the file."""
        url = self._args.get("url")
        if not url or "://" in url:  # that of a former driver is there
            self._ask_node("fetch")
            return
        try:
            source = self._find_needle("files", url)
        except AnsibleError as error:
            raise refuse("D030", url=url, detail="the file does not exist on the controller") from error
        directory = self._make_tmp_path()
        try:
            path = f"{directory}/driver.run"
            self._transfer_file(source, path)
            self._fixup_perms2((directory, path))
            self._ask_node("fetch", path=path)
        finally:
            self._remove_tmp_path(directory)

    def _install(self, begun: dict[str, Any] | None, *, fetched: bool) -> None:
        """Install the driver, or see an installation through that a former run began. Raises Refusal."""
        step = begun
        if not step:
            if not fetched:
                self._fetch()
            # A former driver need not build for every kernel.
            kernel = self._first_that_builds() if self._args.get("state") == "restored" else self._first_of_all()
            step = self._ask_node("start", kernel=kernel)["run"]
        if self._run(step, pick_up=bool(begun)).rc != 0:
            raise Refusal(**self._ask_node("explain")["why"])
        self._ask_node("finish")

    def _first_of_all(self) -> str:
        """Return the first kernel, once the modules have built for every one. Raises Refusal D002 and D033."""
        for kernel in self._args["kernels"]:
            self._try(kernel)
        return self._args["kernels"][0]

    def _first_that_builds(self) -> str:
        """Return the first kernel that the modules build for. Raises Refusal D002 and D033 of the last one."""
        *others, last = self._args["kernels"]
        for kernel in others:
            if self._build(kernel).rc == 0:
                return kernel
        self._try(last)
        return last

    def _try(self, kernel: str) -> None:
        """Build the modules for a kernel; where that fails, let go of the file. Raises Refusal D002 and D033."""
        tried = self._build(kernel)
        if tried.rc != 0:
            raise Refusal(**self._ask_node("explain_build", kernel=kernel, log=tried.log)["why"])

    def _build(self, kernel: str) -> StepOutcome:
        """Build the modules for a kernel, beside what is there. Raises Refusal D002."""
        return self._run(self._ask_node("try", kernel=kernel)["run"])

    def _remove(self, begun: dict[str, Any] | None) -> None:
        """Take the driver off. Raises Refusal D036."""
        step = begun or self._ask_node("start_removal")["run"]
        if step:
            self._run(step, pick_up=bool(begun))
        self._ask_node("finish_removal")

    def _run(self, step: dict[str, Any], *, pick_up: bool = False) -> StepOutcome:
        timeout = int(self._args.get("timeout") or TIMEOUT)
        # What the installer installs lies beside it; env may stand before it, with the kernel's compiler.
        program = next(word for word in step["argv"] if word != "env" and "=" not in word)
        directory = program.rpartition("/")[0] or "/"
        return self.run_step(LongStep(step["step"], step["argv"], timeout, ENVIRONMENT, directory, pick_up))

    def _ask_node(self, operation: str, **more: str) -> dict[str, Any]:
        return self.call_module("nvidia_runfile", {**self._args, "operation": operation, **more})
