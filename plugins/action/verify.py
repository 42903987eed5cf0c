# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a node by its facts, on the controller."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import REMEDIES, SEVERITIES, Facts, Node, count
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import worst as worst_of
from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import verify
from ansible_collections.gpulab.node.plugins.module_utils.refusal import refuse
from ansible_collections.gpulab.node.plugins.plugin_utils.proof_catalog import catalog

ARGUMENTS = {
    "level": {"type": "str", "choices": ["quick"], "default": "quick"},
    "fail_on": {"type": "str", "choices": ["warn", "fail"], "default": "fail"},
    "expected_gpus": {"type": "int"},
    "mig": {"type": "bool", "default": False},
    "power_budget_watts": {"type": "int"},
    "profile": {"type": "dict", "default": {}},
}


class ActionModule(ActionBase):
    """Run the checks over ansible_facts['gpulab'] and ansible_facts['gpulab_plan']."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the results, and fail where one is as grave as fail_on."""
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        _, arguments = self.validate_argument_spec(ARGUMENTS)
        host = task_vars["inventory_hostname"]
        facts = task_vars["ansible_facts"].get("gpulab")
        reading = task_vars.get("gpulab_reading") or {}
        if reading.get("unreachable"):
            return {"failed": True, "msg": str(refuse("H001", host=host, detail=reading["msg"]))}
        if not facts:
            return {"failed": True, "msg": str(refuse("V002", host=host))}
        plan = task_vars["ansible_facts"].get("gpulab_plan")
        node = Node(
            facts=Facts(facts),
            plan=Facts(plan) if plan else None,
            catalog=catalog(arguments["profile"]),
            declared={
                "gpus": arguments["expected_gpus"],
                "mig": arguments["mig"],
                "power_budget_watts": arguments["power_budget_watts"],
            },
        )
        return judged(host, [result.as_dict() for result in verify(node)], arguments["fail_on"])


def judged(host: str, results: list[dict[str, Any]], fail_on: str) -> dict[str, Any]:
    """Return the task's result for these results: what was found, and whether that fails the host."""
    grave = [r for r in results if SEVERITIES.index(r["severity"]) >= SEVERITIES.index(fail_on)]
    outcome: dict[str, Any] = {
        "changed": False,
        "results": results,
        "counts": count(results),
        "worst": worst_of(r["severity"] for r in results),
        "failed": bool(grave),
        "msg": f"{host}: no finding of severity {fail_on} or above",
    }
    if grave:
        refusal = refuse("V001", host=host, count=len(grave), level=fail_on)
        outcome["msg"] = "\n".join([str(refusal), *map(told, grave)])
    return outcome


def told(result: dict[str, Any]) -> str:
    """Return a finding and its remedy as text."""
    gpu = f" [GPU {result['gpu']['bus_id']}]" if result["gpu"] else ""
    cause = f" ({result['reason']})" if result["reason"] else ""
    remedy = f"{result['remediation']}: {REMEDIES[result['remediation']]}"
    return f"{result['severity']} {result['id']}{gpu}: {result['summary']}{cause}. {remedy}"
