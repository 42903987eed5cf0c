"""What the watch noted of a node's jobs, read from the record that the watch itself writes."""

import json
from dataclasses import asdict, replace

import pytest
from ansible_collections.gpulab.node.plugins.action.diagnose import _noted
from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.watch import judge, noted
from ansible_collections.gpulab.node.plugins.module_utils.watch.judge import WatchState
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis import diagnose

from unit.checks import nodes
from unit.diagnosis import cases

from .test_judge import END, LOST_GPU, NOW, UP, attempt, reports


@pytest.fixture
def written(tmp_path):
    """Return a function that looks at attempts as the watch does, writes its record, and returns the file."""

    def write(*ended, change=lambda state: state, **two):
        state, _found = judge.look(WatchState(NOW - 9000), list(ended), UP, reports(**two), NOW)
        path = tmp_path / "state.json"
        records.write(path, asdict(change(state)), 0o600)
        return path

    return write


def test_the_jobs_of_a_node_are_told_with_class_cause_and_time(written):
    path = written(attempt(), troubles=[LOST_GPU])
    (told,) = noted.read("two", NOW, path)
    assert (told.job, told.seen, told.kind, told.cause) == (7, "crash", "node", LOST_GPU.meaning)
    assert (told.time, told.nodes) == ("2001-09-09T01:46:40Z", 1)
    assert noted.read("one", NOW, path) == []


def test_evidence_of_another_node_is_not_told_of_this_one(written):
    less = replace(LOST_GPU, severity="warn", remedy="restart_app", meaning="XID 94: Contained memory error")
    path = written(attempt(), troubles=[less])
    assert noted.read("two", NOW, path)[0].evidence == ["two: XID 94: Contained memory error"]
    assert noted.read("one", NOW, path)[0].evidence == []


def test_old_jobs_and_those_to_come_are_not_told_and_of_many_the_last(written):
    assert noted.read("two", NOW + noted.HOURS * 3600 + 1, written(attempt())) == []
    assert noted.read("two", NOW - 1, written(attempt())) == []
    many = [attempt(job=number, end=END) for number in range(noted.MOST + 5)]
    assert [one.job for one in noted.read("two", NOW, written(*many))] == list(range(5, noted.MOST + 5))


def test_a_text_is_one_short_line(written):
    def longer(state):
        return replace(state, found=[replace(one, cause="x\x1b[31m\n" + "y" * 5000) for one in state.found])

    (told,) = noted.read("two", NOW, written(attempt(), change=longer))
    assert len(told.cause) == noted.LONGEST
    assert "\n" not in told.cause
    assert "\x1b" not in told.cause


def test_a_host_without_a_watch_has_noted_nothing_and_a_damaged_record_is_refused(tmp_path, written):
    assert noted.read("two", NOW, tmp_path / "none.json") == []
    path = written(attempt())
    path.write_text(json.dumps({"found": 7}), encoding="utf-8")
    with pytest.raises(Refusal, match="H220"):
        noted.read("two", NOW, path)


def test_the_diagnosis_tells_jobs_of_one_cause_together_and_only_classes_that_there_are(written):
    path = written(*(attempt(job=number) for number in (7, 8)), attempt(job=9, nodes=["two"], code=127))
    facts = nodes.healthy("h100x8")
    told = [asdict(one) for one in noted.read("two", NOW, path)]
    made_up = {**told[0], "kind": "made up"}
    found = diagnose.findings(cases.case(facts, {**cases.evidence(facts), "noted": [*told, made_up]}))
    assert [one.id for one in found] == ["hang-noted", "hang-noted"]
    assert "jobs 8, 7 on this node: it ended with exit status 1 (class program)" in found[0].cause
    assert found[0].evidence[0] == "2001-09-09T01:46:40Z: crash of job 7, with 1 other node"
    assert "script of job 9" in found[1].remedy


@pytest.mark.parametrize("given", [[{"job": "x"}], ["x"], [{}]])
def test_an_answer_of_another_form_is_none(given):
    assert _noted(given) == []


def test_of_a_long_answer_the_diagnosis_takes_as_much_as_a_watch_tells(written):
    (told,) = noted.read("two", NOW, written(attempt()))
    assert _noted([asdict(told)] * 999) == [told] * noted.MOST
