# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resolver: from the facts of a node, the wishes and the catalog to a plan, or to a refusal.

Nothing here knows Ansible or touches a node: the same input gives the same plan. Each part of the plan has a file of
its own, and says why it chose what it chose in its C(because).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.plugin_utils.plan import (
    conda,
    container_toolkit,
    cuda,
    disk,
    driver,
    environments,
    fabric_manager,
    gpu_settings,
    imex,
    libraries,
    monitoring,
    nccl,
    reboot,
    recipes,
    secure_boot,
    tuning,
    uv,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.host_types import NO_TYPE, TypesOfHost

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Facts
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Plan

SCHEMA = 1


def resolve(  # noqa: PLR0913
    facts: Facts,
    wishes: Mapping[str, Any],
    catalog: Catalog,
    today: date,
    host_types: TypesOfHost = NO_TYPE,
    *,
    alone: bool = False,
) -> Plan:
    """Return the plan for one node.

    facts are those of the module gpu_facts, wishes the values of all options (options.Values), today decides what has
    reached its end of life, host_types are the node's, and alone tells that no other node is of the first of them.
    Raises Refusal where no plan can work.
    """
    recipes.check(wishes, catalog)
    case = Case.of(facts, wishes, catalog, today, host_types.names, alone=alone)
    planned = driver.plan(case)
    case = cuda.with_source(case, planned)
    return {
        "schema": SCHEMA,
        "host_types": host_types.planned(),
        "driver": planned,
        "secure_boot": secure_boot.plan(case, planned),
        "cuda": (toolkits := cuda.plan(case, planned)),
        "libraries": (its_libraries := libraries.plan(case, toolkits)),
        "container_toolkit": container_toolkit.plan(case),
        "environments": (pip := environments.plan(case, planned)),
        "uv": uv.plan(case, pip),
        "conda": conda.plan(case, planned),
        "fabric_manager": fabric_manager.plan(case, planned),
        "imex": imex.plan(case, planned),
        "tuning": (tuned := tuning.plan(case)),
        "gpu_settings": gpu_settings.plan(case),
        "nccl": nccl.plan(case, planned, toolkits, its_libraries["nccl"], tuned),
        "monitoring": monitoring.plan(case, planned),
        "reboot": reboot.plan(case, planned),
        "disk": disk.plan(case, planned, toolkits, pip),
        "bundle": {},  # which the node has to be asked for
        "warnings": case.warnings,
    }


def reasons(plan: Plan) -> list[str]:
    """Return every C(because) of a plan, in its order."""
    return [line for lines in by_subject(plan).values() for line in lines]


def by_subject(plan: Plan) -> dict[str, list[str]]:
    """Return every C(because) of a plan, in its order, by the part of the plan or the environment that it is of."""
    parts: dict[str, Any] = {name.replace("_", " "): part for name, part in plan.items() if isinstance(part, dict)}
    parts |= {f"environment {part['name']}": part for part in plan["environments"]}
    return {name: part["because"] for name, part in parts.items() if part.get("because")}
