"""The last task of a role writes its receipt: what it worked from, what was noted, and what the task names."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from ansible.playbook.task import Task
from ansible.plugins.action.normal import ActionModule as NormalAction
from ansible_collections.gpulab.node.plugins.action import receipt as receipt_action
from ansible_collections.gpulab.node.plugins.module_utils.core import evidence
from ansible_collections.gpulab.node.plugins.module_utils.receipts import store
from ansible_collections.gpulab.node.plugins.modules import receipt

ROOT = Path(__file__).parents[3]
PLAN = {"cuda": {"toolkits": []}}
PARAMS = {"role": "base", "files": ["/etc/x"], "units": ["a.service"], "running": ["b.service"], "facts": ["system"]}


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "DIRECTORY", str(tmp_path / "receipts"))
    monkeypatch.setattr(evidence, "NOTES", tmp_path / "evidence.json")
    evidence.NOTES.write_text('["package:chrony"]', encoding="utf-8")
    return tmp_path / "receipts"


def record(*, check_mode=False, **params):
    given = {**PARAMS, "inputs": {"plan": "1"}, "plan": PLAN, "state": "present", **params}
    return receipt.record(SimpleNamespace(check_mode=check_mode, params=given))


def test_it_has_what_was_noted_and_what_the_task_names(directory):
    items = ["fact:system", "file:/etc/x", "package:chrony", "running:b.service", "unit:a.service"]
    assert record() == {"items": items}
    written = json.loads((directory / "base.json").read_text())
    inputs = {"plan": "1"}
    assert written == {"schema": 1, "inputs": inputs, "plan": PLAN, "sealed": False, "items": dict.fromkeys(items)}
    assert (directory / "base.json").stat().st_mode & 0o777 == 0o600
    assert evidence.take() == []


@pytest.mark.parametrize("given", [{"check_mode": True}, {"inputs": None}])
def test_nothing_is_written_in_check_mode_and_without_a_plan(directory, given):
    assert record(**given) == {}
    assert not directory.exists()


def test_a_role_that_is_removed_has_none_and_the_last_takes_the_directory_along(directory):
    record()
    record(role="cuda")
    record(state="absent")
    assert [path.name for path in directory.iterdir()] == ["cuda.json"]
    record(role="cuda", state="absent")
    assert not directory.exists()


def test_a_driver_that_gave_way_to_the_former_one_has_no_receipt():
    """Else the next proof seals it, and no run would have the driver to do any more."""
    tasks = yaml.safe_load((ROOT / "roles/nvidia_driver/tasks/finish.yml").read_text(encoding="utf-8"))
    (rescue,) = [task["rescue"] for task in tasks if "rescue" in task]
    names = [task.get("ansible.builtin.include_tasks") or ("gpulab.node.receipt" in task) for task in rescue]
    removing = rescue[names.index(True)]
    assert names.index("rollback.yml") < names.index(True)
    assert removing["gpulab.node.receipt"] == {"role": "nvidia_driver"}
    assert removing["vars"] == {"__removing": True}


def test_a_run_without_a_plan_removes_the_receipt_of_an_earlier_one(monkeypatch):
    """The quick playbook of a role knows no plan, and what it did is in no receipt."""
    monkeypatch.setattr(NormalAction, "run", lambda self, _tmp, _variables: dict(self._task.args))
    task = Task()
    task.args = {"role": "users"}
    found = receipt_action.ActionModule(task, None, None, None, None, None).run(None, {"ansible_facts": {"gpulab": {}}})
    assert found == {"role": "users", "state": "absent"}


def test_check_mode_does_not_ask_the_node(monkeypatch):
    monkeypatch.setattr(NormalAction, "run", None)
    task = Task()
    task.args, task.check_mode = {"role": "base"}, True
    assert receipt_action.ActionModule(task, None, None, None, None, None).run() == {"changed": False}
