"""The right cause comes first, with a command that cures it; without the trouble there is no such finding."""

from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis import diagnose
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import ALL, RULES

from unit.checks import nodes

from . import cases
from .making import fact, linked
from .troubles import TROUBLES


def diagnosed(trouble, symptom):
    facts = nodes.healthy(trouble.model)
    found = cases.at_work(facts)
    trouble.change(found, facts)
    return diagnose.findings(cases.case(facts, found, symptom, **trouble.asked))


@pytest.mark.parametrize("everything", [False, True], ids=["symptom", "all"])
@pytest.mark.parametrize("name", TROUBLES)
def test_the_right_cause_is_first(name, everything):
    trouble = TROUBLES[name]
    found = diagnosed(trouble, ALL if everything and trouble.rule != "memory-held" else trouble.symptom)
    assert [one.id for one in found][:1] == [trouble.rule], [(one.id, one.cost, one.cause) for one in found]
    first = found[0]
    assert trouble.remedy in first.remedy
    assert first.symptom == trouble.symptom
    assert first.source.startswith("http")
    assert 0 < first.cost <= 1


def test_every_rule_has_a_trouble():
    assert {trouble.rule for trouble in TROUBLES.values()} >= set(RULES)


def at_work(*changes):
    """Return facts and evidence of a node at work, changed by what makes troubles."""
    facts = nodes.healthy("h100x8")
    found = cases.at_work(facts)
    for change in changes:
        change(found, facts)
    return facts, found


def test_the_same_version_from_elsewhere_is_no_trouble():
    facts, found = at_work(linked("9.10.2"))
    assert diagnose.findings(cases.case(facts, found, "mismatch", pid=1001)) == []


@pytest.mark.parametrize(("asked", "count"), [({"pid": 1001}, 0), ({"user": "anna"}, 0), ({"pid": 77}, 1), ({}, 1)])
def test_what_another_program_has_is_told_only_where_it_is_asked_for(asked, count):
    facts, found = at_work()
    found["processes"].append(cases.process(77, user="li", environment={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}))
    told = [one.id for one in diagnose.findings(cases.case(facts, found, **asked))]
    assert told.count("memory-caching-off") == count


def test_what_a_check_of_the_proof_says_as_well_is_told_once():
    facts, found = at_work(fact("system.clock_synchronized", value=False))
    assert [one.id for one in diagnose.findings(cases.case(facts, found))] == ["network-clock"]


def test_there_are_as_many_as_the_document_says():
    text = (Path(__file__).parents[3] / "docs/diagnosis.md").read_text(encoding="utf-8")
    assert f"\n{len(TROUBLES)} troubles are made" in text
    assert f"{len(nodes.MODELS)} models of nodes" in text


@pytest.mark.parametrize("name", TROUBLES)
def test_another_symptom_does_not_name_it(name):
    trouble = TROUBLES[name]
    for symptom in {rule.symptom for rule in RULES.values()} - {trouble.symptom}:
        assert trouble.rule not in {one.id for one in diagnosed(trouble, symptom)}
