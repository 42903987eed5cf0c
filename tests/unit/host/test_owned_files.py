"""Files that gpulab owns whole."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.owned_files import Step, plan, wanted_text
from ansible_collections.gpulab.node.plugins.module_utils.refusal import Refusal

PATH = "/etc/modprobe.d/x.conf"
OURS = wanted_text("a\n", "nouveau")


@pytest.mark.parametrize(
    ("content", "current", "steps"),
    [
        pytest.param("a", None, [Step(PATH, None, OURS)], id="written"),
        pytest.param("a\n", OURS, [], id="nothing-to-do"),
        pytest.param("b", OURS, [Step(PATH, OURS, wanted_text("b", "nouveau"))], id="replaced"),
        pytest.param("", OURS, [Step(PATH, OURS, None)], id="removed"),
        pytest.param(None, None, [], id="not-wanted-not-there"),
        pytest.param(" \n", "somebody's\n", [], id="not-wanted-and-not-ours"),
    ],
)
def test_plan(content, current, steps):
    assert plan({PATH: content}, {PATH: current}, "nouveau") == steps


def test_a_file_of_somebody_elses_is_refused():
    with pytest.raises(Refusal) as refused:
        plan({PATH: "a"}, {PATH: "blacklist pcspkr\n"}, "nouveau")
    assert str(refused.value).startswith(f"GPULAB-H020 {PATH} exists and gpulab did not write it.")
