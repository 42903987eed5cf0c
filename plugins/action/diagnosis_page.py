# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.diagnosis_page: what the diagnoses of a play tell together, and a page for the person who asked."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.core.records import typed
from ansible_collections.gpulab.node.plugins.plugin_utils.core.hosts_action import HostsAction
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis import over_nodes
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import Diagnosis
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.page import page
from ansible_collections.gpulab.node.plugins.plugin_utils.pages.page import place

ARGUMENTS = {"variable": {"type": "str", "required": True}, "path": {"type": "path"}}


class ActionModule(HostsAction):
    """Collect the diagnoses of all hosts of the play from hostvars."""

    spec = ARGUMENTS

    def for_hosts(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Write the page, and return lines for a terminal."""
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
