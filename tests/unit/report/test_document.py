"""The document keeps to its schema and says what happened to every host."""

import json
import weakref
from pathlib import Path

import jsonschema
import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.report import document, written

from unit import machines
from unit.checks import loaded, nodes
from unit.report import runs

SCHEMA = json.loads((Path(__file__).parents[3] / "docs/report.schema.json").read_text(encoding="utf-8"))


def host(report, name):
    return next(entry for entry in report["hosts"] if entry["name"] == name)


def test_document_keeps_to_its_schema():
    for report in (
        runs.mixed(),
        document.build({"node": runs.hostile()}, runs.CREATED),
        document.build({}, runs.CREATED),
    ):
        jsonschema.validate(json.loads(written.text(report)), SCHEMA)
    assert SCHEMA["properties"]["schema"]["const"] == document.SCHEMA


def test_schema_refuses_an_unknown_severity():
    report = runs.mixed()
    host(report, "good")["results"][0]["severity"] = "bad"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(written.text(report)), SCHEMA)


def test_hosts_without_results_fail_and_say_why():
    report = runs.mixed()
    assert host(report, "away")["state"] == "unreachable"
    assert host(report, "away")["detail"] == "Connection refused"
    assert host(report, "failed")["detail"].startswith("GPULAB-V002")
    assert "earlier in this run" in host(report, "early")["detail"]
    assert {host(report, name)["verdict"] for name in ("away", "early", "failed", "bad")} == {"fail"}
    assert host(report, "good")["verdict"] == "ok"
    assert report["verdict"] == "fail"


def test_inventory_names_what_is_there():
    report = runs.mixed()
    gpus = host(report, "bad")["gpus"]
    assert gpus[0]["last_xid"] == 79
    assert gpus[3]["model"] == "no answer: GPU_IS_LOST"
    assert gpus[1]["power_limit_watts"] == 700
    assert host(report, "lab")["gpus"][0]["pcie"] == "gen 1 of 4, x16"


def test_inventory_falls_back_to_the_pci_bus():
    report = document.build({"node": runs.faulty("no driver installed")}, runs.CREATED)
    assert [gpu["device"] for gpu in host(report, "node")["gpus"]] == ["10de:26b9"]


def test_the_history_of_no_more_than_two_hosts_is_in_memory_at_once():
    class Lines(list):
        """A list that can be watched."""

    seen = []

    def earlier(_name):
        lines = Lines()
        seen.append(weakref.ref(lines))
        assert sum(reference() is not None for reference in seen) <= 2
        return lines

    document.with_history(document.build(runs.fleet(10), runs.CREATED), earlier)
    assert len(seen) == 10


def test_the_same_finding_on_all_gpus_is_one():
    report = document.build({"node": runs.faulty("persistence mode off")}, runs.CREATED)
    (found,) = document.findings(host(report, "node")["results"])
    assert len(found["gpus"]) == 8


def interfaces():
    """Return a fast interface, and a slow one whose MTU does not matter."""
    slow = {**machines.INTERFACE, "name": "eno1", "speed_gbps": 1.0, "mtu": 1500}
    return machines.unshared([machines.INTERFACE, slow])


@pytest.mark.parametrize(
    ("check", "inject"),
    [
        ("fleet-driver", lambda facts: facts["driver"].update(library="580.95.05")),
        ("fleet-gpu-count", lambda facts: facts["pci"]["gpus"].pop()),
        ("fleet-vbios", lambda facts: [gpu.update(vbios="1") for gpu in facts["nvml"]["gpus"]]),
        ("fleet-mtu", lambda facts: facts["network"][0].update(mtu=1500)),
        ("fleet-temperature", lambda facts: [gpu["temperature"].update(gpu=60) for gpu in facts["nvml"]["gpus"]]),
    ],
)
def test_node_that_stands_out_is_named(check, inject):
    hosts = {name: runs.judged({**nodes.healthy("v100x4"), "network": interfaces()}) for name in "abcd"}
    inject(hosts["c"]["facts"])
    report = document.build(hosts, runs.CREATED)
    outliers = {
        entry["name"]: {result["id"] for result in entry["results"] if result["severity"] == "warn"}
        for entry in report["hosts"]
    }
    assert outliers == {"a": set(), "b": set(), "c": {check}, "d": set()}


def slower(test, key):
    """Return an injection that makes all GPUs of a node a quarter slower."""

    def inject(measurements):
        for gpu in measurements["gpus"]:
            gpu["tests"][test][key] *= 0.75

    return inject


def slower_pairs(measurements):
    """Make all copies between GPUs a quarter slower."""
    for pair in measurements["peer_copies"]["pairs"]:
        pair["gbs"] *= 0.75


@pytest.mark.parametrize(
    ("check", "inject"),
    [
        ("fleet-copy-rate", slower("copies", "to_device_gbs")),
        ("fleet-memory-bandwidth", slower("memory", "memory_gbs")),
        ("fleet-matmul-fp16", slower("matmul", "fp16_tflops")),
        ("fleet-peer-copies", slower_pairs),
        ("fleet-all-reduce", lambda measurements: measurements["all_reduce"].update(all_reduce_gbs=600)),
    ],
)
@pytest.mark.parametrize("simulated", [False, True])
def test_node_slower_than_the_median_is_named_where_rates_mean_something(check, inject, simulated):
    hosts = {name: runs.judged(loaded.measured("v100x4")) for name in "abcd"}
    for host in hosts.values():
        host["facts"]["measurements"].update(simulated="simulated V100", rates_declared=not simulated)
    inject(hosts["c"]["facts"]["measurements"])
    report = document.build(hosts, runs.CREATED)
    warned = {
        (entry["name"], r["id"]) for entry in report["hosts"] for r in entry["results"] if r["severity"] == "warn"
    }
    assert warned == (set() if simulated else {("c", check)})


def test_two_nodes_have_no_majority():
    hosts = {name: runs.judged(nodes.healthy("v100x4")) for name in "ab"}
    hosts["b"]["facts"]["driver"]["library"] = "580.95.05"
    assert document.build(hosts, runs.CREATED)["verdict"] == "ok"
