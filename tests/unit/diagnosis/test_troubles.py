"""The right cause comes first, with a command that cures it; without the trouble there is no such finding."""

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis import diagnose
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import ALL, RULES

from unit.checks import nodes

from . import cases
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


def test_there_are_enough():
    assert len(TROUBLES) >= 40


@pytest.mark.parametrize("name", TROUBLES)
def test_another_symptom_does_not_name_it(name):
    trouble = TROUBLES[name]
    for symptom in {rule.symptom for rule in RULES.values()} - {trouble.symptom}:
        assert trouble.rule not in {one.id for one in diagnosed(trouble, symptom)}
