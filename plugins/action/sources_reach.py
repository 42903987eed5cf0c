# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take from the plan what a run will download from, and let the node ask whether it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.filter.file_text import file_text
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import host_types
from ansible_collections.gpulab.node.plugins.plugin_utils.preflight import sources
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse
from ansible_collections.gpulab.node.plugins.plugin_utils.roles import due

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Facts
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Plan


class ActionModule(ActionBase):
    """Ask for the sources of the roles that are due and in the tags of this run."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Fail with a line for each source that does not answer."""
        result: dict[str, Any] = {**super().run(tmp, task_vars), "changed": False}
        self.validate_argument_spec({})
        variables = task_vars or {}
        facts: Facts = variables["ansible_facts"]["gpulab"]
        plan: Plan = variables["ansible_facts"]["gpulab_plan"]
        values = host_types.values(plan, variables, self._templar.template)
        wanted = sources.planned(plan, facts, values, due.at_work(variables, plan["due"]))
        if not wanted or plan["bundle"]:  # of which all was asked when it was planned
            return result
        arguments = {
            "sources": [{name: source[name] for name in ("name", "urls", "exact")} for source in wanted],
            "proxies": proxies(values),
            "certificates": "\n".join(map(file_text, values["base_ca_certificates"])),
        }
        answer = self._execute_module("gpulab.node.sources_reach", arguments, task_vars=variables)
        if answer.get("failed") or not answer.get("unreached"):
            return {**result, **answer}
        unreached = answer["unreached"]
        refusal = refuse(
            "H218",
            host=variables["inventory_hostname"],
            sources="; ".join(sources.told(unreached)),
            way=sources.ways(unreached, wanted, has_own_driver=sources.has_own_driver(plan, facts, values)),
        )
        return {**result, **failure([refusal])}


def proxies(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of the environment for the proxies that the inventory sets, which the node may lack yet."""
    set_there = {f"{scheme}_proxy": values[f"base_{scheme}_proxy"] for scheme in ("http", "https")}
    found = {name: proxy for name, proxy in set_there.items() if proxy}
    return {**found, "no_proxy": ",".join(values["base_no_proxy"])} if found else {}
