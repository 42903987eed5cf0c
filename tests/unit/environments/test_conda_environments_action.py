"""What the action does with what the node answers; the node is played."""

from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.action import conda_environments as action
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.environments.builds import change
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.long_step import StepOutcome

CHANGE = {**change("lab", ["it does not exist"], {}, {"x": "1"}), "changed": False}
MADE = changes(make=["lab (packages: 1 added)"])
NOTHING = {
    "changed": False,
    "changes": [],
    "micromamba": False,
    "unlisted": ["old"],
    "todo": {},
    "gone": [],
    "last": None,
}
TODO = {**NOTHING, "changed": True, "todo": {"lab": ["it does not exist"]}}
WISH = {"environments": [{"name": "lab", "packages": ["six"]}]}


class Played(action.ActionModule):
    """The action with a node that answers from a table and a step that ends as told."""

    def __init__(self, seen, rc=0, *, check_mode=False):
        """seen: what the node sees. rc: how the step ends."""
        why = {"code": "E004", "cause": "they do not fit", "remedy": "change them"}
        self.answers = {
            "look": seen,
            "make": {"argv": ["sh", "/script"]},
            "finish": CHANGE,
            "give": CHANGE,
            "explain": {"why": why},
        }
        self.rc, self.asked, self.ran, self.args = rc, [], [], []
        self._task = SimpleNamespace(check_mode=check_mode)

    def call_module(self, name, args):
        """Answer a module call."""
        assert name == "conda_environments"
        self.asked.append((args["operation"], args.get("only")))
        self.args.append(args)
        return dict(self.answers.get(args["operation"], {}))

    def run_step(self, step):
        """End the step as told."""
        self.ran.append((step.name, step.timeout))
        return StepOutcome(self.rc, 1.0, ["a line"], "/log", "started")


def test_nothing_to_do_is_one_call():
    played = Played(NOTHING)
    assert played.carry_out(WISH) == {"changed": False, "changes": [], "micromamba": False, "unlisted": ["old"]}
    assert (played.asked, played.ran) == ([("look", None)], [])


def test_the_node_gets_what_files_on_the_controller_say(tmp_path):
    file = tmp_path / "environment.yml"
    file.write_text("dependencies: [python, {pip: [alpha]}]\n")
    played = Played(NOTHING)
    played.carry_out({"environments": [{"name": "lab", "file": str(file)}], "channels": ["https://a.example/b"]})
    (given,) = played.args[0]["environments"]
    assert (given["packages"], given["pip"], given["channels"]) == (["python"], ["alpha"], ["https://a.example/b"])


def test_names_of_channels_are_looked_up_on_the_mirror():
    played = Played(NOTHING)
    played.carry_out({**WISH, "channel_alias": "https://mirror.example/conda/"})
    assert played.args[0]["environments"][0]["channels"] == ["https://mirror.example/conda/conda-forge"]


def test_micromamba_is_fetched_and_an_environment_is_made_and_taken_into_use():
    tool = changes(install=["micromamba"])
    played = Played({**TODO, "micromamba": True, "changes": tool})
    result = played.carry_out({**WISH, "timeout": 60})
    assert (result["environments"], result["diff"]) == ([CHANGE["environment"]], [CHANGE["diff"]])
    assert result["changes"] == [*tool, *MADE]
    assert played.asked == [("look", None), ("fetch", None), ("make", "lab"), ("finish", "lab")]
    assert played.ran == [("conda-lab", 60)]


def test_check_mode_fetches_nothing():
    seen = {"changed": True, "micromamba": True, "unlisted": [], "environments": [CHANGE["environment"]], "diff": []}
    played = Played(seen, check_mode=True)
    assert played.carry_out(WISH) == seen
    assert played.asked == [("look", None)]


def test_a_step_that_fails_is_explained_by_the_node_and_nothing_is_taken_into_use():
    played = Played(TODO, rc=1)
    with pytest.raises(Refusal) as refusal:
        played.carry_out(WISH)
    assert refusal.value.code == "E004"
    assert [operation for operation, _only in played.asked] == ["look", "make", "explain"]
    assert (played.args[-1]["printed"], played.args[-1]["log"]) == ("a line", "/log")


def test_all_goes_in_the_end():
    played = Played({**NOTHING, "changed": True, "gone": ["lab"], "last": "clear"})
    played.carry_out({"state": "absent"})
    assert played.asked == [("look", None), ("finish", "lab"), ("clear", None)]


def test_who_may_use_an_environment_changes_without_a_build():
    played = Played({**NOTHING, "changed": True, "given": ["lab"]})
    result = played.carry_out({"environments": [{**WISH["environments"][0], "group": "vision"}]})
    assert (result["environments"], played.ran) == ([CHANGE["environment"]], [])
    assert played.asked == [("look", None), ("give", "lab")]
    assert played.args[0]["environments"][0]["group"] == "vision"
