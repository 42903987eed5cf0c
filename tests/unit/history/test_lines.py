"""What is new and what is gone since the last proofs of the same hosts."""

import json
from pathlib import Path

import jsonschema
from ansible_collections.gpulab.node.plugins.plugin_utils.history.lines import line, since
from ansible_collections.gpulab.node.plugins.plugin_utils.report import document

from unit.checks import loaded, nodes
from unit.report import runs

SCHEMA = json.loads((Path(__file__).parents[3] / "docs/history.schema.json").read_text(encoding="utf-8"))
GOOD = runs.judged(nodes.healthy("h100x8"))


def lines(**hosts):
    report = document.build(hosts, runs.CREATED)
    return {host["name"]: line(report, host) for host in report["hosts"]}


def names(entries):
    return sorted({(entry["host"], entry["id"]) for entry in entries})


def past(*earlier):
    found = {}
    for one in earlier:
        for host, its in one.items():
            found.setdefault(host, []).append(its)
    return found


def test_a_line_keeps_to_its_schema():
    for host in (GOOD, runs.UNREACHABLE, runs.hostile(), runs.judged(loaded.measured("h100x8"))):
        jsonschema.validate(json.loads(json.dumps(lines(a=host)["a"])), SCHEMA)


def test_new_and_gone_findings_are_named():
    before = lines(a=runs.faulty("XID 79"), b=GOOD)
    changes = since(lines(a=runs.faulty("power limit lowered"), c=GOOD), past(before))
    assert names(changes["new"]) == [("a", "power-limit")]
    assert names(changes["gone"]) == [("a", "xids")]
    assert (changes["hosts_added"], changes["hosts_removed"]) == (["c"], ["b"])


def test_nothing_changes_between_equal_proofs():
    changes = since(
        lines(a=runs.faulty("XID 79"), b=runs.UNREACHABLE), past(lines(a=runs.faulty("XID 79"), b=runs.UNREACHABLE))
    )
    assert changes["new"] == changes["gone"] == []


def test_there_is_nothing_to_compare_with_at_first():
    assert since(lines(a=GOOD), {}) is None
    assert since(lines(a=GOOD), {"a": []}) is None


def test_a_finding_is_not_gone_where_nobody_looked():
    slow = {**runs.judged(nodes.healthy("h100x8"))}
    slow["results"] = [
        {**result, "severity": "fail"} if result["id"] == "memory-bandwidth" else result for result in slow["results"]
    ]
    quick = since(lines(a=GOOD), past(lines(a=slow)))
    assert quick["gone"] == []
    again = since(lines(a=slow), past(lines(a=slow), lines(a=GOOD)))  # the standard proof, a quick one, a standard one
    assert again["new"] == []
    away = since(lines(a=runs.UNREACHABLE), past(lines(a=slow)))
    assert (names(away["new"]), away["gone"]) == ([("a", "not-judged")], [])


def test_a_finding_is_gone_where_the_check_looked_and_found_nothing():
    measured = runs.judged(loaded.measured("h100x8"))
    slow = {**measured, "results": [dict(result) for result in measured["results"]]}
    for result in slow["results"]:
        result["severity"] = "fail" if result["id"] == "memory-bandwidth" else result["severity"]
    changes = since(lines(a=measured), past(lines(a=slow), lines(a=GOOD)))
    assert names(changes["gone"]) == [("a", "memory-bandwidth")]


def test_a_host_that_answers_again_is_told():
    changes = since(lines(a=GOOD), past(lines(a=runs.UNREACHABLE)))
    assert names(changes["gone"]) == [("a", "not-judged")]
