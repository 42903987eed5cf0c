# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.diagnosis_page: what the diagnoses of a play tell together, and a page for the person who asked."""

from __future__ import annotations

import json
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.module_utils.core.records import typed
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis import over_nodes
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import Diagnosis
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.page import page
from ansible_collections.gpulab.node.plugins.plugin_utils.pages.page import place

ARGUMENTS = {"variable": {"type": "str", "required": True}, "path": {"type": "path"}}


class ActionModule(ActionBase):
    """Collect the diagnoses of all hosts of the play from hostvars."""

    BYPASS_HOST_LOOP = True
    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Write the page, and return lines for a terminal."""
        super().run(tmp, task_vars)
        variables = task_vars or {}
        _validated, arguments = self.validate_argument_spec(ARGUMENTS)
        documents = _documents(variables["ansible_play_hosts"], variables["hostvars"], arguments["variable"])
        lines = over_nodes.lines(documents)
        if documents and arguments["path"]:
            lines.append(place(arguments["path"], page(documents)))
        return {"changed": False, "lines": lines}


def _documents(hosts: list[str], hostvars: Any, variable: str) -> dict[str, Diagnosis]:
    """Return the diagnoses that there are."""
    results = {host: hostvars[host].get(variable) or {} for host in hosts}
    known = {host: result["diagnosis"] for host, result in results.items() if result.get("diagnosis")}
    return typed(json.loads(json.dumps(known)), dict[str, Diagnosis])  # without Ansible's tags
