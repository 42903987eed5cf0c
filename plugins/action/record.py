# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.record: make the recording of a node's board, out of the facts that were read."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import yaml
from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.proof import facts_of
from ansible_collections.gpulab.node.plugins.plugin_utils.recording import recorded
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

DIRECTORY = Path("recordings")
WIDTH = 120


class ActionModule(ActionBase):
    """Connect to nothing, and write nothing."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the recording as text and the name of its file, or the refusal."""
        super().run(tmp, task_vars)
        self.validate_argument_spec({})
        variables = task_vars or {}
        host, hosts = variables["inventory_hostname"], variables.get("ansible_play_hosts_all", [])
        if len(hosts) > 1:
            return failure([refuse("V008", count=len(hosts))])
        if not facts_of(variables["ansible_facts"], "quick"):
            return failure([refuse("V002", host=host)])
        try:
            made = recorded.build(
                {"facts": variables["ansible_facts"]["gpulab"]}, f"{datetime.now(timezone.utc):%Y-%m-%d}"
            )
        except recorded.UnfitError as error:
            return failure([refuse("V007", host=host, field=error)])
        text = yaml.safe_dump(made, sort_keys=False, width=WIDTH)
        path = DIRECTORY.absolute() / recorded.file_name(made, ".yml")
        return {"changed": False, "path": str(path), "text": text}
