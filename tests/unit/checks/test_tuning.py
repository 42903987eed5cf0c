"""The node is tuned as planned, or the proof says what differs."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import verify

from . import nodes

PLAN = {"tuning": {"values": {"vm.swappiness": "10", "cpu_governor": "performance"}, "limits": {"nofile": "8:8"}}}


def results(check, plan=PLAN, **changes):
    facts = nodes.healthy("rtx4090x2")
    facts["tuning"]["limits"] = {"pam": {"nofile": "8:8"}, "systemd": {"nofile": "8:8"}}
    for path, value in changes.items():
        facts["tuning"][path].update(value)
    return [result for result in verify(nodes.node(facts, plan)) if result.id == check]


def test_as_planned():
    assert [result.severity for result in results("tuning-values")] == ["ok"]
    assert [result.severity for result in results("tuning-limits")] == ["ok", "ok"]


def test_another_live_value_is_found():
    (result,) = results("tuning-values", values={"vm.swappiness": "60"})
    assert (result.severity, result.observed, result.expected) == ("warn", "60", "10")


UNDONE = {"value": "60", "file": "/etc/sysctl.conf", "line": 7}


@pytest.mark.parametrize("live", ["10", "60"])
def test_a_file_that_undoes_a_value_at_boot_is_named_and_no_reboot_advised(live):
    (result,) = results("tuning-values", values={"vm.swappiness": live}, later={"vm.swappiness": UNDONE})
    assert (result.severity, result.remediation, result.observed) == ("warn", "configure", "60")
    assert "/etc/sysctl.conf, line 7" in result.summary


def test_a_file_that_undoes_one_value_hides_no_other_difference():
    plan = {"tuning": {**PLAN["tuning"], "values": {"vm.swappiness": "10", "vm.max_map_count": "7"}}}
    found = results("tuning-values", plan, later={"vm.swappiness": UNDONE})
    assert [(one.severity, one.remediation) for one in found] == [("warn", "configure"), ("warn", "reboot")]


@pytest.mark.parametrize("later", [{"vm.swappiness": {**UNDONE, "value": "10"}}, {"vm.dirty_ratio": UNDONE}])
def test_a_later_file_that_undoes_nothing_is_no_finding(later):
    assert [result.severity for result in results("tuning-values", later=later)] == ["ok"]


def test_tuned_is_named_where_it_is_at_work():
    facts = nodes.healthy("rtx4090x2")
    facts["tuning"]["values"]["vm.swappiness"] = "60"
    facts["tuning"]["tuned_profile"] = "balanced"
    for state, named in (("active", True), ("inactive", False)):
        facts["services"]["tuned"] = {"load": "loaded", "active": state, "sub": "", "enabled": "enabled"}
        (result,) = [one for one in verify(nodes.node(facts, PLAN)) if one.id == "tuning-values"]
        assert ("tuned's profile balanced" in result.summary) is named


@pytest.mark.parametrize(
    ("services", "state", "severities"),
    [
        ({"irqbalance": True}, "active", ["ok"]),
        ({"irqbalance": True}, "inactive", ["warn"]),
        ({"irqbalance": True}, None, ["warn"]),
        ({"irqbalance": False}, None, ["inapplicable"]),
    ],
)
def test_a_service_of_the_plan_runs(services, state, severities):
    facts = nodes.healthy("rtx4090x2")
    if state:
        facts["services"]["irqbalance"] = {"load": "loaded", "active": state, "sub": "", "enabled": ""}
    plan = {"tuning": {**PLAN["tuning"], "services": services}}
    found = [one for one in verify(nodes.node(facts, plan)) if one.id == "tuning-services"]
    assert [one.severity for one in found] == severities


@pytest.mark.parametrize(("who", "remedy"), [("pam", "configure"), ("systemd", "reboot")])
def test_another_limit_is_found(who, remedy):
    found = [one for one in results("tuning-limits", limits={who: {"nofile": "1:1"}}) if one.severity == "warn"]
    assert [(one.summary, one.remediation) for one in found] == [(f"nofile: {who} has 1:1", remedy)]


def test_a_container_is_not_blamed_for_its_hosts_kernel():
    facts = nodes.healthy("rtx4090x2")
    facts["system"]["container"] = True
    facts["simulated"] = "simulated GPU"
    facts["tuning"]["values"]["vm.swappiness"] = "60"
    plan = {"tuning": {**PLAN["tuning"], "services": {"irqbalance": True}}}
    found = {result.id: result.severity for result in verify(nodes.node(facts, plan))}
    assert found["tuning-values"] == "inapplicable"
    assert found["tuning-services"] == "inapplicable"


NOTHING = {"tuning": {"values": {}, "limits": {}, "services": {}, "swap": {"place": None, "mib": 0}}}


@pytest.mark.parametrize(
    ("plan", "severity"), [(None, "skipped"), ({"drift": []}, "skipped"), (NOTHING, "inapplicable")]
)
def test_nothing_planned_is_not_for_the_machine_and_an_unknown_plan_ought_to_be_looked_at(plan, severity):
    for check in ("tuning-values", "tuning-limits", "tuning-services", "tuning-swap"):
        assert [result.severity for result in results(check, plan)] == [severity]


@pytest.mark.parametrize("place", ["/dev/sda3", "UUID=5d"])
def test_swap_is_known_by_all_its_names(place):
    facts = nodes.healthy("l40s")
    facts["tuning"]["swaps"] = {"/dev/sda3": ["/dev/sda3", "UUID=5d"]}
    plan = {"tuning": {"swap": {"place": place, "mib": 1}}}
    assert {r.severity for r in verify(nodes.node(facts, plan), ["tuning"]) if r.id == "tuning-swap"} == {"ok"}
