# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the diagnoses of several nodes tell together, as a filter over the hosts of a play."""

from __future__ import annotations

import json
from typing import Any, Callable

from ansible_collections.gpulab.node.plugins.module_utils.core.records import typed
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis import over_nodes as diagnosis
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import Diagnosis


def over_nodes(hosts: list[str], hostvars: Any, variable: str) -> list[str]:
    """Return lines about the jobs that run over these hosts; variable has each host's result of the module diagnose."""
    results = {host: hostvars[host].get(variable) or {} for host in hosts}
    known = {host: result["diagnosis"] for host, result in results.items() if result.get("diagnosis")}
    return diagnosis.lines(typed(json.loads(json.dumps(known)), dict[str, Diagnosis]))


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., list[str]]]:
        """Return the filters by name."""
        return {"over_nodes": over_nodes}
