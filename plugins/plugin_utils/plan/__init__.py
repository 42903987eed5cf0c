# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resolver: from the facts of a node, the wishes and the catalog to a plan, or to a refusal.

Nothing here knows Ansible or touches a node: the same input gives the same plan. Each part of the plan has a file of
its own, and says why it chose what it chose in its C(because).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.plugin_utils.host_types import NO_TYPE, HostTypes
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

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from ansible_collections.gpulab.node.plugins.module_utils.facts.model import Facts
    from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog

SCHEMA = 1


def resolve(  # noqa: PLR0913
    facts: Facts,
    wishes: Mapping[str, Any],
    catalog: Catalog,
    today: date,
    host_types: HostTypes = NO_TYPE,
    *,
    alone: bool = False,
) -> dict[str, Any]:
    """Return the plan for one node.

    facts are those of the module gpu_facts, wishes the values of all options (options.Values), today decides what has
    reached its end of life, host_types are the node's, and alone tells that no other node is of the first of them.
    Raises Refusal where no plan can work.
    """
    recipes.check(wishes, catalog)
    case = Case.of(facts, wishes, catalog, today, host_types.names, alone=alone)
    plan: dict[str, Any] = {"schema": SCHEMA, "host_types": host_types.planned()}
    plan["driver"] = driver.plan(case)
    case = cuda.with_source(case, plan["driver"])
    plan["secure_boot"] = secure_boot.plan(case, plan["driver"])
    plan["cuda"] = cuda.plan(case, plan["driver"])
    plan["libraries"] = libraries.plan(case, plan["cuda"])
    plan["container_toolkit"] = container_toolkit.plan(case)
    plan["environments"] = environments.plan(case, plan["driver"])
    plan["uv"] = uv.plan(case, plan["environments"])
    plan["conda"] = conda.plan(case, plan["driver"])
    plan["fabric_manager"] = fabric_manager.plan(case, plan["driver"])
    plan["imex"] = imex.plan(case, plan["driver"])
    plan["tuning"] = tuning.plan(case)
    plan["gpu_settings"] = gpu_settings.plan(case)
    plan["nccl"] = nccl.plan(case, plan)
    plan["monitoring"] = monitoring.plan(case, plan["driver"])
    plan["reboot"] = reboot.plan(case, plan["driver"])
    plan["disk"] = disk.plan(case, plan)
    plan["warnings"] = case.warnings
    return plan


def reasons(plan: dict[str, Any]) -> list[str]:
    """Return every C(because) of a plan, in its order."""
    parts = [part for part in plan.values() if isinstance(part, dict)] + plan["environments"]
    return [line for part in parts for line in part.get("because", [])]
