# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.rebuild_state: read or write on the controller how far the rebuild of a host came."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import captures
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import rebuild_state as states
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure


class ActionModule(ActionBase):
    """Keep the state of one host."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the state, which is null before the first one, or the refusal."""
        super().run(tmp, task_vars)
        _validated, args = self.validate_argument_spec(
            {
                "directory": {"type": "path", "default": "captures"},
                "capture": {"type": "str"},
                "plan": {"type": "str"},
                "state": {"type": "str", "choices": list(states.STATES)},
                "missing": {"type": "list", "elements": "dict", "default": []},
                "sections": {"type": "list", "elements": "str", "default": []},
            },
            required_by={"state": ["capture"]},
        )
        host = (task_vars or {})["inventory_hostname"]
        place = captures.place(Path(args["directory"]), host)
        try:
            found = states.read(place)
            if args["state"] and not self._task.check_mode:
                wanted = states.State(host, args["capture"], args["plan"], args["state"])
                found = states.advance(place, wanted, args["missing"], args["sections"])
        except Refusal as refusal:
            return failure([refusal])
        # The controller's own notes are no change of the node.
        return {"changed": False, "rebuild": found and {**asdict(found), "missing": list(found.missing)}}
