"""Copies between simulated GPUs, from the driver's call to the check's finding."""

import time

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.active.peer_copies import MOST_PAIRS, order
from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import verify

from unit.checks import nodes

RATES = "rates_declared = 1"


def pairs(measured):
    """Return the records by (from, to)."""
    return {(pair["from"], pair["to"]): pair for pair in measured["peer_copies"]["pairs"]}


def found(measured, model):
    """Return the answers of the check on a healthy node of the model that measured this."""
    facts = {**nodes.healthy(model), "measurements": measured}
    return [r for r in verify(nodes.node(facts, level="standard")) if r.id == "peer-copies"]


def findings(measured, model):
    """Return (severity, remedy, summary) of what is not well."""
    return [(r.severity, r.remediation, r.summary) for r in found(measured, model) if r.severity != "ok"]


def test_each_gpu_copies_to_its_neighbours_first():
    gpus = [{"index": n} for n in range(16)]
    pairs = [(one["index"], other["index"]) for one, other in order(gpus)]
    assert len(set(pairs)) == len(pairs) == MOST_PAIRS
    assert pairs[:3] == [(0, 1), (1, 2), (2, 3)]
    assert {one for one, _other in pairs[:16]} == {other for _one, other in pairs[:16]} == set(range(16))
    assert len(order(gpus[:8])) == 8 * 7
    assert all(one != other for one, other in pairs)


def test_every_pair_of_eight_gpus_is_copied_between(measure):
    measured = measure("h100-sxm-8", RATES)
    assert len(pairs(measured)) == 56
    assert pairs(measured)[0, 7] == {
        "from": 0,
        "to": 7,
        "state": "done",
        "straight": True,
        "gbs": 370.0,
        "mib": 2,
        "wrong_mib": 0,
    }
    (answer,) = found(measured, "h100x8")
    assert answer.severity == "ok"
    assert answer.summary == "copies between 56 of 56 pairs arrive as sent, 370 to 370 GB/s between 56 pairs"


def test_gpus_that_do_not_reach_each_other_copy_through_the_host(measure):
    measured = measure("rtx4090-2", RATES)
    assert [(pair["straight"], pair["gbs"]) for pair in pairs(measured).values()] == [(False, 25.0), (False, 25.0)]
    (answer,) = found(measured, "rtx4090x2")
    assert answer.summary == "copies between 2 of 2 pairs arrive as sent, 2 of them through the host"


def test_rate_of_a_copy_through_the_host_is_not_judged(measure):
    slow = measure("rtx4090-2", f"{RATES}\ngpu.0.copy_to_host_gbs = 1")
    assert pairs(slow)[0, 1]["gbs"] == 1.0
    assert findings(slow, "rtx4090x2") == []


@pytest.mark.parametrize("wrong", ["byte", "nothing"])
def test_pair_that_claims_to_reach_and_delivers_other_data_fails(measure, wrong):
    measured = measure("a100-pcie-2", f"gpu.1.peer_wrong.0 = {wrong}")
    summary = "GPU 1 to GPU 0: PCI Express corrupts data"
    assert findings(measured, "a100-pcie-x2") == [("fail", "clear_peer_path", summary)]
    (bad,) = [r for r in found(measured, "a100-pcie-x2") if r.severity == "fail"]
    assert "ACS" in bad.reason


def test_what_an_earlier_copy_left_does_not_pass(measure):
    measured = measure("h100-sxm-8", "gpu.2.peer_wrong.0 = nothing")  # six others have copied to GPU 0 before or after
    assert {ends for ends, pair in pairs(measured).items() if pair["wrong_mib"]} == {(2, 0)}
    assert pairs(measured)[2, 0]["wrong_mib"] == 2


def test_slow_pair_is_told_from_its_siblings_and_by_the_floor(measure):
    settings = f"{RATES}\ngpu.3.peer_gbs.5 = 100\ngpu.5.peer_gbs.3 = 240"
    measured = measure("h100-sxm-8", settings)
    assert findings(measured, "h100x8") == [
        ("fail", "contact_support", "GPU 3 to GPU 5, GPU 5 to GPU 3: NVLink carries less than 251 GB/s")
    ]
    measured = measure("a100-pcie-2", f"{RATES}\ngpu.0.peer_gbs.1 = 5")
    (finding,) = findings(measured, "a100-pcie-x2")
    assert finding[:2] == ("warn", "check_seating")


def test_simulated_rates_are_not_judged_unless_they_are_meant(measure):
    assert findings(measure("h100-sxm-8", "gpu.3.peer_gbs.5 = 100"), "h100x8") == []


def test_pair_that_fails_is_named_and_the_others_go_on(measure):
    measured = measure("h100-sxm-8", "gpu.4.peer_copy.6 = 719")
    states = {ends: pair["state"] for ends, pair in pairs(measured).items()}
    assert len(states) == 56
    assert {ends for ends, state in states.items() if state != "done"} == {(4, 6)}
    assert findings(measured, "h100x8") == [
        (
            "fail",
            "contact_support",
            "GPU 4 to GPU 6: a copy failed: cuMemcpyPeerAsync: CUDA_ERROR_LAUNCH_FAILED (719)",
        )
    ]


def test_pair_that_hangs_is_named_and_its_gpus_are_left_alone(measure):
    begin = time.monotonic()
    measured = measure("h100-sxm-8", "gpu.4.peer_copy.6 = HANG", seconds=3.0)
    assert time.monotonic() - begin < 30
    states = {ends: pair["state"] for ends, pair in pairs(measured).items()}
    assert states[4, 6] == "late"
    after = {ends: state for ends, state in states.items() if (ends[1] - ends[0]) % 8 > 2}
    assert {state for ends, state in after.items() if {4, 6} & set(ends)} == {"skipped"}
    assert {state for ends, state in after.items() if not {4, 6} & set(ends)} == {"done"}
    severities = {severity: summary for severity, _remedy, summary in findings(measured, "h100x8")}
    assert set(severities) == {"fail", "unknown"}
    assert severities["fail"].startswith("GPU 4 to GPU 6: a copy does not end")


def test_refused_peer_access_is_a_failure(measure):
    measured = measure("a100-pcie-2", "gpu.0.cuda.cuCtxEnablePeerAccess = 217")
    assert [(severity, remedy) for severity, remedy, _summary in findings(measured, "a100-pcie-x2")] == [
        ("fail", "reboot")
    ]


def test_copies_take_two_gpus_that_work(measure):
    assert measure("t4")["peer_copies"] == {"state": "skipped", "reason": "needs two GPUs", "applies": False}
    broken = measure("a100-pcie-2", "gpu.1.cuda_wrong_results = 1")
    assert broken["peer_copies"]["state"] == "skipped"
