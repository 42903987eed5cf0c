# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the resolver on the controller, with the facts and the options of one host."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.filter.file_text import file_text
from ansible_collections.gpulab.node.plugins.module_utils.bundle.reading import address_of
from ansible_collections.gpulab.node.plugins.module_utils.checks.software import drifted
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import first
from ansible_collections.gpulab.node.plugins.module_utils.core.signatures import SIGNERS
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle import use
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.history import durations
from ansible_collections.gpulab.node.plugins.plugin_utils.inventory_check import structure
from ansible_collections.gpulab.node.plugins.plugin_utils.pages.page import REPORTS
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import host_types, reasons, resolve
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.reinstalled import reinstalled
from ansible_collections.gpulab.node.plugins.plugin_utils.roles import due

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Plan

HISTORY = REPORTS / "history"
SHOWN = 6  # of what somebody else changed; the report has all


class ActionModule(ActionBase):
    """The action behind the module plan."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the plan, or fail with the refusal as data."""
        result: dict[str, Any] = {**super().run(tmp, task_vars), "changed": False}
        _validated, arguments = self.validate_argument_spec(argument_spec={"reinstalled_as": {"type": "str"}})
        variables = task_vars or {}
        facts = variables.get("ansible_facts", {}).get("gpulab")
        if facts is None:
            msg = "the facts of this node are missing: run gpulab.node.gpu_facts before gpulab.node.plan"
            raise AnsibleActionFail(msg)
        given = {name: raw for name, raw in variables.items() if not host_types.is_default(name, raw)}
        known, today = catalog.load(), datetime.now(tz=timezone.utc).date()
        if arguments["reinstalled_as"]:
            facts = reinstalled(facts, known, arguments["reinstalled_as"])
        types = host_types.of(variables.get("group_names", ()), known)
        unset = host_types.defaults(types, known, facts["system"]["family"])
        members = variables.get("groups", {})
        alone = len(members[types[0]] if types else structure.nodes(members)) == 1

        def plan_with(chosen: host_types.TypesOfHost) -> Plan:
            defaults = {default.option: default.value for default in chosen.taken}
            values = options.Values(lambda name: self._templar.template(given.get(name)), defaults)
            return resolve(facts, values, known, today, chosen, alone=alone)

        try:
            plan = host_types.fit({name: one for name, one in unset.items() if name not in given}, types, plan_with)
        except Refusal as refusal:
            return {**result, "failed": True, "msg": str(refusal), "refusal": asdict(refusal)}
        if arguments["reinstalled_as"]:
            return {**result, "plan": plan, "because": reasons(plan)}
        values = host_types.values(plan, variables, self._templar.template)
        refused = self._look_ahead(plan, facts, values, variables)
        if refused:
            return {**result, **refused}
        if plan["drift"]:
            host, drift = variables.get("inventory_hostname", ""), first(plan["drift"], SHOWN, "; ")
            result["warnings"] = [f"{host}: since the last run, not by gpulab: {drift}"]
        return {
            **result,
            "plan": plan,
            "because": reasons(plan),
            "nulls": options.of_nulls(given),
            "expected": _expected(plan, values, variables),
            "ansible_facts": {"gpulab_plan": plan},
        }

    def _look_ahead(
        self, plan: Plan, facts: Mapping[str, Any], values: options.Values, variables: dict[str, Any]
    ) -> dict[str, Any]:
        """Add to a plan its bundle, what is due and what changed; return how the task fails, if it does."""
        receipts = facts.get("receipts", {})
        plan["bundle"], refused = self._bundle(values, variables, facts["system"])
        if refused:
            return refused
        plan["due"] = due.roles(receipts, plan, facts, values, variables)
        plan["drift"] = drifted(receipts)
        try:
            use.check(plan["bundle"], variables.get("inventory_hostname", ""), plan, values)
        except Refusal as refusal:
            return failure([refusal])
        return {}

    def _bundle(
        self, values: Mapping[str, Any], variables: dict[str, Any], system: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what the bundle holds for the host, and how the task fails where there is none; one is empty."""
        bundle, former = values["gpulab_bundle"], use.in_use(variables)
        if not bundle or (former and former["address"] == address_of(bundle)):
            return (former if bundle else {}), {}
        signers = Path(values["bundle_signers"] or Path(values["bundle_keys"]) / SIGNERS).expanduser()
        arguments = {
            "bundle": bundle,
            "signers": signers.read_text(encoding="utf-8") if signers.is_file() else "",
            "certificates": "\n".join(map(file_text, values["base_ca_certificates"])),
        }
        answer = self._execute_module("gpulab.node.bundle_read", arguments, task_vars=variables)
        if answer.get("failed"):
            return {}, answer
        if answer["refusals"]:
            return {}, failure([Refusal(**one) for one in answer["refusals"]])
        try:
            return use.of_host(answer["bundle"], variables["inventory_hostname"], system), {}
        except Refusal as refusal:
            return {}, failure([refusal])


def _expected(plan: Plan, values: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, float]:
    """Return the seconds that each role at work in this run took earlier; empty where that is not known."""
    directory = values["verify_history_directory"] or (None if values["verify_report_directory"] else HISTORY)
    if not directory:
        return {}
    due_here = plan["due"]
    at_work = {role: due.NO_RECEIPT in due_here[role] for role in due.at_work(variables, due_here)}
    try:
        return durations.expected(Path(directory).expanduser(), variables.get("inventory_hostname", ""), at_work)
    except Refusal:  # an estimate is worth no failure
        return {}
