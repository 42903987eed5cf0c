# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.advisories: list what is on the node, and hold it against NVIDIA's bulletins on the controller."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.advisories import told
from ansible_collections.gpulab.node.plugins.plugin_utils.advisories.judge import (
    Judge,
    installed,
    problems,
    with_accepted,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import load
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.core.host_file import file_name
from ansible_collections.gpulab.node.plugins.plugin_utils.pages.page import REPORTS, place
from ansible_collections.gpulab.node.plugins.plugin_utils.proof import facts_of
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

TEXT = {"type": "str", "required": True}
ARGUMENTS = {
    "directory": {"type": "path"},
    "conda_directory": {"type": "path"},
    "accepted": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"cve": TEXT, "because": TEXT, "until": TEXT, "by": TEXT},
    },
}


class ActionModule(ActionBase):
    """Run the module, then the judge."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the findings, for programs and for people, or the refusal."""
        super().run(tmp, task_vars)
        variables = task_vars or {}
        _validated, arguments = self.validate_argument_spec(ARGUMENTS)
        host, known = variables["inventory_hostname"], load()
        products, bulletins = known.read("advisory_packages"), known.read("advisories")
        judge = Judge(bulletins, products, known.branches)
        try:
            if wrong := list(problems(arguments["accepted"], judge.cves)):
                raise refuse("V006", problems="; ".join(wrong))
            facts = facts_of(variables["ansible_facts"], "quick")
            if not facts:
                raise refuse("V002", host=host)
        except Refusal as refusal:
            return failure([refusal])
        result = self._execute_module(
            module_name="gpulab.node.advisories",
            module_args={
                "directory": arguments["directory"],
                "conda_directory": arguments["conda_directory"],
                "names": sorted({name for one in products["products"] for name in one["packages"]}),
            },
            task_vars=variables,
        )
        if "packages" not in result:
            return {"failed": True, **result}
        today = f"{datetime.now(timezone.utc):%Y-%m-%d}"
        on_node = installed(facts, result["packages"], products)
        findings, notes = with_accepted(judge.findings(on_node), arguments["accepted"], today)
        old = told.age(bulletins["as_of"], today)
        document = {
            "host": host,
            "day": today,
            "as_of": bulletins["as_of"],
            "installed": [asdict(one) for one in on_node],
            "findings": [asdict(one) for one in findings],
        }
        written = place(str(REPORTS / "advisories" / f"{file_name(host)}.json"), json.dumps(document, indent=1) + "\n")
        lines = [*told.lines(findings, len(on_node)), *notes, *([old] if old else []), written]
        return {"changed": False, "findings": document["findings"], "lines": lines}
