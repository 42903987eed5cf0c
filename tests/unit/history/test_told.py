"""What playbooks/history.yml says of a host."""

import copy
from datetime import datetime, timedelta, timezone

from ansible_collections.gpulab.node.plugins.plugin_utils.history.told import of, told

from unit.history.test_trends import LINE

NOW = datetime(2026, 11, 26, 3, 0, 0, tzinfo=timezone.utc)


def proof(days_ago, **values):
    created = f"{NOW - timedelta(days=days_ago):%Y-%m-%dT%H:%M:%SZ}"
    return {**copy.deepcopy(LINE), "created": created, **values}


def said(*lines, days=90):
    known = of("a", lines, NOW, days)
    return known, list(told(known, lines[-known["proofs"] :]))


def test_host_without_history_was_never_proven():
    assert said()[1] == ["a  never proven"]


def test_new_and_gone_findings_are_told_from_the_proofs_before():
    found = {"id": "xids", "severity": "fail", "summary": "XID 79", "gpu": {"index": 3, "uuid": "x", "bus_id": "y"}}
    bad = {"findings": [found], "checks": {**LINE["checks"], "xids": "fail"}}
    assert "  new   xids [GPU 3]: XID 79" in said(proof(2), proof(1, **bad))[1]
    assert "  gone  xids [GPU 3]: XID 79" in said(proof(2, **bad), proof(1))[1]


def test_only_the_days_asked_for_count():
    old = proof(40, findings=[{"id": "xids", "severity": "fail", "summary": "XID 79", "gpu": None}])
    old["checks"]["xids"] = "fail"
    known, lines = said(old, proof(20), proof(1), days=30)
    assert (known["proofs"], known["gone"]) == (2, [])
    assert "2 proofs" in lines[0]


def test_host_that_was_not_proven_for_a_week_is_named():
    assert "not proven for 7 days" in said(proof(7))[1][0]
    assert "not proven" not in said(proof(6.9))[1][0]
    assert "not proven for 100 days" in said(proof(100))[1][0]


def test_what_each_gpu_showed_is_a_range():
    earlier, last = proof(2), proof(1)
    earlier["gpus"][0].update(temperature_celsius=30, xids={"79": 1})
    last["gpus"][0].update(temperature_celsius=44)
    last["gpus"][0]["rates"]["memory_gbs"] = 2000.0
    _known, lines = said(earlier, last)
    (line,) = (line for line in lines if line.startswith("  GPU 0"))
    assert "30 to 44 °C, 0 memory errors, XIDs 79," in line
    assert f"memory_gbs 2000 to {LINE['gpus'][0]['rates']['memory_gbs']:g}" in line


def test_a_trend_and_a_simulation_are_named():
    earlier, last = proof(2), proof(1, simulated="simulated GPU")
    last["gpus"][0]["ecc_uncorrected"] = 2
    lines = said(earlier, last)[1]
    assert lines[0].endswith("SIMULATED")
    assert "  worse [GPU 0] 2 more uncorrected memory errors in 2 proofs -> reset_gpu" in lines
