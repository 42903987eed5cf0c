# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.restore: give a node back what its capture on the controller holds, one kind at a time."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleConnectionFailure
from ansible_collections.gpulab.node.plugins.module_utils.core.records import typed
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import network
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.arguments import ARGUMENTS
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.present import Present
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import captures
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import rebuild_state as state
from ansible_collections.gpulab.node.plugins.plugin_utils.capture.manifest import encodable
from ansible_collections.gpulab.node.plugins.plugin_utils.capture.secrets import cipher_of
from ansible_collections.gpulab.node.plugins.plugin_utils.core.asking import Asking, FailedError
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import gates, source
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild.source import Source

MODULE = "gpulab.node.restore"
PAUSE, UNDOING = 5, 90  # seconds between tries to reach a node, and for it to go back to former settings


class ActionModule(Asking):
    """Read the capture, and let the node take over what is its own."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what changed and what did not come back, or the refusals."""
        super().run(tmp, task_vars)
        self.variables = task_vars or {}
        _validated, self._args = self.validate_argument_spec(ARGUMENTS)
        host = self.variables["inventory_hostname"]
        of_host = captures.place(Path(self._args["directory"]), host)
        try:
            capture = source.chosen(of_host, host, self._args["capture"], self._args["unsigned"])
            of_capture = source.Source(capture, cipher_of(host, capture.archive.name, self._args["age_identity"]))
            result = self._gates(of_host, of_capture) if self._args["work"] == "gates" else self._work(of_capture)
        except Refusal as refusal:
            return failure([refusal])
        except FailedError as failed:
            return failed.result
        result.setdefault("capture", capture.path.name)
        return {**encodable(result), "changed": bool(result.get("changes"))}

    def _gates(self, of_host: Path, of_capture: Source) -> dict[str, Any]:
        of_capture.capture.verify()
        of_capture.secrets  # noqa: B018 - it decrypts the archive, or says why that cannot be done
        manifest, written = of_capture.capture.manifest, state.read(of_host)
        name = of_capture.capture.path.name
        plan = written.plan if written and written.capture == name else None
        found = typed(self._ask_work("look", None), Present)
        verdict = gates.judge(manifest, name, found, plan, self._args["allow"])
        if verdict.refusals:
            return failure(verdict.refusals)
        return {
            "changes": [],
            "missing": verdict.said,
            "packages": gates.packages(manifest, found.machine.system),
            "same_release": manifest.machine.same_release(found.machine),
        }

    def _work(self, of_capture: Source) -> dict[str, Any]:
        asked = of_capture.asked(self._args["work"], self._user(), self._args["minutes"])
        question = asdict(asked)
        result: dict[str, Any] = self._ask_work("restore", question)
        wanted = result.pop("wanted", [])
        while wanted and not self._task.check_mode:
            for parts in of_capture.parts(wanted, asked.entries):
                self._ask_work("stage", {"host": asked.host, "parts": list(map(asdict, parts))})
            result = self._ask_work("restore", question)
            before, wanted = wanted, result.pop("wanted")
            if wanted == before:
                raise refuse("R042", path=asked.entries[0]["path"], host=asked.host)
        if result.pop("trying", False):
            self._confirm(result)
        result.pop("paths", None)
        if result.pop("reconnect", False):
            self._connection.reset()  # who is logged in has another number now
        return result

    def _confirm(self, result: dict[str, Any]) -> None:
        """Reach the node with its new settings, and let them stay; else it undoes them by itself."""
        end = time.monotonic() + self._args["minutes"] * 60 + UNDOING
        standing = "silent"
        while standing not in ("confirmed", "undone") and time.monotonic() < end:
            time.sleep(PAUSE)
            try:
                self._connection.reset()
                standing = self._ask_work("confirm", result["paths"])
            except (AnsibleConnectionFailure, FailedError):
                standing = "silent"
        if standing != "confirmed":
            why = "the node was not reached with them, so it went back to those of its installation"
            result.update(changed=False, changes=[], missing=[*result["missing"], network.lacking(why)])
            if standing == "silent":
                raise refuse("R043", host=self.variables["inventory_hostname"], minutes=self._args["minutes"])

    def _ask_work(self, step: str, asked: Any) -> Any:
        """Return what the module answers to a step of the work. Raises FailedError."""
        return self.ask(MODULE, {"directory": self._args["directory"], "work": self._args["work"]}, (step, asked))

    def _user(self) -> str:
        """Return who Ansible connects as."""
        named = self._connection.get_option("remote_user") if self._connection.has_option("remote_user") else None
        return str(named or self._play_context.remote_user or "root")
