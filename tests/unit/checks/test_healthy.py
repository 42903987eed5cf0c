"""A healthy node has no finding, and no set of missing facts makes a check fall over."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import INAPPLICABLE, SEVERITIES
from ansible_collections.gpulab.node.plugins.module_utils.checks.remedies import REMEDIES
from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import checks, subject, verify
from ansible_collections.gpulab.node.plugins.plugin_utils.proof import facts_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unit import machines

from . import loaded, nodes
from .cuda_faults import COMPAT_PLAN, FORWARD, NEW, OLD, PLAN, compiled
from .driver_faults import SECURE_BOOT


@pytest.mark.parametrize("model", nodes.MODELS)
def test_healthy_node_has_no_finding(model):
    results = verify(nodes.node(nodes.healthy(model), gpus=nodes.MODELS[model]["count"]))
    assert [r for r in results if r.severity in ("warn", "fail", "unknown")] == []
    assert {r.id for r in results} == {c.id for c in checks()}
    assert {r.severity for r in results} >= {"ok"}


@pytest.mark.parametrize("model", nodes.MODELS)
def test_healthy_node_has_no_finding_under_load_either(model):
    results = verify(nodes.node(loaded.measured(model), level="burn-in", across_nodes=True))
    assert [r for r in results if r.severity in ("warn", "fail", "unknown")] == []
    assert {r.severity for r in results if r.id in ("cuda-smoke", "memory-bandwidth", "load-errors")} == {"ok"}


@pytest.mark.parametrize(("level", "severity"), [("quick", "inapplicable"), ("standard", "unknown")])
def test_without_measurements_nothing_is_claimed(level, severity):
    results = verify(nodes.node(nodes.healthy("t4"), level=level))
    assert {r.severity for r in results if r.id in ("cuda-smoke", "copy-rate", "all-reduce")} == {severity}


def test_level_quick_judges_no_measurements_of_an_earlier_run():
    known = {"gpulab": {"schema": 1}, "gpulab_measurements": {"gpus": []}}
    assert "measurements" not in facts_of(known, "quick")
    assert facts_of(known, "standard")["measurements"]["gpus"] == []
    assert facts_of({}, "standard") is None


UNFLOORED = {"nodes_all_reduce_gbs": None}


def across(record, model="l40s", **declared):
    """Return the answer about the all_reduce over nodes."""
    facts = loaded.measured(model)
    facts["measurements"]["nodes_all_reduce"].update(record)
    results = verify(nodes.node(facts, **{"level": "standard", "across_nodes": True, **declared}))
    (found,) = [r for r in results if r.id == "all-reduce-nodes"]
    return found


def test_node_that_came_is_not_blamed_for_one_that_did_not():
    found = across({"state": "missing", "missing": {"node3": "did not come"}, "name": "node2"})
    assert (found.severity, found.reason) == ("unknown", "node3: did not come")


@pytest.mark.parametrize(
    ("rate", "profile", "severity"),
    [
        (44.0, {}, "ok"),
        (15.0, {}, "fail"),
        (44.0, {"floors": {"nodes_all_reduce_gbs": 240}}, "ok"),
        (25.0, {"floors": {"nodes_all_reduce_gbs": 240}}, "fail"),
        (0.1, {"floors": UNFLOORED}, "ok"),
    ],
)
def test_rate_is_held_against_the_share_of_gpus_that_took_part(rate, profile, severity):
    share = {"taking_part": {"node1": [8, 8], "node2": [1, 8]}, "processes": 9, "all_reduce_gbs": rate}
    found = across(share, model="h100x8", profile=profile)
    assert found.severity == severity
    assert ("1 of 8 GPUs of node2 took part" in str(found.reason)) is (profile.get("floors") != UNFLOORED)


def test_rate_over_processors_is_not_judged():
    found = across({"backend": "gloo", "all_reduce_gbs": 0.01}, profile={"floors": {"nodes_all_reduce_gbs": 9}})
    assert found.severity == "ok"
    assert "Gloo" in found.reason


@pytest.mark.parametrize("declared", [{"across_nodes": False}, {"level": "quick"}])
def test_nodes_are_judged_together_only_where_that_was_requested(declared):
    assert across({"state": "unreachable", "reason": "timed out"}, **declared).severity == "inapplicable"


def slow_simulated(**declared):
    """Return the facts of a simulated GPU whose memory is far too slow for its board."""
    facts = loaded.measured("l40s")
    facts["measurements"].update(simulated="simulated NVIDIA L40S", **declared)
    facts["measurements"]["gpus"][0]["tests"]["memory"]["memory_gbs"] = 1.0
    return facts


@pytest.mark.parametrize(("declared", "severity"), [(False, "skipped"), (True, "fail")])
def test_rates_of_a_simulated_gpu_are_judged_only_where_the_simulator_means_them(declared, severity):
    results = verify(nodes.node(slow_simulated(rates_declared=declared), level="standard"))
    (found,) = [r for r in results if r.id == "memory-bandwidth"]
    assert found.severity == severity
    assert declared or "simulated" in found.reason


def test_checks_are_chosen_by_their_subject():
    results = verify(nodes.node(SMALL), ["memory", "driver"])
    assert {subject(check) for check in checks() if check.id in {r.id for r in results}} == {"memory", "driver"}


def paths(facts, prefix=()):
    """List the path of every key and list element in the facts."""
    items = facts.items() if isinstance(facts, dict) else enumerate(facts) if isinstance(facts, list) else ()
    for key, value in items:
        if key == "unsupported":
            continue  # what says that there is no reading is no reading
        yield (*prefix, key)
        yield from paths(value, (*prefix, key))


SMALL = loaded.measured("a100-pcie-bridged")


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(sorted(paths(SMALL), key=str)), min_size=1, max_size=12), st.booleans())
def test_missing_facts_give_results_and_no_traceback(removed, null):
    facts = machines.unshared(SMALL)
    for *parents, key in removed:
        at = facts
        for parent in parents:
            at = at.get(parent) if isinstance(at, dict) else at[parent] if at and parent < len(at) else None
        if isinstance(at, dict) and null and not isinstance(at.get(key), (dict, list)):
            at[key] = None
        elif isinstance(at, dict):
            at.pop(key, None)
        elif at and key < len(at):
            del at[key]
    results = verify(nodes.node(facts))
    assert {r.id for r in results} == {c.id for c in checks()}
    assert all(r.severity in (*SEVERITIES, INAPPLICABLE) and r.remediation in REMEDIES and r.source for r in results)


@pytest.mark.parametrize("facts", [{}, {"pci": {"gpus": []}}, {"nvml": {"state": "absent", "gpus": []}}])
def test_bare_facts_are_judged(facts):
    assert {r.id for r in verify(nodes.node(facts))} == {c.id for c in checks()}


def test_toolkits_as_planned_are_no_finding():
    facts = nodes.healthy("rtx4090x2")
    facts["cuda"] = {"toolkits": [OLD, NEW], "default": OLD["prefix"]}
    facts["cuda_compiled"] = [compiled(None)]
    found = {r.id: r.severity for r in verify(nodes.node(facts, PLAN)) if r.id in ("cuda-plan", "cuda-compiler")}
    assert found == {"cuda-plan": "ok", "cuda-compiler": "ok"}


def test_cuda_compat_as_planned_is_no_finding_beside_the_older_driver():
    facts = nodes.healthy("h100x8")
    facts["cuda"] = {"toolkits": [OLD, NEW], "default": OLD["prefix"], "compat": [FORWARD["compat"]]}
    bare = {r.id: r.severity for r in verify(nodes.node(facts)) if r.severity not in ("skipped", "inapplicable")}
    planned = {r.id: r.severity for r in verify(nodes.node(facts, COMPAT_PLAN))}
    assert planned["cuda-compat"] == "ok"
    assert {name: planned[name] for name in bare if not name.startswith("driver-")} == {
        name: severity for name, severity in bare.items() if not name.startswith("driver-")
    }


@pytest.mark.parametrize(("plan", "severity"), [(None, "skipped"), (PLAN, "inapplicable")])
def test_no_cuda_compat_is_looked_for_where_none_is_planned(plan, severity):
    (found,) = [r for r in verify(nodes.node(nodes.healthy("t4"), plan)) if r.id == "cuda-compat"]
    assert found.severity == severity


def test_the_distributions_toolkit_has_no_link():
    own = {"version": "12.4", "prefix": "/usr"}
    facts = nodes.healthy("rtx4090x2")
    facts["cuda"] = {"toolkits": [own], "default": None}
    plan = {"cuda": {"toolkits": [own], "default": "12.4", "home": "/usr"}}
    assert {r.severity for r in verify(nodes.node(facts, plan)) if r.id == "cuda-plan"} == {"ok"}


def test_container_is_not_blamed_for_its_hosts_kernel():
    facts = nodes.healthy("t4")
    facts["system"]["container"] = True
    facts["kernels"] = []
    facts["nouveau"]["blacklisted"] = False
    results = {r.id: r for r in verify(nodes.node(facts))}
    assert results["nouveau-absent"].severity == "inapplicable"
    assert "host" in results["driver-next-boot"].reason


def test_simulated_node_is_judged_like_a_machine_though_it_is_a_container():
    facts = nodes.healthy("t4")
    facts["system"]["container"] = True
    facts["simulated"] = "simulated Tesla T4"
    facts["nouveau"]["blacklisted"] = False
    assert {r.severity for r in verify(nodes.node(facts)) if r.id == "nouveau-absent"} == {"warn"}


def test_secure_boot_with_an_enrolled_key_is_fine():
    facts = nodes.healthy("rtx3060")
    SECURE_BOOT(facts)
    assert {r.severity for r in verify(nodes.node(facts)) if r.id == "secure-boot"} == {"ok"}


@pytest.mark.parametrize("waits", [True, False])
def test_a_key_that_waits_at_the_console_is_said(waits):
    facts = nodes.healthy("rtx3060")
    SECURE_BOOT(facts)
    facts["system"].update(mok_enrolled=False, mok_pending=waits)
    facts["modules"]["nvidia"]["loaded"] = False
    found = next(r for r in verify(nodes.node(facts)) if r.id == "secure-boot")
    assert (found.severity, "waits for confirmation at the console" in found.summary) == ("fail", waits)


def test_container_has_neither_a_clock_nor_a_kernel_log_of_its_own():
    facts = nodes.healthy("t4")
    facts["simulated"] = "simulated Tesla T4"
    facts["system"].update(container=True, clock_synchronized=False)
    facts["kernel_log"] = {"readable": False, "events": []}
    found = {r.id: r for r in verify(nodes.node(facts))}
    assert (found["clock"].severity, found["xids"].severity) == ("inapplicable", "inapplicable")


def test_checks_say_what_they_prove_and_where_the_rule_comes_from():
    for check in checks():
        assert check.proves
        assert check.source


@pytest.mark.parametrize(("declared", "severity"), [({"gpus": 0}, "inapplicable"), ({}, "fail")])
def test_container_without_gpu_is_fit_only_where_none_is_declared(declared, severity):
    facts = machines.unshared(nodes.healthy("t4"))
    facts["system"]["container"] = True
    facts["pci"]["gpus"] = []
    facts["nvml"] = {"state": "absent", "gpus": [], "error": {"code": 12, "text": "no library"}}
    (found,) = [r for r in verify(nodes.node(facts, **declared)) if r.id == "driver-responsive"]
    assert found.severity == severity
