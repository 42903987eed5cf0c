# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.rebuild_report: say what came back and what did not; the node is not asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import captures, compare
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import rebuild_state as states
from ansible_collections.gpulab.node.plugins.plugin_utils.capture.changed_secrets import changed_secrets
from ansible_collections.gpulab.node.plugins.plugin_utils.capture.manifest import encodable
from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import report

FILE = "rebuilt.json"


class ActionModule(ActionBase):
    """Compare the capture that a node came back from with the newest one."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the document and its lines, or the refusal; in check mode there is no capture to compare with."""
        super().run(tmp, task_vars)
        _validated, args = self.validate_argument_spec(
            {
                "directory": {"type": "path", "required": True},
                "capture": {"type": "str", "required": True},
                "unsigned": {"type": "str"},
                "age_identity": {"type": "path"},
            }
        )
        host = (task_vars or {})["inventory_hostname"]
        place = captures.place(Path(args["directory"]), host)
        try:
            former = captures.named(place, host, args["capture"], args["unsigned"])
            later = captures.named(place, host, None, args["unsigned"])
            secrets = changed_secrets(host, former, later, args["age_identity"])
            comparison = compare.compare(former.document, later.document, secrets)
            state = states.read(place)
            expected = json.loads(json.dumps(Catalog().read("rebuild")["expected"]))
            found = encodable(report.document(comparison, state.missing if state else (), expected))
            if not self._task.check_mode:
                records.write(place / FILE, found, 0o600)
        except Refusal as refusal:
            return failure([refusal])
        lines = [*report.lines(found), f"  all of it: {place / FILE}"]
        return {"changed": False, "report": found, "lines": lines}
