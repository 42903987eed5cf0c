# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a node by its facts, on the controller."""

from __future__ import annotations

from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.module_utils.checks import runner
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import SEVERITIES, count, worst
from ansible_collections.gpulab.node.plugins.module_utils.checks.remedies import REMEDIES
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import counted
from ansible_collections.gpulab.node.plugins.plugin_utils.own_checks import files as own_checks
from ansible_collections.gpulab.node.plugins.plugin_utils.own_checks import judge as judge_own
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.explain import explain
from ansible_collections.gpulab.node.plugins.plugin_utils.proof import facts_of, judge
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse
from ansible_collections.gpulab.node.plugins.plugin_utils.report.hosts import last_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Declared, ResultRecord

ARGUMENTS = {
    "level": {"type": "str", "choices": [*own_checks.LEVELS], "default": "quick"},
    "subjects": {"type": "list", "elements": "str", "choices": runner.SUBJECT_NAMES, "default": []},
    "known": {"type": "dict", "default": {}},
    "fail_on": {"type": "str", "choices": ["warn", "fail"], "default": "fail"},
    "expected_gpus": {"type": "int"},
    "mig": {"type": "bool", "default": False},
    "power_budget_watts": {"type": "int"},
    "profile": {"type": "dict", "default": {}},
    "across_nodes": {"type": "bool", "default": False},
    "group_names": {"type": "bool", "default": False},
    "own_checks": {"type": "path"},
    "mounts": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "path": {"type": "path", "required": True},
            "least_mbs": {"type": "float"},
            "most_ms": {"type": "float"},
        },
    },
}


COMMAND = ("id", "command", "timeout_seconds", "root", "network", "gpus")  # what a node is told of an own check


class ActionModule(ActionBase):
    """Run the checks over ansible_facts['gpulab'] and ansible_facts['gpulab_plan']."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what was found, and fail where a finding is as grave as fail_on."""
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        _validated, arguments = self.validate_argument_spec(ARGUMENTS)
        host, known = task_vars["inventory_hostname"], task_vars["ansible_facts"]
        ending = last_words(task_vars)
        if ending.get("unreachable"):
            return refused(explain(ending, host, unreachable=True) or refuse("V002", host=host))
        facts = facts_of(known, arguments["level"])
        if not facts:
            return refused(refuse("V002", host=host))
        try:
            own = self._own_checks(arguments["own_checks"], arguments["level"], task_vars)
        except Refusal as refusal:
            return refused(refusal)
        declared: Declared = {
            "level": arguments["level"],
            "mounts": arguments["mounts"],
            "gpus": arguments["expected_gpus"],
            "mig": arguments["mig"],
            "power_budget_watts": arguments["power_budget_watts"],
            "profile": arguments["profile"],
            "across_nodes": arguments["across_nodes"],
            "group_names": arguments["group_names"],
            "own_checks": own,
        }
        results, _not_for_this_machine = judge(facts, known.get("gpulab_plan"), declared, arguments["subjects"])
        return {**outcome(host, results, arguments["fail_on"], arguments["known"]), "declared": declared}

    def _own_checks(self, directory: str | None, level: str, task_vars: dict[str, Any]) -> list[ResultRecord]:
        """Return what came of the lab's own checks. Raises Refusal V005."""
        if not directory:
            return []
        checks = judge_own.of_level(own_checks.load(directory), level)
        if self._task.check_mode:
            return judge_own.results(checks, None, "check mode runs no commands of the lab's own")
        commands = [{name: getattr(check, name) for name in COMMAND} for check in checks]
        answer = self._execute_module("gpulab.node.own_checks", {"commands": commands}, task_vars=task_vars)
        return judge_own.results(checks, answer.get("readings", {}))


def refused(refusal: Refusal) -> dict[str, Any]:
    """Return the result of a task that could not judge."""
    return {"failed": True, "msg": str(refusal), "refusal": asdict(refusal)}


def outcome(
    host: str, results: list[ResultRecord], fail_on: str, known: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the task's result: what a person must look at, not all that is well, for Ansible prints it.

    known has severities by checks, or patterns of their names: a finding that is not graver fails nothing.
    """
    threshold = SEVERITIES.index(fail_on)
    grave = [
        result
        for result in results
        if SEVERITIES.index(result["severity"]) >= threshold and not _is_known(result, known or {})
    ]
    refusal = refuse("V001", host=host, findings=counted(len(grave), "finding"), level=fail_on)
    return {
        "changed": False,
        "failed": bool(grave),
        "msg": told(refusal, grave) if grave else f"{host}: no finding of severity {fail_on} or above",
        "findings": [result for result in results if result["severity"] in ("warn", "fail")],
        "counts": count(results),
        "worst": worst(result["severity"] for result in results),
    }


def _is_known(result: ResultRecord, known: Mapping[str, str]) -> bool:
    severities = [severity for pattern, severity in known.items() if fnmatchcase(result["id"], pattern)]
    return any(SEVERITIES.index(result["severity"]) <= SEVERITIES.index(severity) for severity in severities)


def told(refusal: Refusal, grave: list[ResultRecord]) -> str:
    """Return the refusal and below it a line for each finding, with its cause and remedy."""
    lines = [str(refusal)]
    for result in grave:
        gpu = f" [GPU {result['gpu']['bus_id']}]" if result["gpu"] else ""
        cause = f" ({result['reason']})" if result["reason"] else ""
        remedy = f"{result['remediation']}: {REMEDIES[result['remediation']]}"
        lines.append(f"{result['severity']} {result['id']}{gpu}: {result['summary']}{cause}. {remedy}")
    return "\n".join(lines)
