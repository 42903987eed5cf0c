# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.packages: one package transaction as a long step, undone when it fails."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import Any, ClassVar

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.packages.apt import ENVIRONMENT
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.long_step import (
    LongStep,
    LongStepAction,
    StepOutcome,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

WISHES = ("present", "absent", "hold", "unhold", "retire")
UPDATE_TIMEOUT = 900
UNDO_TIMEOUT = 3600  # what is put back may build a kernel module
KEEP_TIMEOUT = 1800
# Refusals that old package lists explain: a name or version not in them, a file that the mirror has replaced since.
OF_OLD_LISTS = {"H042", "H043", "H049", "H230", "H292", "H295"}
OF_NAMES = {"H049", "H292", "H295"}
JUST = 120  # seconds after a refresh in which another one brings no new name
# Refusals after which the transaction goes on, or is another one's: nothing may be undone.
NOT_OURS_TO_UNDO = {"S003", "S004", "S007"}


class ActionModule(LongStepAction):
    """Look at the node; where something is to do, wait for the locks, refresh the lists, and run the transaction."""

    unforeseen: ClassVar[dict[str, Any]] = {"changed": False, "predicted": {"install": {}, "change": {}}}

    def carry_out(self, args: dict[str, Any]) -> dict[str, Any]:
        """Bring the packages to the wanted state; where nothing is requested, the node is not asked. Raises Refusal."""
        if not any(map(args.get, WISHES)):
            return {"changed": False}
        self._args = args
        self._name = args.get("transaction", "packages")
        if args.get("predict") and args.get("update_cache", True) and not self._task.check_mode:
            self._refresh()
        try:
            result = self._transaction()
            code = "" if result.get("undone") else result.get("refusal", {}).get("code", "")
        except Refusal as refusal:
            if not self._refresh_after(refusal.code):
                raise
            return self._transaction()
        return self._transaction() if self._refresh_after(code) else result

    def _transaction(self) -> dict[str, Any]:
        """Return the result of one try. Raises Refusal."""
        seen = self._ask_packages("look")
        if "lock_holder" in seen:  # it could not be prepared at once
            self._wait_for_lock(seen["lock_holder"])
            if seen["update"]:
                self._update(seen["update"])
            seen = self._ask_packages("prepare")
        if "transaction" not in seen:
            return {key: seen[key] for key in ("changed", "changes", "diff", "predicted") if key in seen}
        transaction = seen["transaction"]
        not_kept = self._keep(transaction["keep"]) if transaction.get("keep") else None
        outcome = not_kept or self._run(transaction["argv"], pick_up=seen.get("left", False))
        if isinstance(outcome, Refusal) or outcome.rc != 0:
            return self._undo(outcome)
        self._ask_packages("finish")
        ended = {key: getattr(outcome, key) for key in ("found", "seconds", "log")}
        return {"changed": True, "diff": transaction["diff"], **ended}

    def _run(self, argv: list[str], *, pick_up: bool) -> StepOutcome | Refusal:
        """Run the transaction; return its outcome, or why it has none. Raises Refusal when it may still go on."""
        step = LongStep(self._name, argv, int(self._args.get("timeout", 3600)), ENVIRONMENT, pick_up=pick_up)
        try:
            return self.run_step(step, acknowledge=False)  # the module does, when it finishes or diagnoses
        except Refusal as refusal:
            if refusal.code in NOT_OURS_TO_UNDO:
                raise
            return refusal

    def _keep(self, script: str) -> Refusal | None:
        """Keep the packages as they are; return why one of them cannot be, as it can be had nowhere any more."""
        outcome = self.run_step(LongStep(f"{self._name}-keep", ["sh", "-c", script], KEEP_TIMEOUT, ENVIRONMENT))
        if outcome.rc == 0:
            return None
        return refuse("D020", line=outcome.tail[-1] if outcome.tail else "no output", log=outcome.log)

    def _undo(self, failed: StepOutcome | Refusal) -> dict[str, Any]:
        """Take back what this transaction, and those before it that keep former packages, did; return the failure."""
        found = self._ask_packages("diagnose")
        why = failed if isinstance(failed, Refusal) else Refusal(**found["failure"])
        if found["script"]:
            argv = ["sh", "-c", found["script"]]
            undo = self.run_step(LongStep(f"{self._name}-undo", argv, UNDO_TIMEOUT, ENVIRONMENT))
            why = replace(why, cause=f"{why.cause} {self._told(found, undo)}")
        audit = self._ask_packages("audit")["audit"]
        if audit:
            why = replace(why, cause=f"{why.cause} What is inconsistent: {' '.join(audit.split())}")
        return {"failed": True, "msg": str(why), "refusal": asdict(why), "undone": found["undo"], "audit": audit}

    def _told(self, found: dict[str, Any], undo: StepOutcome) -> str:
        """Return what became of the packages, in one sentence."""
        if "former" in self._args:
            done = "were reinstalled" if undo.rc == 0 else f"could not be reinstalled, see {undo.log}"
            return f"The former packages {done}."
        done = "were removed again" if undo.rc == 0 else f"could not be removed again, see {undo.log}"
        return f"The {len(found['undo'])} packages that it installed {done}."

    def _wait_for_lock(self, holder: str | None) -> None:
        """Wait until nobody holds a lock of the package system. Raises Refusal H054 after lock_timeout."""
        started = time.monotonic()
        while holder:
            waited = time.monotonic() - started
            if waited > int(self._args.get("lock_timeout", 600)):
                raise refuse("H054", seconds=round(waited), holder=holder)
            self.report(self._name, waited, f"waiting: {holder}")
            holder = self._ask_packages("wait")["lock_holder"]

    def _refresh_after(self, code: str) -> bool:
        """Refresh the package lists where that may cure a refusal; tell whether it was done. Raises Refusal."""
        only_said = self._task.check_mode or self._args.get("predict")
        if code not in OF_OLD_LISTS or only_said or not self._args.get("update_cache", True):
            return False
        return self._refresh(cache_valid_time=JUST if code in OF_NAMES else 0)

    def _refresh(self, **changes: object) -> bool:
        """Refresh the package lists where they are old; tell whether they were. Raises Refusal."""
        seen = self._ask_packages("lists", **changes)
        if seen["update"]:
            self._wait_for_lock(seen["lock_holder"])
            self._update(seen["update"])
        return bool(seen["update"])

    def _update(self, argv: list[str]) -> None:
        """Refresh the package lists. Raises Refusal."""
        name = f"{self._name}-lists"
        outcome = self.run_step(LongStep(name, argv, UPDATE_TIMEOUT, ENVIRONMENT))
        if outcome.rc != 0:
            raise Refusal(**self._ask_packages("diagnose", transaction=name)["failure"])

    def _ask_packages(self, operation: str, **changes: object) -> dict[str, Any]:
        return self.call_module("packages", {**self._args, "operation": operation, **changes})
