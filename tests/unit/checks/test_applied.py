"""A proof compares with what the roles have carried out, as their receipts tell: with a plan of its own and without."""

from __future__ import annotations

import copy
from datetime import date
from typing import Any

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import verify
from ansible_collections.gpulab.node.plugins.module_utils.receipts.store import NOT_ENDED
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import resolve
from ansible_collections.gpulab.node.plugins.plugin_utils.proof import applied, facts_of, judge
from ansible_collections.gpulab.node.plugins.plugin_utils.roles import due, known

from . import loaded, nodes

MODELS = ("rtx4090x2", "a100-pcie-x2", "h100x8")
LEVELS = ("quick", "standard", "burn-in")
TRAIN = {"name": "train", "pytorch": "2.13"}


def plan_of(facts: Any) -> dict[str, Any]:
    """Return what gpulab plans for a node."""
    wishes = options.complete({"gpulab_environments": [TRAIN]})
    return resolve(facts, wishes, catalog.load(), date(2026, 11, 1), alone=True)


def left(plan: dict[str, Any], *drift: str) -> dict[str, Any]:
    """Return the receipts of a run that carried this plan out, with what somebody changed since then."""
    return {
        role: {"inputs": {}, "plan": due.compared(role, plan), "problem": "", "differs": [], "drift": list(drift)}
        for role in known.with_receipt()
    }


@pytest.fixture(params=MODELS)
def provisioned(request):
    """Return the facts of a node and its plan."""
    facts = loaded.measured(request.param)
    return facts, plan_of(facts)


def told(results: Any) -> list[tuple[str, str, str, str | None]]:
    """Return what matters of results."""
    return [(r["id"], r["severity"], r["summary"], r["reason"]) for r in results]


def test_a_receipt_holds_all_of_the_plan_that_a_check_reads(provisioned):
    facts, plan = provisioned
    with_receipts = {**facts, "receipts": left(plan)}
    whole = [one.as_dict() for one in verify(nodes.node(with_receipts, plan))]
    kept = [one.as_dict() for one in verify(nodes.node(with_receipts, applied(with_receipts, None)))]
    assert told(kept) == told(whole)
    assert {one["severity"] for one in kept if one["id"] in ("driver-plan", "tuning-limits", "environments")} <= {
        "ok",
        "fail",
        "warn",
    }


def test_each_part_is_kept_by_the_one_role_that_carries_it_out():
    kept = [part for role in known.load().values() for part in role.compared]
    assert len(kept) == len(set(kept))
    assert all(role.compared.keys() <= set(role.plan) for role in known.load().values())


def test_a_receipt_holds_no_password_of_the_plan(provisioned):
    _facts, plan = provisioned
    plan["environments"][0]["index_url"] = "https://ann:hunter2@pypi.example.org/simple"
    plan["container_toolkit"]["docker"] = {"settings": {"proxies": {"http-proxy": "http://ann:hunter2@proxy:3128"}}}
    plan["tuning"]["files"] = {"/etc/x": "hunter2"}
    assert "hunter2" not in str(left(plan))


def test_another_plan_of_this_run_is_due_and_no_fault_of_the_node(provisioned):
    facts, plan = provisioned
    facts["receipts"] = left(plan)
    other = copy.deepcopy(plan)
    other["driver"].update(branch="1", version="1.2.3")
    other["tuning"]["limits"] = {"nofile": "1:1"}
    assert judge(facts, other, {}) == judge(facts, None, {}) == judge(facts, plan, {})


def test_what_this_run_has_put_right_is_told(provisioned):
    facts, plan = provisioned
    facts["receipts"] = left(plan)
    results, _not_for = judge(facts, {**plan, "drift": ["/etc/x: edited"]}, {})
    assert [(r["severity"], r["summary"]) for r in results if r["id"] == "drift"] == [
        ("info", "put right by this run: /etc/x: edited")
    ]


@pytest.mark.parametrize("level", LEVELS)
def test_drift_is_named_at_every_level_by_a_proof_without_a_plan(provisioned, level):
    facts, plan = provisioned
    facts["receipts"] = left(plan, "/etc/modprobe.d/gpulab-nouveau.conf: edited")
    measurements = facts.pop("measurements")
    read = facts_of({"gpulab": facts, "gpulab_measurements": {**measurements, "level": level}}, level)
    results, _not_for = judge(read, None, {"level": level})
    found = [r for r in results if r["id"] == "drift"]
    assert [(r["severity"], r["observed"]) for r in found] == [
        ("warn", ["/etc/modprobe.d/gpulab-nouveau.conf: edited"])
    ]


@pytest.mark.parametrize("check", ["driver-plan", "cuda-plan", "cuda-compat", "tuning-limits", "tuning-swap"])
def test_without_a_receipt_nobody_says_that_a_check_of_the_plan_is_for_another_machine(check):
    facts = nodes.healthy("rtx4090x2")
    plan = plan_of(facts)
    (damaged,) = {name for name, role in known.load().items() if plan_part(check) in role.compared}
    for receipts in ({}, {**left(plan), damaged: {**left({**plan})[damaged], "plan": {}, "problem": "damaged"}}):
        results, not_for = judge({**facts, "receipts": receipts}, None, {})
        assert [r["severity"] for r in results if r["id"] == check] == ["skipped"]
        assert check not in [one["id"] for one in not_for]


def plan_part(check: str) -> str:
    """Return the part of the plan that a check compares with."""
    return check.partition("-")[0]


@pytest.mark.parametrize(
    ("problem", "own_plan", "severity"),
    [
        ("", None, "fail"),
        (NOT_ENDED, {"drift": []}, "fail"),
        (NOT_ENDED, None, "skipped"),
        ("its receipt is damaged", {"drift": []}, "skipped"),
    ],
    ids=["sealed", "within the run that wrote it", "of a run that did not end", "damaged"],
)
def test_a_run_goes_by_its_own_receipts_before_it_has_sealed_them(problem, own_plan, severity):
    """The driver is judged, and rolled back, before the end of the run that brought it."""
    facts = nodes.healthy("rtx4090x2")
    receipts = left(plan_of(facts))
    receipts["nvidia_driver"]["plan"]["driver"]["display"] = True
    receipts["nvidia_driver"]["problem"] = problem
    results, _not_for = judge({**facts, "receipts": receipts}, own_plan, {}, ["driver"])
    assert [r["severity"] for r in results if r["id"] == "display-match"] == [severity]


def test_a_receipt_that_does_not_count_is_told():
    facts = nodes.healthy("rtx4090x2")
    receipts = left(plan_of(facts))
    receipts["cuda"] = {**receipts["cuda"], "plan": {}, "problem": "its receipt is damaged"}
    results, _not_for = judge({**facts, "receipts": receipts}, None, {})
    assert [(r["severity"], r["reason"]) for r in results if r["id"] == "drift"] == [
        ("unknown", "cuda: its receipt is damaged")
    ]
