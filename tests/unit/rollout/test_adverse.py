"""A rollout in adverse conditions, simulated: what is lost, what is said, and how the next run goes on."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.fence import login
from ansible_collections.gpulab.node.plugins.plugin_utils.rollout import state

from unit.rollout.simulated import Controller, FailedError, Killed, Lab

TASKS = 26  # of a run over two nodes; test_a_run_that_nobody_disturbs says so where it changes
DRAIN, WAIT = "Take the node out of service, or bring it back", "Wait until nobody uses the node"
APPLY, RESUME = "Apply what is due", "Bring the node back into service"


@pytest.fixture(params=[False, True], ids=["none", "slurm"])
def lab(request, tmp_path, monkeypatch):
    return Lab(tmp_path / "nodes", monkeypatch, "n1", "n2", slurm=request.param)


def in_service(lab):
    return all(node.open and node.fence is None for node in lab.nodes.values())


def changed_once_at_least_and_proven(lab):
    return all(node.changes and node.proven for node in lab.nodes.values())


def nothing_is_lost(lab):
    """Say of nodes that a dead controller left: one that is changed and not proven is not in service."""
    begun = [node for node in lab.nodes.values() if node.changes and not node.proven]
    return all(node.fence is not None and node.closed for node in begun)


def died(controller):
    """Let the process of a controller be gone, as the record sees it."""
    path = controller.directory / controller.run["run"] / state.FILE
    document = json.loads(path.read_text())
    document["holder"]["started"] -= 1
    path.write_text(json.dumps(document))


def test_a_run_that_nobody_disturbs(lab, tmp_path):
    controller = Controller(lab, tmp_path / "rollouts")
    assert controller.roll() == {}
    assert controller.tasks == TASKS
    assert in_service(lab)
    assert changed_once_at_least_and_proven(lab)


def test_each_state_of_a_node_is_one_in_which_the_controller_is_killed_below(tmp_path, monkeypatch):
    found = set()
    for number in range(1, TASKS + 1):
        nodes = Lab(tmp_path / str(number), monkeypatch, "n1", "n2")
        controller = Controller(nodes, tmp_path / f"rollouts{number}", dies_at=number)
        with pytest.raises(Killed):
            controller.roll()
        found |= set(controller.states().values())
    assert found == {state.WAITING, *state.ON_THE_WAY, state.DONE}


@pytest.mark.parametrize("number", range(1, TASKS + 1))
def test_the_controller_is_killed_before_any_task(lab, tmp_path, number):
    first = Controller(lab, tmp_path / "rollouts", dies_at=number)
    with pytest.raises(Killed):
        first.roll()
    died(first)
    assert nothing_is_lost(lab)
    assert not any(node.changes for node in list(lab.nodes.values())[1:] if not lab.nodes["n1"].proven)
    second = Controller(lab, tmp_path / "rollouts")
    assert second.roll() == {}
    assert second.run["run"] == first.run["run"]
    assert in_service(lab)
    assert changed_once_at_least_and_proven(lab)
    assert set(second.states().values()) <= {state.DONE, state.CURRENT}


def test_the_controller_is_killed_between_the_record_of_a_fence_and_the_login(lab, tmp_path, monkeypatch):
    write = login.write

    def killed(*_arguments):
        monkeypatch.setattr(login, "write", write)
        raise Killed

    monkeypatch.setattr(login, "write", killed)
    first = Controller(lab, tmp_path / "rollouts")
    with pytest.raises(Killed):
        first.roll()
    died(first)
    assert lab.nodes["n1"].fence is not None
    assert Controller(lab, tmp_path / "rollouts").roll() == {}
    assert in_service(lab)


def test_a_node_that_another_controller_has_is_left_to_it(lab, tmp_path):
    first, second = Controller(lab, tmp_path / "desk"), Controller(lab, tmp_path / "laptop")
    refused = []
    first.before["n1", APPLY] = lambda: refused.append(second.roll())
    assert first.roll() == {}
    assert refused == [{"n1": "F007"}]
    assert second.states() == {"n1": state.REFUSED, "n2": state.DONE}
    assert [name for name, _task in second.seen if name == "n1"] == []
    assert (first.states()["n1"], lab.nodes["n1"].changes) == (state.DONE, 1)
    assert in_service(lab)


def test_of_two_controllers_that_begin_with_the_same_node_the_later_one_is_refused_and_lifts_nothing(lab, tmp_path):
    first, second = Controller(lab, tmp_path / "desk"), Controller(lab, tmp_path / "laptop")
    first.order()

    def overtaken():
        with pytest.raises(Killed):
            second.roll()

    second.dies_at = 8
    first.before["n1", DRAIN] = overtaken
    assert first.roll() == {"n1": "F007", "n2": "F005"}
    assert lab.nodes["n1"].fence["run"] == second.run["run"]
    assert not lab.nodes["n1"].open
    assert lab.nodes["n1"].changes == lab.nodes["n2"].changes == 0


def test_a_freeze_that_begins_in_the_middle_lets_the_node_in_hand_come_back_and_no_other_begin(lab, tmp_path):
    freeze = tmp_path / "freeze"
    first = Controller(lab, tmp_path / "rollouts", freeze=freeze)
    first.before["n1", APPLY] = lambda: freeze.write_text("paper deadline\n")
    assert first.roll() == {"n2": "F001"}
    assert first.states() == {"n1": state.DONE, "n2": state.WAITING}
    assert in_service(lab)
    with pytest.raises(FailedError, match=r"F001.*paper deadline"):
        Controller(lab, tmp_path / "rollouts", freeze=freeze).roll()
    freeze.unlink()
    assert Controller(lab, tmp_path / "rollouts", freeze=freeze).roll() == {}
    assert changed_once_at_least_and_proven(lab)


def test_a_user_who_never_ends_keeps_the_node_and_the_others_go_on(lab, tmp_path):
    lab.nodes["n2"].person = True
    first = Controller(lab, tmp_path / "rollouts")
    assert first.roll() == {"n2": "F006"}
    assert (first.states()["n2"], lab.nodes["n2"].changes) == (state.BUSY, 0)
    assert in_service(lab)
    lab.nodes["n2"].person = False
    assert Controller(lab, tmp_path / "rollouts").roll() == {}
    assert changed_once_at_least_and_proven(lab)


def test_a_node_whose_key_waits_at_the_console_comes_back_and_the_others_go_on(lab, tmp_path):
    lab.nodes["n2"].key = "wanted"
    for ends in (state.CONSOLE, state.REFUSED):  # the next run finds the request
        controller = Controller(lab, tmp_path / "rollouts")
        assert controller.roll() == {"n2": "P047"}
        assert (controller.states()["n2"], lab.nodes["n2"].changes) == (ends, 0)
        assert in_service(lab)
    assert controller.states()["n1"] == state.DONE
    lab.nodes["n2"].key = None
    assert Controller(lab, tmp_path / "rollouts").roll() == {}
    assert changed_once_at_least_and_proven(lab)


def test_a_user_who_never_ends_gets_the_node_back_also_after_the_controller_was_killed_while_it_waited(lab, tmp_path):
    lab.nodes["n2"].person = True
    first = Controller(lab, tmp_path / "rollouts")
    first.before["n2", WAIT] = lambda: setattr(first, "dies_at", first.tasks + 1)
    with pytest.raises(Killed):
        first.roll()
    died(first)
    assert not lab.nodes["n2"].open
    second = Controller(lab, tmp_path / "rollouts")
    assert second.roll() == {"n2": "F006"}
    assert (second.states()["n2"], lab.nodes["n2"].changes) == (state.BUSY, 0)
    assert in_service(lab)


def test_a_node_whose_change_had_begun_stays_fenced_while_somebody_uses_it(lab, tmp_path):
    first = Controller(lab, tmp_path / "rollouts")
    first.before["n1", APPLY] = lambda: setattr(first, "dies_at", first.tasks + 1)
    with pytest.raises(Killed):
        first.roll()
    lab.nodes["n1"].person = True
    for _run in range(2):
        died(first)
        again = Controller(lab, tmp_path / "rollouts")
        assert again.roll() == {"n1": "F006", "n2": "F005"}
        assert again.states()["n1"] == state.FAILED
        assert not lab.nodes["n1"].open
    lab.nodes["n1"].person = False
    assert Controller(lab, tmp_path / "rollouts").roll() == {}
    assert in_service(lab)


@pytest.mark.parametrize("task", [DRAIN, WAIT, APPLY, "Prove the node", RESUME])
def test_a_node_that_dies_stops_the_rollout_and_comes_first_when_it_is_back(lab, tmp_path, task):
    node = lab.nodes["n1"]
    first = Controller(lab, tmp_path / "rollouts")
    first.before["n1", task] = lambda: setattr(node, "dead", True)
    assert first.roll() == {}
    assert first.states()["n1"] in state.ON_THE_WAY
    assert (first.states()["n2"], lab.nodes["n2"].changes) == (state.WAITING, 0)
    died(first)
    node.dead = False
    second = Controller(lab, tmp_path / "rollouts")
    assert second.roll() == {}
    assert second.run["order"][0] == "n1"
    assert in_service(lab)
    assert changed_once_at_least_and_proven(lab)


def test_a_node_that_stays_dead_counts_as_out_of_service(tmp_path, monkeypatch):
    lab = Lab(tmp_path / "nodes", monkeypatch, "n1", "n2", "n3")
    first = Controller(lab, tmp_path / "rollouts")
    first.before["n1", APPLY] = lambda: setattr(lab.nodes["n1"], "dead", True)
    first.roll()
    died(first)
    second = Controller(lab, tmp_path / "rollouts")
    assert second.roll() == {"n1": "H001"}
    assert second.states() == {"n1": state.CHANGING, "n2": state.DONE, "n3": state.DONE}
    lab.nodes["n2"].dead = True
    with pytest.raises(FailedError, match="F003"):
        _with_a_change(lab, "n3", Controller(lab, tmp_path / "rollouts")).roll()


def _with_a_change(lab, name, controller):
    lab.nodes[name].changes = 0
    return controller


def test_a_proof_that_fails_keeps_the_node_fenced_until_it_is_mended(lab, tmp_path):
    lab.nodes["n1"].broken = True
    first = Controller(lab, tmp_path / "rollouts")
    assert first.roll() == {"n1": "V001", "n2": "F005"}
    assert lab.nodes["n1"].fence["held"]
    assert not lab.nodes["n1"].open
    lab.nodes["n1"].broken = False
    assert Controller(lab, tmp_path / "rollouts").roll() == {}
    assert in_service(lab)
