"""The last trial of a node's software counts only where it may, and then the node is not asked."""

import pytest
from ansible.playbook.task import Task
from ansible.plugins.action.normal import ActionModule as NormalAction
from ansible_collections.gpulab.node.plugins.action import software_proof
from ansible_collections.gpulab.node.plugins.module_utils.receipts import trial

from unit import machines

ARGS = {"directory": "/opt/venvs", "toolkits": [], "container": True}
ASKED = {**ARGS, "conda_directory": None, "gpus": True, "compute_capabilities": []}
LAST = {"at": "2026-11-28T02:00:00+00:00", "asked": ASKED, "watched": "digest", "found": {"gpulab_environments": []}}
TRIED = {"changed": False, "ansible_facts": {"tried": True}}


def run(monkeypatch, last, **args):
    """Return the action's result and the arguments with which the node was asked, None where it was not."""
    asked = []

    def on_node(action, _tmp, _variables):
        asked.append(action._task.args)  # noqa: SLF001
        return TRIED

    monkeypatch.setattr(NormalAction, "run", on_node)
    task = Task.load({"action": "gpulab.node.software_proof", "args": {**ARGS, **args}})
    action = software_proof.ActionModule(task, None, None, None, None, None)
    facts = {"gpulab": machines.machine(), "gpulab_software_trial": last}
    return action.run(None, {"ansible_facts": facts}), asked[0] if asked else None


def test_a_trial_that_holds_is_the_result(monkeypatch):
    result, asked = run(monkeypatch, LAST, again=False)
    assert asked is None
    assert result["ansible_facts"] == {"gpulab_environments": [], "gpulab_software_tried": LAST["at"]}


@pytest.mark.parametrize(
    ("last", "args"),
    [
        (LAST, {"again": True}),
        (None, {"again": False}),
        (LAST, {"again": False, "directory": "/srv/venvs"}),
        ({**LAST, "asked": {}}, {"again": False}),
        ({**LAST, "found": {"gpulab": {}}}, {"again": False}),  # a node may say what it likes
    ],
)
def test_else_the_node_is_asked_and_keeps_the_trial(monkeypatch, last, args):
    result, asked = run(monkeypatch, last, **args)
    assert result == TRIED
    assert asked["facts"] == trial.of_facts(machines.machine())


def test_whoever_does_not_say_has_the_node_asked_and_nothing_kept(monkeypatch):
    assert run(monkeypatch, LAST) == (TRIED, ARGS)


@pytest.mark.parametrize(
    ("changes", "count"),
    [({}, 2), ({"simulated": "gpulab simulator 1"}, 0), ({"mig": {"enabled": True}}, 0)],
)
def test_gpus_count_where_a_framework_sees_all_of_them(changes, count):
    gpu = {"uuid": "GPU-1", "mig": changes.get("mig", {"enabled": False})}
    facts = {"simulated": False, **changes, "nvml": {"gpus": [gpu, gpu]}}
    assert software_proof._visible(facts) == count  # noqa: SLF001
