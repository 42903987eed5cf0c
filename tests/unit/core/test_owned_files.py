"""Files that gpulab owns whole."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.owned_files import FileStep, mode, plan, wanted_text
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

PATH = "/etc/modprobe.d/x.conf"
OURS = wanted_text("a\n", "nouveau")


@pytest.mark.parametrize(
    ("content", "current", "steps"),
    [
        pytest.param("a", None, [FileStep(PATH, None, OURS)], id="written"),
        pytest.param("a\n", OURS, [], id="nothing-to-do"),
        pytest.param("b", OURS, [FileStep(PATH, OURS, wanted_text("b", "nouveau"))], id="replaced"),
        pytest.param("", OURS, [FileStep(PATH, OURS, None)], id="removed"),
        pytest.param(None, None, [], id="not-wanted-not-there"),
        pytest.param(" \n", "somebody's\n", [], id="not-wanted-and-not-ours"),
    ],
)
def test_plan(content, current, steps):
    assert plan({PATH: content}, {PATH: current}, "nouveau") == steps


def test_a_program_keeps_its_first_line_and_may_be_run():
    text = wanted_text("#!/bin/sh\nexec true\n", "cuda")
    first, second, *rest = text.splitlines()
    assert (first, second.startswith("# Written by gpulab (role cuda)"), rest) == ("#!/bin/sh", True, ["exec true"])
    assert (mode(text), mode(OURS)) == (0o755, 0o644)


def test_a_program_of_gpulabs_is_replaced_and_one_of_somebody_elses_refused():
    ours, content = wanted_text("#!/bin/sh\na", "cuda"), "#!/bin/sh\nb"
    assert plan({PATH: content}, {PATH: ours}, "cuda") == [FileStep(PATH, ours, wanted_text(content, "cuda"), 0o755)]
    with pytest.raises(Refusal):
        plan({PATH: content}, {PATH: "#!/bin/sh\na\n"}, "cuda")


def test_a_file_of_somebody_elses_is_refused():
    with pytest.raises(Refusal) as refused:
        plan({PATH: "a"}, {PATH: "blacklist pcspkr\n"}, "nouveau")
    assert str(refused.value).startswith(f"GPULAB-H020 {PATH} exists, but gpulab did not write it.")


@pytest.mark.parametrize(("private", "expected"), [((), 0o644), ((PATH,), 0o600)])
def test_mode_and_owner_are_put_right(private, expected):
    assert plan({PATH: "a"}, {PATH: OURS}, "nouveau", private, misplaced=[PATH]) == [
        FileStep(PATH, OURS, OURS, expected)
    ]
    assert plan({PATH: "a"}, {PATH: OURS}, "nouveau", private, misplaced=[]) == []
