# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.model_store: let files come a slice at a time, so that a broken connection costs no more than one.

No step of its own runs on the node, for it would have to be given the token by a file.
"""

from __future__ import annotations

import os
import time
from typing import Any, ClassVar

from ansible.errors import AnsibleError
from ansible_collections.gpulab.node.plugins.plugin_utils.core.model_locks import read_locks
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.long_step import LongStepAction

STEP = "models"
ORPHANED = "ansible-playbook has ended; the next run goes on with what has come"


class ActionModule(LongStepAction):
    """Look at the node; where something is to do, fetch until all is there."""

    unforeseen: ClassVar[dict[str, Any]] = {"changed": False, "unlisted": [], "locks": []}

    def carry_out(self, args: dict[str, Any]) -> dict[str, Any]:
        """Bring the store to the wanted state. Raises Refusal."""
        args["locks"] = read_locks(args.get("repositories") or [])
        seen = self.call_module("model_store", args)
        coming, begun = seen.pop("coming", []), time.monotonic()
        is_to_do = seen["changed"] and not self._task.check_mode and args.get("state") != "absent"
        while is_to_do:
            if os.getppid() != self._controller:
                raise AnsibleError(ORPHANED)
            line = self.call_module("model_store", {**args, "operation": "take", "coming": coming})["line"]
            if line is None:
                break
            self.report(STEP, time.monotonic() - begun, line)
        return {key: value for key, value in seen.items() if key != "invocation"}
