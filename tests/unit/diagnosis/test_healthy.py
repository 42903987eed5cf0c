"""A healthy node has no finding, idle or at work, and no set of missing evidence makes a rule fall over."""

import copy
from dataclasses import asdict

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.checks import runner
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Result
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.arguments import ARGUMENTS
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.shapes import MachineNow
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis import diagnose, known
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import (
    ALL,
    RULES,
    SYMPTOMS,
    as_record,
    listed,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unit import machines
from unit.checks import nodes

from . import cases


def test_what_each_subject_of_the_proof_explains_is_known():
    assert {runner.subject(check) for check in runner.checks()} <= known.SUBJECTS.keys()


@pytest.mark.parametrize("model", nodes.MODELS)
def test_an_idle_healthy_node_has_no_finding(model):
    facts = nodes.healthy(model)
    assert diagnose.findings(cases.case(facts, cases.evidence(facts))) == []


@pytest.mark.parametrize("asked", [{}, {"pid": 1001}, {"user": "anna"}], ids=["all", "pid", "user"])
@pytest.mark.parametrize("model", nodes.MODELS)
def test_a_healthy_node_at_work_has_no_finding(model, asked):
    facts = nodes.healthy(model)
    assert diagnose.findings(cases.case(facts, cases.at_work(facts), **asked)) == []


def test_a_bare_machine_without_gpu_has_no_finding_of_a_rule():
    facts = machines.machine()
    found = diagnose.findings(cases.case(facts, cases.evidence(facts)))
    assert [one for one in found if one.id in RULES] == []


def test_every_symptom_has_rules_and_every_rule_a_symptom():
    assert {rule.symptom for rule in RULES.values()} == set(SYMPTOMS)
    assert ARGUMENTS["symptom"]["choices"] == [ALL, *SYMPTOMS]
    assert all(rule.source.startswith("https://") for rule in RULES.values())


@pytest.mark.parametrize("symptom", [ALL, *SYMPTOMS])
def test_what_could_not_be_read_ends_no_diagnosis(symptom):
    facts = nodes.healthy("h100x8")
    nothing = {
        key: type(value)() if isinstance(value, (list, dict)) else None for key, value in cases.evidence(facts).items()
    }
    nothing.update(
        seconds=3.0, late=["processes", "libraries", "network", "machine"], machine=asdict(MachineNow()), hostname=None
    )
    document = diagnose.diagnosis(cases.case(facts, nothing, symptom), "node1", "2026-11-26T08:00:00Z")
    assert document.findings == []
    assert "not read in time: processes, libraries, network, machine" in diagnose.lines(document)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.sampled_from(sorted(nodes.healthy("a100-pcie-x2"))), max_size=12), st.data())
def test_missing_facts_end_no_diagnosis(removed, data):
    facts = nodes.healthy("a100-pcie-x2")
    found = cases.at_work(facts)
    for name in removed:
        facts.pop(name, None)
    record = copy.deepcopy(data.draw(st.sampled_from(found["processes"])))
    record.update(environment={}, libraries=[], sites=[], arguments="", executable=None, waits=None)
    found["processes"].append({**record, "pid": 1})
    diagnose.findings(cases.case(facts, found))


def test_a_check_that_measures_nothing_gives_no_share_and_expects_nothing():
    result = Result("warn", "branch 535 no longer gets security fixes", observed="535.309.01", id="driver-security")
    (finding,) = known.checks([result], ALL)
    said = "\n".join(listed([as_record(finding)]))
    assert "seen: observed 535.309.01\n" in said
    assert "None" not in said
    assert "costs" not in said
