# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.dkms: a kernel module for each of the named kernels, each build a long step, shared among nodes alike."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

from ansible.errors import AnsibleError
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.driver.dkms import ENVIRONMENT
from ansible_collections.gpulab.node.plugins.module_utils.driver.shared_build import TARBALL
from ansible_collections.gpulab.node.plugins.plugin_utils.core.this_run import this_run
from ansible_collections.gpulab.node.plugins.plugin_utils.peers import shared_builds
from ansible_collections.gpulab.node.plugins.plugin_utils.peers.shared_builds import BuildStore, Shared
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.long_step import (
    LongStep,
    LongStepAction,
    ModuleError,
    StepOutcome,
)

BEGUN = "gpulab_build_begun"  # {"kernel": that for which a build has begun, "of": the run, the module and its version}


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
    """Look at the node, and build what is missing there, or load what another node has built."""

    def carry_out(self, args: dict[str, Any]) -> dict[str, Any]:
        """Have the module installed for every kernel that is this task's. Raises Refusal."""
        self._share, self._hosts = args.pop("share", None), args.pop("shared_with", [])
        self._kept, begin = args.pop("builds_directory", None), args.pop("begin", False)
        self._store = BuildStore(self._kept)
        self._args = args
        self._warnings: list[str] = []
        if self._share == "check":
            self._store.check()
            return {"changed": False}
        if self._share == "describe":
            builds = {} if self._task.check_mode else self._ask_dkms("describe")["builds"]
            return {"ansible_facts": {shared_builds.FACT: {"run": self._run_id(), "kernels": builds}}}
        seen = self._ask_dkms("look")
        if self._task.check_mode:
            return {"changed": False} if begin else self._predict(seen)
        self._args = {**args, "version": seen["version"]}
        self._said = self._read_said()
        self._begun = self._read_begun()
        if self._begun:
            seen["kernels"][self._begun] = "added"  # as it was before; it may have ended meanwhile
        due = [kernel for kernel, stands in seen["kernels"].items() if stands != "installed" and self._is_due(kernel)]
        if begin:
            return self._begin(due[0], seen["kernels"][due[0]]) if due else {"changed": False}
        loaded = {kernel: node for kernel in due if (node := self._provide(kernel, seen["kernels"][kernel]))}
        after = self._ask_dkms("look")["kernels"] if due else seen["kernels"]
        result = self._result(seen, due, after)
        result.update({"loaded": loaded} if self._share == "rest" else {})
        result.update({"warnings": self._warnings} if self._warnings else {})
        result.update({"ansible_facts": {BEGUN: {}}} if self._begun else {})
        return result

    def _predict(self, seen: dict[str, Any]) -> dict[str, Any]:
        """Say in check mode what the node lacks: once, before the task that would load some of it."""
        due = seen["missing"] if self._share != "rest" else []
        result = self._result(seen, due, {**seen["kernels"], **dict.fromkeys(due, "installed")})
        before = self._hosts[: self._hosts.index(self._own)] if self._share else []
        told = f" (or loaded, as {before[0]} builds it)" if before else ""
        return {**result, "kernels": seen["kernels"], "changes": changes(build=[f"{kernel}{told}" for kernel in due])}

    def _result(self, seen: dict[str, Any], due: list[str], after: dict[str, str]) -> dict[str, Any]:
        result = {"changed": bool(due), "changes": changes(build=due), "version": seen["version"], "kernels": after}
        return {**result, "diff": diff(self._args["module"], seen["kernels"], after)} if due else result

    def _read_said(self) -> dict[str, dict[str, str] | None]:
        """Return what each node that can still take part has said of its builds."""
        at_work = set(self._task_vars["ansible_play_hosts"]) if self._share else set()
        facts = shared_builds.read(self._task_vars["hostvars"], at_work.intersection(self._hosts)) if at_work else {}
        return {name: shared_builds.digests(facts[name], self._run_id()) for name in self._hosts if name in facts}

    def _is_due(self, kernel: str) -> bool:
        """Tell whether this task provides the module for a kernel, and not the one that loads."""
        digest = self._digest(kernel)
        if self._share != "first" or digest is None or kernel == self._begun:
            return True
        is_builder = shared_builds.builder(self._said, kernel, digest) == self._own
        return is_builder and not self._store.find(digest)

    def _provide(self, kernel: str, stands: str) -> str:
        """Load or build the module for a kernel; return the node that it comes from, empty for this one."""
        digest = self._digest(kernel)
        found = self._store.find(digest) if digest else None
        if found and self._share == "rest" and self._load(kernel, found):
            return found.node
        self._discard_what_was_cut_short(kernel, stands)
        self._build(kernel)
        if digest and self._share == "first" and self._is_wanted(kernel, digest):
            self._pack(kernel, digest)
        return ""

    def _begin(self, kernel: str, stands: str) -> dict[str, Any]:
        """Begin to build the module for a kernel, and note that for the task that follows it."""
        self._discard_what_was_cut_short(kernel, stands)
        self._ask({"operation": "start", **asdict(self._step(kernel)), "wait": 0})
        return {"changed": True, "ansible_facts": {BEGUN: {"kernel": kernel, "of": self._own_build()}}}

    def _discard_what_was_cut_short(self, kernel: str, stands: str) -> None:
        """Take away a build that is not installed, unless a step is at work on it: its files may be half written."""
        name = self._step(kernel).name
        if stands == "built" and self._ask({"operation": "poll", "name": name, "wait": 0})["state"] != "running":
            self._ask_dkms("discard", kernels=[kernel])

    def _read_begun(self) -> str:
        """Return the kernel for which this run has begun to build the module, until that was followed; else empty."""
        begun = self._task_vars.get("ansible_facts", {}).get(BEGUN) or {}
        return begun["kernel"] if self._share != "rest" and begun.get("of") == self._own_build() else ""

    def _own_build(self) -> list[str]:
        return [self._run_id(), self._args["module"], self._args["version"]]

    def _is_wanted(self, kernel: str, digest: str) -> bool:
        """Tell whether a node of this run, or of a later one, may load this build."""
        return self._kept is not None or shared_builds.is_awaited(self._said, self._own, kernel, digest)

    def _build(self, kernel: str) -> None:
        """Build and install the module for one kernel. Raises Refusal D001 when it does not compile."""
        outcome = self._install(kernel)
        if outcome.rc != 0:
            kept = outcome.log.rpartition("/")[0]
            raise Refusal(**self._ask_dkms("diagnose", kernels=[kernel], path=kept)["failure"])

    def _install(self, kernel: str) -> StepOutcome:
        """Have DKMS install the module for a kernel, which it compiles where it has to."""
        return self.run_step(self._step(kernel))

    def _step(self, kernel: str) -> LongStep:
        """Return the step that builds and installs the module; what this run has begun may have ended meanwhile."""
        module, version = self._args["module"], self._args["version"]
        argv = ["dkms", "install", "-m", module, "-v", version, "-k", kernel]
        timeout = int(self._args.get("timeout", 1800))
        return LongStep(step_name(module, kernel), argv, timeout, ENVIRONMENT, pick_up=kernel == self._begun)

    def _pack(self, kernel: str, digest: str) -> None:
        """Get the build from the node, for the others; where that fails, these build by themselves."""
        directory = self._make_tmp_path()
        try:
            packed = self._ask_dkms("pack", kernels=[kernel], path=directory)
            why = packed.get("not_shared", "")
            if not why:
                self._connection.fetch_file(f"{directory}/{TARBALL}", str(self._store.draft(digest)))
                arrived = self._store.add(digest, packed["checksum"], self._own)
                why = "" if arrived else "it did not arrive whole"
        except (AnsibleError, ModuleError, OSError, Refusal) as error:
            why = str(error)
        finally:
            self._remove_tmp_path(directory)
        if why:
            self._warnings.append(f"The build for {kernel} is not shared: {why}")

    def _load(self, kernel: str, found: Shared) -> bool:
        """Load and install what another node has built; tell whether that is done."""
        directory = self._make_tmp_path()
        try:
            path = f"{directory}/{TARBALL}"
            self._transfer_file(found.file, path)
            loading = self._ask_dkms("load", kernels=[kernel], path=path, checksum=found.checksum)
            why = loading.get("not_shared", "")
        except (AnsibleError, ModuleError, OSError) as error:
            why = str(error)
        finally:
            self._remove_tmp_path(directory)
        if not why and self._install(kernel).rc != 0:
            why = "dkms install failed"
            self._ask_dkms("discard", kernels=[kernel])
        if why:
            self._warnings.append(f"The build of {found.node} for {kernel} is not loaded, but built here: {why}")
        return not why

    def _digest(self, kernel: str) -> str | None:
        """Return what the build for a kernel depends on; None where it is not shared."""
        return (self._said.get(self._own) or {}).get(kernel) if self._said else None

    @property
    def _own(self) -> str:
        return str(self._task_vars["inventory_hostname"])

    def _run_id(self) -> str:
        run = this_run(self._controller)
        return f"{run['pid']} {run['started']}"

    def _ask_dkms(self, operation: str, **more: Any) -> dict[str, Any]:
        return self.call_module("dkms", {**self._args, "operation": operation, **more})
