# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a node: its facts, what was planned and what the operator declared, compared with the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.checks import runner
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import INAPPLICABLE, Facts, Node
from ansible_collections.gpulab.node.plugins.module_utils.receipts.store import NOT_ENDED
from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import load

if TYPE_CHECKING:
    from collections.abc import Collection

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
        Declared,
        NotForThisMachine,
        ResultRecord,
    )
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Plan


def facts_of(known: dict[str, Any], level: str) -> dict[str, Any] | None:
    """Return a host's facts as checks read them, out of its ansible_facts; None where it has none.

    What the active tests measured is among them above level quick only: a cache may hold those of an earlier run.
    """
    if not known.get("gpulab"):
        return None
    facts = {
        **known["gpulab"],
        "environments": known.get("gpulab_environments", []),
        "software_tried": known.get("gpulab_software_tried"),
        "cuda_compiled": known.get("gpulab_cuda_compiled") if known["gpulab"].get("cuda", {}).get("toolkits") else None,
    }
    if facts.get("engines", {}).get("docker"):
        facts["container_started"] = known.get("gpulab_container_started")
    measured = level != "quick" and "gpulab_measurements" in known
    if not measured:
        return facts
    across = {name: known.get(f"gpulab_{name}") for name in ("nodes_all_reduce", "nodes_rdma")}
    return {**facts, "measurements": {**known["gpulab_measurements"], **across}}


def applied(facts: dict[str, Any], plan: Plan | None) -> dict[str, Any]:
    """Return what the roles have carried out on the node, as their receipts tell, and what this run has put right.

    plan is this run's. What it would change is due, and no fault of the node: a proof compares with what was applied,
    so it finds the same with a plan, without one, and on a node on which nothing was due. A run that has one also goes
    by receipts that it has not sealed yet.
    """
    counts = ("", NOT_ENDED) if plan else ("",)
    parts: dict[str, Any] = {"drift": plan.get("drift", []) if plan else []}
    for receipt in facts.get("receipts", {}).values():
        if receipt["problem"] in counts:
            parts.update(receipt.get("plan", {}))
    return parts


def judge(
    facts: dict[str, Any], plan: Plan | None, declared: Declared, subjects: Collection[str] = ()
) -> tuple[list[ResultRecord], list[NotForThisMachine]]:
    """Return the results of all checks, or of those about the subjects, and what is not for this machine."""
    node = Node(Facts(facts), Facts(applied(facts, plan)), catalog(declared.get("profile")), declared)
    found = [result.as_dict() for result in runner.verify(node, subjects)]
    found += [] if subjects else declared.get("own_checks", [])
    not_for = [result for result in found if result["severity"] == INAPPLICABLE]
    return (
        [result for result in found if result["severity"] != INAPPLICABLE],
        [{"id": result["id"], "reason": result["reason"], "gpu": result["gpu"]} for result in not_for],
    )


def catalog(changes: dict[str, Any] | None = None) -> dict[str, dict[Any, Any]]:
    """Return the records that checks compare with; changes replace values in every board's profile."""
    known = load()
    return {
        "profiles": {device: _changed(record, changes or {}) for device, record in known.profiles.items()},
        "any_profile": dict(changes or {}),
        "gpus": known.gpus,
        "data_path": known.read("data_path"),
        "container_toolkit": known.read("container_toolkit"),
        "branches": {record["branch"]: record for record in known.read("driver_branches")["branches"]},
    }


def _changed(profile: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Replace values of a profile; of its floors, those that are named."""
    return {**profile, **changes, "floors": {**profile.get("floors", {}), **changes.get("floors", {})}}
