"""What the action does with what the node answers; the node is played."""

import pytest
from ansible_collections.gpulab.node.plugins.action import cuda_wheels as action
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.long_step import StepOutcome


class Played(action.ActionModule):
    """The action with a node that answers from a table, and a step that ends as given."""

    def __init__(self, look, rc=0, *tail):
        """Take what the node answers first, and how the step ends."""
        self.look, self.end = look, (rc, list(tail))
        self.asked, self.ran = [], []

    def call_module(self, name, args):
        """Answer a module call."""
        assert name == "cuda_wheels"
        self.asked.append((args["operation"], args["only"]))
        return {"look": dict(self.look), "fetch": {"argv": ["sh", "/script"]}}.get(args["operation"], {})

    def run_step(self, step):
        """End a step as given."""
        self.ran.append((step.name, step.timeout))
        rc, tail = self.end
        return StepOutcome(rc, 1.0, tail, "/log", "started")


def test_nothing_to_do_and_check_mode_are_one_call():
    for seen in ({"changed": False, "changes": [], "todo": [], "gone": []}, {"changed": True, "changes": [{}]}):
        played = Played(seen)
        result = played.carry_out({"toolkits": []})
        assert result == {"changed": seen["changed"], "changes": seen["changes"]}
        assert (played.asked, played.ran) == ([("look", None)], [])


def test_what_is_not_wanted_goes_before_what_is_wanted_comes():
    played = Played({"changed": True, "changes": [], "todo": ["13.2"], "gone": ["13.0"]})
    played.carry_out({"toolkits": [], "timeout": 60})
    assert played.asked[1:] == [("remove", "13.0"), ("fetch", "13.2"), ("finish", "13.2")]
    assert played.ran == [("cuda-13.2", 60)]


@pytest.mark.parametrize(
    ("said", "cause", "remedy"),
    [
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "DO NOT MATCH", "pip.conf"),
        ("ERROR: certificate verify failed: SSL certificate problem", "certificate", "base_ca_certificates"),
    ],
)
def test_a_failure_says_why_and_nothing_is_put_in_place(said, cause, remedy):
    played = Played({"changed": True, "changes": [], "todo": ["13.2"], "gone": []}, 1, said)
    with pytest.raises(Refusal) as refused:
        played.carry_out({"toolkits": []})
    assert refused.value.code == "C005"
    assert cause in refused.value.cause
    assert remedy in refused.value.remedy
    assert ("finish", "13.2") not in played.asked
