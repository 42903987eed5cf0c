"""Each error text of the catalog is taken by its own pattern and by no other; logs of healthy programs by none."""

from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis import diagnose, pasted

from unit.checks import nodes

from . import cases

KNOWN = catalog.load()
RECORDS = {record["id"]: record for record in KNOWN.error_texts}
HEALTHY = (Path(__file__).parent / "healthy.log").read_text()


def test_there_are_at_least_240_and_each_topic_has_some():
    assert len(RECORDS) == len(KNOWN.error_texts) >= 240
    topics = [record["topic"] for record in KNOWN.error_texts]
    assert all(topics.count(topic) >= 4 for topic in set(topics)), topics
    assert len(set(topics)) == 15


@pytest.mark.parametrize("name", RECORDS)
def test_a_text_is_taken_by_its_own_pattern_alone(name):
    taken = [other for other, record in RECORDS.items() if record["pattern"].search(RECORDS[name]["text"])]
    assert taken == [name]


@pytest.mark.parametrize("line", HEALTHY.splitlines())
def test_a_healthy_log_says_nothing(line):
    assert [one.id for one in pasted.errors(KNOWN, line)] == []


def test_the_patterns_are_quick_on_a_long_log():
    assert list(pasted.errors(KNOWN, HEALTHY * 20)) == []


@pytest.mark.parametrize("name", RECORDS)
def test_cause_remedy_and_source_are_whole(name):
    (found,) = pasted.errors(KNOWN, RECORDS[name]["text"])
    assert found.id == f"error-{name}"
    assert found.source.startswith("https://")
    assert len(found.cause) > 15
    assert len(found.remedy) > 10


def test_of_two_errors_the_first_in_the_log_is_first():
    for names in (list(RECORDS)[:2], list(RECORDS)[1::-1]):
        text = "\n".join(RECORDS[name]["text"] for name in names)
        assert [one.id for one in pasted.errors(KNOWN, text)] == [f"error-{name}" for name in names]


def test_the_line_that_was_pasted_is_shown():
    line = "[rank3]: RuntimeError: CUDA error: no kernel image is available for execution on the device"
    (found,) = pasted.errors(KNOWN, f"step 1\n  {line}\nbye")
    assert found.evidence == (line,)


def test_what_was_seen_goes_before_what_is_known_of_the_text():
    facts = nodes.healthy("h100x8")
    found = cases.at_work(facts)
    found["listeners"] = [{"port": 29500, "pid": 77, "user": "li", "command": "python3"}]
    error = "[E] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use)."
    ids = [one.id for one in diagnose.findings(cases.case(facts, found, "network", error=error))]
    assert ids[0] == "network-port-taken"
    assert any(id_.startswith("error-") for id_ in ids[1:])
