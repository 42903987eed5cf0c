"""Whether the action asks the node right before the command that reboots it; the node is played."""

from datetime import datetime, timezone
from types import SimpleNamespace

import pytest
from ansible.plugins.action.reboot import ActionModule as Reboot
from ansible_collections.gpulab.node.plugins.action import idle_reboot

WHO = "ana, who is logged in (rsync)"


@pytest.fixture
def rebooted(monkeypatch):
    """Play the parent's reboot; return the messages of those that came to it."""
    messages = []

    def perform(action, _variables, _distribution):
        messages.append(action._task.args["msg"])  # noqa: SLF001
        return {"failed": False, "start": datetime.now(timezone.utc)}

    monkeypatch.setattr(Reboot, "perform_reboot", perform)
    return messages


def reboot(answer, **args):
    action = object.__new__(idle_reboot.ActionModule)
    action._task = SimpleNamespace(args={"reasons": "nouveau is loaded", **args})
    action.asked = []

    def execute(module_name, module_args, task_vars):  # noqa: ARG001 - as Ansible calls it
        action.asked.append((module_name, module_args))
        return answer

    action._execute_module = execute
    return action.perform_reboot({"inventory_hostname": "n1"}, "debian"), action.asked


def test_an_idle_node_reboots(rebooted):
    result, asked = reboot({"users": ""})
    assert (result["failed"], rebooted) == (False, ["gpulab: nouveau is loaded"])
    assert asked == [("gpulab.node.fence", {"work": "look", "host": "n1"})]


def test_who_came_after_the_last_look_is_named_and_goes_on(rebooted):
    result, _asked = reboot({"users": WHO})
    assert (result["failed"], result["rebooted"], rebooted) == (True, False, [])
    assert result["msg"].startswith(f"GPULAB-H030 n1 needs a reboot but is in use ({WHO}): nouveau is loaded")
    assert result["refusal"]["code"] == "H030"


@pytest.mark.parametrize("answer", [{"failed": True, "msg": "no"}, {"msg": "odd"}])
def test_a_node_that_does_not_say_is_not_rebooted(rebooted, answer):
    result, _asked = reboot(answer)
    assert (result["failed"], rebooted) == (True, [])


def test_the_operator_may_force_it(rebooted):
    _result, asked = reboot({"users": WHO}, force=True)
    assert (asked, len(rebooted)) == ([], 1)
