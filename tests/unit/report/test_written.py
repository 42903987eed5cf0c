"""report.json says each thing once, stays small, and is read again, also one of an earlier gpulab."""

import json

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.history.lines import line
from ansible_collections.gpulab.node.plugins.plugin_utils.report import document, written

from unit.checks import nodes
from unit.report import runs

MOST_BYTES = 15_550  # of a node and night; what is not for this machine is told, too


def read(hosts):
    return json.loads(written.text(document.build(hosts, runs.CREATED)))


def of(report, host, check):
    (entry,) = (entry for entry in report["hosts"] if entry["name"] == host)
    return [result for result in entry["results"] if result["id"] == check]


@pytest.mark.parametrize("model", ["h100x8", "rtx4090x2"])
def test_a_node_takes_few_bytes_also_where_its_gpus_differ(model):
    facts = nodes.healthy(model)
    for number, gpu in enumerate(facts["nvml"]["gpus"]):
        gpu["temperature"]["gpu"] += number
    one, two = (
        written.text(document.build(dict.fromkeys(names, runs.judged(facts)), runs.CREATED)) for names in ("a", "ab")
    )
    assert len(two) - len(one) < MOST_BYTES


def test_results_that_are_the_same_but_for_their_gpu_are_one():
    facts = nodes.healthy("h100x8")
    facts["nvml"]["gpus"][3]["persistence"] = False
    fit, off = of(read({"a": runs.judged(facts)}), "a", "persistence")
    assert (fit["severity"], fit["gpus"]) == ("ok", [0, 1, 2, 4, 5, 6, 7])
    assert (off["severity"], off["gpus"], off["remediation"]) == ("warn", [3], "configure")
    assert "remediation" not in fit


def test_what_is_not_for_a_machine_is_said_once_for_each_reason():
    (host,) = read({"a": runs.judged(nodes.healthy("h100x8"))})["hosts"]
    reasons = [(entry["reason"], str(entry.get("gpus"))) for entry in host["not_for_this_machine"]]
    assert len(set(reasons)) == len(reasons)
    checks = {check for entry in host["not_for_this_machine"] for check in entry["checks"]}
    assert checks.isdisjoint(result["id"] for result in host["results"])


@pytest.mark.parametrize("schema", written.SCHEMAS)
def test_a_written_report_is_read_as_the_history_would_have_kept_it(schema):
    hosts = {
        "lost": runs.faulty("GPU lost", "XID 79"),
        "bus": runs.faulty("no driver installed"),
        "gone": runs.UNREACHABLE,
    }
    report = document.build(hosts, runs.CREATED)
    kept = {host["name"]: line(report, host) for host in report["hosts"]}
    text = written.text(report) if schema == document.SCHEMA else json.dumps({**report, "schema": schema})
    read_again = written.lines(json.loads(text))
    assert read_again == kept
