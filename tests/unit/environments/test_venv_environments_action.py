"""What the action does with what the node answers; the node is played."""

import pytest
from ansible_collections.gpulab.node.plugins.action import venv_environments as action
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.environments.builds import change
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.long_step import StepOutcome

CHANGE = {**change("lab", ["it does not exist"], {}, {"x": "1"}), "changed": False}
MADE = changes(make=["lab (packages: 1 added)"])
ARGV = {"argv": ["sh", "/script"]}


class Played(action.ActionModule):
    """The action with a node that answers from a table and steps that end as told."""

    def __init__(self, answers, **ends):
        """answers: by operation. ends: by step, its status and last lines."""
        self.answers, self.ends = answers, ends
        self.asked, self.ran = [], []

    def call_module(self, name, args):
        """Answer a module call."""
        assert name == "venv_environments"
        self.asked.append((args["operation"], args.get("only")))
        return dict(self.answers[args["operation"]])

    def run_step(self, step):
        """End a step as told."""
        self.ran.append((step.name, step.timeout))
        rc, *tail = self.ends.get(step.name.replace("-", "_"), (0,))
        return StepOutcome(rc, 1.0, tail, "/log", "started")


def test_nothing_to_do_is_one_call():
    played = Played({"look": {"changed": False, "changes": [], "unlisted": ["old"], "todo": {}, "gone": []}})
    assert played.carry_out({}) == {"changed": False, "changes": [], "unlisted": ["old"]}
    assert (played.asked, played.ran) == ([("look", None)], [])


def test_check_mode_is_one_call_with_a_diff():
    seen = {
        "changed": True,
        "changes": [],
        "unlisted": [],
        "environments": [CHANGE["environment"]],
        "diff": [CHANGE["diff"]],
    }
    played = Played({"look": seen})
    assert played.carry_out({}) == seen
    assert played.asked == [("look", None)]


def test_an_environment_is_locked_made_and_taken_into_use():
    todo = {"changed": True, "changes": [], "unlisted": [], "todo": {"lab": ["it does not exist"]}, "gone": []}
    played = Played({"look": todo, "fetch": ARGV, "lock": ARGV, "make": ARGV, "finish": CHANGE})
    result = played.carry_out({"timeout": 60})
    assert result == {
        "changed": True,
        "changes": MADE,
        "unlisted": [],
        "environments": [CHANGE["environment"]],
        "diff": [CHANGE["diff"]],
    }
    assert played.ran == [("environments-uv", 60), ("environment-lab-lock", 60), ("environment-lab", 60)]
    assert played.asked[-1] == ("finish", "lab")


def test_what_is_there_is_not_fetched_and_a_given_lock_is_not_made():
    todo = {"changed": True, "changes": [], "unlisted": [], "todo": {"lab": ["it does not exist"]}, "gone": []}
    played = Played({"look": todo, "fetch": {"argv": None}, "lock": {"argv": None}, "make": ARGV, "finish": CHANGE})
    played.carry_out({})
    assert [name for name, _timeout in played.ran] == ["environment-lab"]


def test_an_environment_that_shall_go_is_removed_without_fetching_uv():
    seen = {"changed": True, "changes": [], "unlisted": [], "todo": {}, "gone": ["old"]}
    played = Played({"look": seen, "finish": CHANGE})
    played.carry_out({})
    assert played.asked == [("look", None), ("finish", "old")]


@pytest.mark.parametrize("step", ["environments_uv", "environment_lab_lock", "environment_lab"])
def test_a_step_that_fails_ends_it_before_anything_is_taken_into_use(step):
    todo = {"changed": True, "changes": [], "unlisted": [], "todo": {"lab": ["it does not exist"]}, "gone": []}
    answers = {"look": todo, "fetch": ARGV, "lock": ARGV, "make": ARGV, "finish": CHANGE}
    played = Played(answers, **{step: (1, "error: Failed to download `x`", "  cause: Hash mismatch for `x`")})
    with pytest.raises(Refusal) as refusal:
        played.carry_out({})
    assert refusal.value.code == "E003"
    assert "finish" not in dict(played.asked)


def test_who_may_use_an_environment_changes_without_a_build():
    seen = {"changed": True, "changes": [], "unlisted": [], "todo": {}, "gone": [], "given": ["lab"]}
    played = Played({"look": seen, "give": CHANGE})
    assert played.carry_out({})["environments"] == [CHANGE["environment"]]
    assert (played.asked, played.ran) == ([("look", None), ("give", "lab")], [])
