"""The action of gpu_facts asks the node for what the inventory sets, so that the plan can refuse it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleError
from ansible_collections.gpulab.node.plugins.action import gpu_facts as action


def names(given, template=lambda value: value):
    made = action.ActionModule.__new__(action.ActionModule)
    made._templar = SimpleNamespace(template=template)  # noqa: SLF001
    return made._kernel_values({"tuning_overrides": given} if given is not None else {})  # noqa: SLF001


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"vm.swappiness": 10, "nofile": None}, ["vm.swappiness", "nofile"]),
        ({}, []),
        (None, []),
        ("vm.swappiness", []),
        ({1: 2}, []),
    ],
)
def test_the_names_of_the_inventory_are_asked_for(given, found):
    assert names(given) == found


def test_a_template_that_fails_is_for_the_plan_to_tell():
    def fails(_value):
        raise AnsibleError

    assert names("{{ x }}", fails) == []


@pytest.mark.parametrize("check_mode", [True, False])
def test_what_is_asked_reaches_the_module(monkeypatch, check_mode):
    """The module gets the names with each of its tasks, facts that a node has for them, and in check mode files."""
    given = {}

    def run(self, _tmp, _variables):
        given.update(self._task.args)
        return {"ansible_facts": {}}

    monkeypatch.setattr(action.NormalAction, "run", run)
    made = action.ActionModule.__new__(action.ActionModule)
    made._templar = SimpleNamespace(template=lambda value: value)  # noqa: SLF001
    made._task = SimpleNamespace(args={"work": "look"}, check_mode=check_mode)  # noqa: SLF001
    made._connection = SimpleNamespace(is_pipelining_enabled=lambda _async: False)  # noqa: SLF001
    made.run(None, {"tuning_overrides": {"vm.swappiness": 10}, "inventory_hostname": "node1"})
    assert given["kernel_values"] == ["vm.swappiness"]
    assert given["work"] == "look"
    assert ("/etc/nccl.conf" in given["own_paths"]) == check_mode
