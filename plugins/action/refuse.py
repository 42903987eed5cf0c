# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.refuse: fail with one of gpulab's codes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse


class ActionModule(ActionBase):
    """Fail the host with a code, its cause and its remedy."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the failed result."""
        super().run(tmp, task_vars)
        _validated, args = self.validate_argument_spec(
            {
                "code": {"type": "str"},
                "values": {"type": "dict", "default": {}},
                "refusal": {"type": "dict"},
                "refusals": {"type": "list", "elements": "dict"},
            },
            mutually_exclusive=[("code", "refusal", "refusals")],
            required_one_of=[("code", "refusal", "refusals")],
        )
        if args["refusals"]:
            return failure([Refusal(**one) for one in args["refusals"]])
        refusal = refuse(args["code"], **args["values"]) if args["code"] else Refusal(**args["refusal"])
        return {"failed": True, "changed": False, "msg": str(refusal), "refusal": asdict(refusal)}
