# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a node on the controller, from its facts and its plan, before anything is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.peers import host_names
from ansible_collections.gpulab.node.plugins.plugin_utils.preflight import (
    ADVICE,
    FAIL,
    WARN,
    Finding,
    examine,
    hardware,
)

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

ARGUMENTS = {
    "vram_min_gib": {"type": "int", "default": 16},
    "vram_advised_gib": {"type": "int", "default": 24},
    "cpu_cores_min": {"type": "int", "default": 8},
    "memory_factor_min": {"type": "float", "default": 2},
    "memory_factor_advised": {"type": "float", "default": 4},
    "memory_min_gib": {"type": "int", "default": 32},
    "memory_advised_gib": {"type": "int", "default": 64},
    "memory_ecc": {"type": "bool", "default": False},
    "memory_ddr4_advised_mts": {"type": "int", "default": 3200},
    "memory_ddr5_advised_mts": {"type": "int", "default": 4800},
    "l3_min_mib": {"type": "int", "default": 32},
    "cpu_min_mhz": {"type": "int", "default": 3500},
    "pcie4_lanes_advised": {"type": "int", "default": 20},
    "system_disk_min_gb": {"type": "int", "default": 1000},
    "dataset_advised_gb": {"type": "int", "default": 2000},
    "mtu_advised": {"type": "int"},
    "dataset_mounts": {"type": "list", "elements": "str", "default": []},
    "pcie_width_min": {"type": "int", "default": 8},
    "psu_watts": {"type": "int"},
    "cpu_watts": {"type": "int", "default": 150},
    "power_headroom_percent": {"type": "int", "default": 25},
    "free_inodes_min": {"type": "int", "default": 50000},
    "required": {"type": "list", "elements": "str", "choices": list(hardware.NAMES), "default": []},
}


class ActionModule(ActionBase):
    """Examine ansible_facts['gpulab'] against ansible_facts['gpulab_plan'] and the limits."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return warnings and advice, and fail with everything that forbids to go on."""
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        _validated, limits = self.validate_argument_spec(ARGUMENTS)
        known = task_vars["ansible_facts"]
        if "gpulab" not in known or "gpulab_plan" not in known:
            msg = "this node has no plan: run gpulab.node.gpu_facts and gpulab.node.plan first"
            raise AnsibleActionFail(msg)
        host = task_vars["inventory_hostname"]
        found = examine(known["gpulab"], known["gpulab_plan"], limits, catalog.load())
        return outcome(host, [*_of_name(host, known["gpulab"], task_vars), *found])


def _of_name(host: str, facts: dict[str, Any], task_vars: dict[str, Any]) -> list[Finding]:
    """Return what is wrong with what the host calls itself; the names of all others cost no look at their variables."""
    variables = task_vars.get("hostvars", {}).get(host, task_vars)
    given = {name: host_names.names(name, {}) for name in task_vars.get("groups", {}).get("all", [])}
    given[host] = host_names.names(host, variables)
    found = host_names.difference(host, {host: facts["system"]["hostname"]}, given)
    return [Finding(FAIL if found[0] else WARN, found[1])] if found else []


def outcome(host: str, findings: list[Finding]) -> dict[str, Any]:
    """Return the task's result; a warning names its host, for Ansible prints it without."""
    found: dict[str, list[Refusal]] = {FAIL: [], WARN: [], ADVICE: []}
    for finding in findings:
        found[finding.severity].append(finding.refusal)
    good = {"changed": False, "failed": False, "msg": f"{host} meets the requirements of its plan"}
    return {
        **(failure(found[FAIL]) if found[FAIL] else good),
        "warnings": [f"{host}: {refusal}" for refusal in found[WARN]],
        "advice": [str(refusal) for refusal in found[ADVICE]],
    }
