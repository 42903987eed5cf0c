"""What an action makes of the answers, the silence and the refusals of a node; Ansible's own part is played."""

import os
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.action.long_step import ActionModule
from ansible_collections.gpulab.node.plugins.plugin_utils.progress import long_step
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.long_step import (
    LongStep,
    LongStepAction,
    ModuleError,
    StepOutcome,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

RUNNING = {"state": "running", "found": "started", "seconds": 1.0, "line": "x", "tail": [], "log": "/log", "rc": None}
FINISHED = {**RUNNING, "state": "finished", "rc": 0}
REFUSED = {"failed": True, "msg": "GPULAB-D002 ...", "refusal": {"code": "D002", "cause": "No.", "remedy": "Do."}}


class Connection:
    """A connection that can be reset, and counts it."""

    resets = 0

    def reset(self):
        """Reset."""
        self.resets += 1


class Played(LongStepAction):
    """An action whose modules answer in order, the last answer repeated; an exception is raised."""

    def __init__(self, *answers, work=None):
        """Take the answers, and what the action does."""
        self.answers, self.work = list(answers), work or (lambda action: {"outcome": action.run_step(STEP)})
        self._connection = Connection()
        self._task = type("Task", (), {"args": {}})

    def carry_out(self, _args):
        """Do the work."""
        return self.work(self)

    def report(self, _step, _seconds, _line):
        """Tell nobody."""

    def _execute_module(self, _name, **_others):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


STEP = LongStep("try", ["make"], timeout=60)


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.setattr(ActionBase, "run", lambda _self, _tmp, _task_vars: {})
    monkeypatch.setattr(long_step, "RECONNECT_PAUSE", 0)


def test_an_outcome_is_returned():
    outcome = Played({"step": RUNNING}, {"step": FINISHED}).run(None, {})["outcome"]
    assert (outcome.rc, outcome.found) == (0, "started")


@pytest.mark.parametrize(
    "break_off",
    [AnsibleConnectionFailure("broken pipe"), {"failed": True, "msg": "MODULE FAILURE", "module_stderr": "Killed\n"}],
    ids=["connection", "module"],
)
def test_a_poll_that_breaks_off_is_repeated_on_a_new_connection(break_off):
    played = Played({"step": RUNNING}, break_off, {"step": FINISHED})
    assert played.run(None, {})["outcome"].rc == 0
    assert played._connection.resets == 1  # noqa: SLF001 - Ansible's name for it


def test_a_connection_that_fails_at_the_start_makes_the_host_unreachable():
    with pytest.raises(AnsibleConnectionFailure):
        Played(AnsibleConnectionFailure("no route")).run(None, {})


def test_a_module_that_fails_at_the_start_fails_the_task_with_its_own_words():
    answer = {"failed": True, "msg": "no such argument"}
    assert Played(answer).run(None, {}) == answer


def test_a_refusal_of_the_node_is_the_tasks():
    result = Played(REFUSED).run(None, {})
    assert (result["failed"], result["refusal"]) == (True, REFUSED["refusal"])


def test_a_refusal_of_the_action_is_the_tasks():
    refusal = refuse("S001", name="x y")

    def work(_action):
        raise refusal

    result = Played({}, work=work).run(None, {})
    assert result == {
        "failed": True,
        "msg": str(refusal),
        "refusal": {"code": "S001", "cause": refusal.cause, "remedy": refusal.remedy},
    }


def test_a_worker_whose_ansible_is_gone_leaves_the_result_to_the_next_run(monkeypatch):
    played = Played({"step": RUNNING}, {"step": FINISHED})
    parents = iter([os.getppid(), os.getppid()])  # at the beginning, and for the start
    monkeypatch.setattr(long_step.os, "getppid", lambda: next(parents, -1))
    with pytest.raises(AnsibleError, match="ansible-playbook has ended"):
        played.run(None, {})
    assert played.answers == [{"step": FINISHED}]


def test_a_refusal_in_a_poll_is_not_waited_out():
    assert Played({"step": RUNNING}, REFUSED).run(None, {})["refusal"]["code"] == "D002"


def test_a_module_error_says_its_last_line():
    assert str(ModuleError({"module_stderr": "Traceback\nKilled\n"})) == "Killed"
    assert str(ModuleError({"failed": True})) == "no output"


class Users(ActionModule):
    """A task of a user's, of whose effect only the end of its command tells."""

    def __init__(self):
        """Have no steps yet."""
        self.steps = []
        self._task = SimpleNamespace(check_mode=False)

    def validate_argument_spec(self, _spec):
        """Return the arguments."""
        return None, {"name": "burn-in", "argv": ["gpu-burn"]} | {"environment": {}, "chdir": "/", "timeout": 60}

    def run_step(self, step, **_more):
        """End the step."""
        self.steps.append(step)
        return StepOutcome(0, 1.0, [], "/log", "picked_up")


def test_a_task_of_a_users_takes_the_result_that_a_killed_run_left():
    task = Users()
    assert task.carry_out({})["step"]["found"] == "picked_up"
    assert [step.pick_up for step in task.steps] == [True]
