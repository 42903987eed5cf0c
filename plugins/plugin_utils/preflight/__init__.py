# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node, judged before the first change: whether the plan can be carried out there, and whether the hardware fits.

Nothing here knows Ansible or touches a node.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.plugin_utils.preflight import guards, hardware

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
    from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Facts
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Plan

ADVICE, WARN, FAIL = "advice", "warn", "fail"


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be; advice is what could be better, and nothing is wrong with it."""

    severity: str
    refusal: Refusal


def examine(facts: Facts, plan: Plan, limits: dict[str, Any], catalog: Catalog) -> list[Finding]:
    """Return everything that was found, failures first.

    limits are the options of the module preflight; what they require of the hardware fails the node instead of
    warning.
    """
    found = [Finding(FAIL, refusal) for refusal in guards.broken(facts, plan)]
    severity = WARN if facts["driver"]["library"] else FAIL
    # Of a node that has its driver the plan wants less than it says; what packages still need, they check themselves.
    found += [Finding(severity, refusal) for refusal in guards.short_of_space(facts, plan, limits)]
    driver = plan["driver"]
    if driver["packages"] or driver["source"] == "runfile":
        found += [Finding(FAIL if never else WARN, refusal) for never, refusal in guards.forbidden_modules(facts)]
    if driver["packages"] and not driver["display"]:
        found += [Finding(WARN, refusal) for refusal in guards.losing_display(facts)]
    for name, check in hardware.checks(facts).items():
        for short, refusal in check(hardware.JudgedNode(facts, plan, limits, catalog)):
            finding = Finding(WARN if short else ADVICE, refusal)
            found.append(replace(finding, severity=FAIL) if short and name in limits["required"] else finding)
    return sorted(found, key=lambda finding: (FAIL, WARN, ADVICE).index(finding.severity))
