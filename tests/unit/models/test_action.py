"""What the controller does while a store is filled."""

import os
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleError
from ansible_collections.gpulab.node.plugins.action import model_store


@pytest.mark.parametrize("is_orphan", [False, True])
def test_a_worker_whose_run_was_killed_fetches_no_further(is_orphan):
    asked = []

    def answers(_module, args):
        asked.append(args.get("operation", "look"))
        return {"changed": True, "coming": [], "line": None if asked.count("take") > 1 else "file 1 of 2"}

    action = object.__new__(model_store.ActionModule)
    action.call_module, action.report, action._task = answers, lambda *_: None, SimpleNamespace(check_mode=False)
    action._controller = -1 if is_orphan else os.getppid()
    if is_orphan:
        with pytest.raises(AnsibleError):
            action.carry_out({})
    else:
        action.carry_out({})
    assert asked == (["look"] if is_orphan else ["look", "take", "take"])
