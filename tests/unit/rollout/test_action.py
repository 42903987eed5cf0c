"""What the action plugin decides from what was read of the nodes, and what it keeps on the controller."""

from __future__ import annotations

import pytest
from ansible_collections.gpulab.node.plugins.action.verify import told
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse
from ansible_collections.gpulab.node.plugins.plugin_utils.rollout import state

from unit.rollout.fleet import Fleet

FENCE = {
    "run": "R0",
    "since": "2026-11-26T21:00:00Z",
    "by": "wei on desk",
    "reason": "fan",
    "until": None,
    "engine": "none",
    "held": False,
    "before": {},
    "overdue": False,
}
FINDINGS = [
    {"id": "gpu-count", "gpu": None, "summary": "2 GPUs on the PCI bus, 3 declared", "remediation": "check_seating"},
    {"id": "ecc-uncorrected", "gpu": {"bus_id": "0000:3b:00.0"}, "summary": "3 errors", "remediation": "reset_gpu"},
]
PROOF = told(
    refuse("V001", host="n1", findings="2 findings", level="fail"),
    [{**one, "severity": "fail", "reason": ""} for one in FINDINGS],
)


@pytest.fixture
def fleet(tmp_path):
    return Fleet(tmp_path / "rollouts", "n1", "n2", "n3")


def test_check_mode_decides_the_order_and_writes_nothing(fleet):
    fleet.check = True
    assert fleet.order()["order"] == ["n1", "n2", "n3"]
    assert not fleet.directory.exists()


def test_a_canary_that_fails_stops_the_others_and_comes_first_in_the_next_run(fleet):
    first = fleet.order()
    assert fleet.work("turn", file=fleet.file)["go"]
    fleet.work("note", file=fleet.file, state="changing")
    assert fleet.work("fail", file=fleet.file, result={"msg": PROOF})["state"] == state.FAILED
    assert fleet.hosts()["n1"].refusal == state.Refused(
        code="V001",
        cause=(
            "the proof failed: gpu-count: 2 GPUs on the PCI bus, 3 declared;"
            " ecc-uncorrected [GPU 0000:3b:00.0]: 3 errors"
        ),
        remedy="Each finding below has its own remedy.",
    )
    turn = fleet.work("turn", "n2", file=fleet.file)
    assert (turn["go"], turn["why"]["code"]) == (False, "F005")
    assert fleet.hosts()["n2"].state == state.WAITING
    report = fleet.work("report", file=fleet.file)
    assert {name: refusal["code"] for name, refusal in report["refusals"].items()} == {"n1": "V001", "n2": "F005"}

    fleet.known["n1"] = fleet.node(due=(), fence={**FENCE, "run": first["run"]})
    again = fleet.order()
    assert (again["run"], again["order"]) == (first["run"], ["n1", "n2", "n3"])
    for name in again["order"]:
        assert fleet.work("turn", name, file=fleet.file)["go"]
        fleet.work("note", name, file=fleet.file, state="done")
    assert fleet.work("report", file=fleet.file)["refusals"] == {}
    assert {entry.state for entry in fleet.hosts().values()} == {state.DONE}


def test_a_new_wish_makes_nodes_that_were_done_wait_and_needs_a_canary_again(fleet):
    """NVSentinel#1280: a restart acted on what it had recorded before, and rebooted nodes with jobs."""
    fleet.order()
    fleet.work("turn", file=fleet.file)
    fleet.work("note", file=fleet.file, state="done")
    fleet.known["n1"] = fleet.node(due=())
    assert fleet.order()["order"] == ["n2", "n3"]
    assert fleet.work("turn", "n2", file=fleet.file)["go"]
    fleet.known["n1"] = fleet.node(due=("base",))
    assert fleet.order()["order"] == ["n1", "n2", "n3"]
    assert fleet.work("turn", "n2", file=fleet.file)["why"]["code"] == "F011"


def test_a_node_in_use_is_as_it_was_and_is_no_canary(fleet):
    fleet.order()
    fleet.work("turn", file=fleet.file)
    busy = {"refusal": {"code": "F006", "cause": "n1 was still in use", "remedy": "Wait."}}
    assert fleet.work("fail", file=fleet.file, result=busy)["state"] == state.BUSY
    assert fleet.work("turn", "n2", file=fleet.file)["why"]["code"] == "F011"


def test_a_node_that_waits_for_its_console_is_back_and_stops_no_other(fleet):
    """Its change has begun, but the driver, which the key is for, is as it was."""
    fleet.order()
    for name, reached in (("n1", state.DONE), ("n2", state.CHANGING)):
        fleet.work("turn", name, file=fleet.file)
        fleet.work("note", name, file=fleet.file, state=reached)
    console = {"refusal": {"code": "P047", "cause": "its key waits at the console", "remedy": "Reboot."}}
    assert fleet.work("fail", "n2", file=fleet.file, result=console)["state"] == state.CONSOLE
    assert fleet.work("turn", "n3", file=fleet.file)["go"]
    fleet.work("note", "n3", file=fleet.file, state="done")
    report = fleet.work("report", file=fleet.file)
    assert {name: refusal["code"] for name, refusal in report["refusals"].items()} == {"n2": "P047"}
    assert any("n2: waits for its console" in line for line in report["lines"])


def test_a_refusal_before_the_change_leaves_the_node_as_it_was_but_not_one_whose_change_had_begun(fleet):
    run = fleet.order()["run"]
    refused = {"refusal": {"code": "P001", "cause": "no plan", "remedy": "Make one."}}
    fleet.work("turn", file=fleet.file)
    assert fleet.work("fail", file=fleet.file, result=refused)["state"] == state.REFUSED
    fleet.order()
    fleet.work("turn", file=fleet.file)
    fleet.work("note", file=fleet.file, state="changing")
    fleet.known["n1"] = fleet.node(fence={**FENCE, "run": run})
    for _twice in range(2):
        fleet.order()
    fleet.work("turn", file=fleet.file)
    assert fleet.work("fail", file=fleet.file, result=refused)["state"] == state.FAILED


def test_a_node_that_others_fenced_or_that_is_refused_is_left_out_and_counts(fleet):
    fleet.known["n1"] = fleet.node(fence=FENCE)
    found = fleet.order()
    assert found["order"] == ["n2", "n3"]
    assert fleet.hosts()["n1"].refusal.code == "F007"
    gone = {"refusal": {"code": "H001", "cause": "n2 is unreachable", "remedy": "Check it."}}
    fleet.known["n2"] = {"ansible_facts": {}, "__rollout_refused": gone}
    assert fleet.order()["refusal"]["code"] == "F003"


def test_a_freeze_that_begins_in_the_middle_stops_the_nodes_to_come(fleet, tmp_path):
    fleet.order(freeze_file=str(tmp_path / "freeze"))
    fleet.work("turn", file=fleet.file, freeze_file=str(tmp_path / "freeze"))
    fleet.work("note", file=fleet.file, state="done")
    (tmp_path / "freeze").write_text("paper deadline\n")
    turn = fleet.work("turn", "n2", file=fleet.file, freeze_file=str(tmp_path / "freeze"))
    assert (turn["go"], turn["why"]["code"]) == (False, "F001")
    assert "paper deadline" in turn["why"]["cause"]
    assert fleet.hosts()["n1"].state == state.DONE
    assert fleet.order(freeze_file=str(tmp_path / "freeze"))["refusal"]["code"] == "F001"


def test_a_node_that_was_lost_when_the_controller_died_comes_first(fleet):
    run = fleet.order()["run"]
    fleet.work("turn", file=fleet.file)
    fleet.work("note", file=fleet.file, state="changing")
    fleet.known["n1"] = fleet.node(fence={**FENCE, "run": run})
    found = fleet.order(canary=["n3"])
    assert found["order"] == ["n1", "n3", "n2"]
    assert found["run"] == run
