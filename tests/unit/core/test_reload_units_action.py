"""Whether systemd reads its units again: by what was written, and by who uses a GPU."""

from types import SimpleNamespace

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.action.reload_units import ActionModule

UNIT, FILE = "/etc/systemd/system/user-.slice.d/50-gpulab-slurm.conf", "/etc/slurm/slurm.conf"
JOB = {"kind": "slurm", "command": "step", "pid": 7, "user": "ada", "since": None, "service": False}
USED = {"state": "busy", "who": [JOB], "sessions": []}
UNKNOWN = {"state": "unknown", "who": [], "sessions": []}
IDLE = {"state": "idle", "who": [], "sessions": [{"user": "ada", "since": None}]}


class Played(ActionModule):
    """An action whose modules answer."""

    def __init__(self, args, *, check_mode=False, answer=None):
        """Take the arguments of the task, and what the module answers."""
        self._task = SimpleNamespace(args=args, check_mode=check_mode)
        self.ran, self._answer = [], answer or {"changed": True}

    def validate_argument_spec(self, argument_spec):
        """Return the arguments with their defaults."""
        defaults = {name: spec.get("default") for name, spec in argument_spec.items()}
        return None, {**defaults, **self._task.args}

    def _execute_module(self, name, module_args, task_vars):
        assert task_vars
        self.ran.append((name, module_args))
        return self._answer


@pytest.fixture(autouse=True)
def _no_action_base(monkeypatch):
    monkeypatch.setattr(ActionBase, "run", lambda *_args, **_more: {})


def run(users=IDLE, *, check_mode=False, answer=None, **args):
    action = Played(args, check_mode=check_mode, answer=answer)
    facts = {"gpulab": {"users_of_gpus": users}}
    result = action.run(None, {"ansible_facts": facts, "inventory_hostname": "node07"})
    assert bool(action.ran) == result["reloaded"] or answer
    return result


@pytest.mark.parametrize("args", [{}, {"paths": [FILE, UNIT]}, {"paths": ["/usr/local/lib/systemd/system/x.service"]}])
def test_units_are_read_where_nobody_uses_a_gpu(args):
    result = run(**args)
    assert (result["reloaded"], result["changed"], result["used_by"]) == (True, False, "")


@pytest.mark.parametrize("paths", [[], [FILE], ["/etc/systemd/journald.conf.d/x.conf"]])
def test_without_a_unit_nothing_is_read(paths):
    assert run(paths=paths)["reloaded"] is False
    assert "failed" not in run(USED, paths=paths, refusal="F061")


@pytest.mark.parametrize(("users", "who"), [(USED, "step (PID 7, user ada"), (UNKNOWN, "could not be inspected")])
def test_while_a_gpu_is_used_it_is_left(users, who):
    result = run(users, paths=[UNIT])
    assert (result["reloaded"], who in result["used_by"]) == (False, True)
    assert "failed" not in result
    assert run(users, paths=[UNIT], force=True)["reloaded"] is True


def test_a_role_that_needs_it_refuses_before_it_writes():
    result = run(USED, paths=[UNIT], refusal="F061", check_mode=True)
    assert (result["failed"], result["refusal"]["code"]) == (True, "F061")
    assert "node07" in result["refusal"]["cause"]
    assert "step (PID 7" in result["refusal"]["cause"]
    assert "failed" not in run(USED, paths=[UNIT], refusal="F061", force=True)
    idle = run(paths=[UNIT], refusal="F061")
    assert (idle["reloaded"], "failed" in idle) == (False, False)  # it only asks


def test_check_mode_reads_nothing():
    assert run(check_mode=True)["reloaded"] is False


def test_a_reload_that_fails_is_told():
    result = run(answer={"failed": True, "msg": "no bus"})
    assert (result["failed"], result["reloaded"]) == (True, False)
