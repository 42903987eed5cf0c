"""Each rule finds what gets worse, and is silent at its near miss."""

import copy

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.checks.remedies import REMEDIES
from ansible_collections.gpulab.node.plugins.plugin_utils.history.lines import line
from ansible_collections.gpulab.node.plugins.plugin_utils.history.trends import RULES, trends
from ansible_collections.gpulab.node.plugins.plugin_utils.report import document

from unit.checks import loaded
from unit.report import runs

REPORT = document.build({"a": runs.judged(loaded.measured("h100x8"))}, runs.CREATED)
LINE = line(REPORT, REPORT["hosts"][0])


def history(*changes):
    """Return a line for each change(line, its first GPU)."""
    lines = []
    for change in changes:
        one = copy.deepcopy(LINE)
        if change:
            change(one, one["gpus"][0])
        lines.append(one)
    return lines


def found(*changes):
    return [(one["rule"], (one["gpu"] or {}).get("index")) for one in trends(history(*changes))]


def gpu(**values):
    return lambda _line, its: its.update(values)


def check(severity):
    return lambda one, _gpu: one["checks"].update(nvlink=severity)


def boot(replays, its):
    return lambda one, gpu: (gpu.update(replays=replays), one.update(boot=its))


def without_first(one, _gpu):
    one["gpus"].pop(0)


CASES = {
    "more_errors uncorrected": ([gpu(ecc_uncorrected=1), None, gpu(ecc_uncorrected=3)], 0),
    "more_errors none": ([gpu(ecc_uncorrected=3), None, gpu(ecc_uncorrected=3)], None),
    "more_errors rows": ([gpu(remapped_rows=0), gpu(remapped_rows=1)], 0),
    "more_errors each time": ([gpu(replays=n) for n in (1, 5, 9, 12)], 0),
    "more_errors not each time": ([gpu(replays=n) for n in (1, 5, 5, 12)], None),
    "more_errors in one boot": ([boot(n, "x") for n in (1, 5, 9, 12)], 0),
    "more_errors not over a boot": ([boot(1, "x"), *(boot(n, "y") for n in (2, 5, 9))], None),
    "more_errors too few": ([gpu(replays=n) for n in (1, 5, 12)], None),
    "xid_again": ([gpu(xids={"79": 1}), gpu(xids={}), gpu(xids={"79": 1})], 0),
    "xid_again the same one": ([gpu(xids={"79": 1}), gpu(xids={"79": 1})], None),
    "xid_again more": ([gpu(xids={"79": 1}), gpu(xids={"79": 2})], 0),
    "xid_again after a boot": ([gpu(xids={"79": 3}), gpu(xids={"79": 1})], 0),
    "warmer": ([gpu(temperature_celsius=n) for n in (40, 41, 39, 61)], 0),
    "warmer by too little": ([gpu(temperature_celsius=n) for n in (40, 41, 39, 60)], None),
    "narrower": ([gpu(pcie="gen 1 of 5, x16"), gpu(pcie="gen 5 of 5, x8")], 0),
    "narrower never": ([gpu(pcie="gen 1 of 5, x16"), gpu(pcie="gen 5 of 5, x16")], None),
    "gone": ([None, without_first], 0),
    "gone before already": ([None, without_first, without_first], None),
    "comes_and_goes": ([check(s) for s in ("ok", "fail", "ok", "warn", "ok")], "node"),
    "comes_and_goes three times": ([check(s) for s in ("ok", "fail", "ok", "warn")], None),
}


@pytest.mark.parametrize("name", CASES)
def test_rule_finds_what_gets_worse_and_nothing_else(name):
    changes, index = CASES[name]
    assert found(*changes) == ([] if index is None else [(name.split()[0], None if index == "node" else index)])


def test_every_rule_has_a_case_and_every_remedy_is_known():
    assert {rule.__name__ for rule in RULES} == {
        name.split()[0] for name, (_changes, at) in CASES.items() if at is not None
    }
    remedies = {one["remediation"] for changes, _at in CASES.values() for one in trends(history(*changes))}
    assert remedies <= REMEDIES.keys()


def test_a_rise_is_told_by_the_hour():
    lines = history(*[gpu(ecc_corrected=n) for n in (1, 5, 9, 13)])
    for day, one in enumerate(lines):
        one["created"] = f"2026-11-0{day + 1}T03:00:00Z"
    assert [one["summary"] for one in trends(lines)] == [
        "corrected memory errors rise in each proof: 1, 5, 9, 13, 0.17 an hour"
    ]


def test_a_proof_that_did_not_happen_says_nothing():
    def away(one, _gpu):
        one.update(state="unreachable", gpus=[], rates={})

    assert found(None, away) == []
    assert found(away) == []
    assert found(away, None) == []
