"""Jupyter kernels of environments: what is written, what is taken away, and what stays."""

import json

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.environments import jupyter

VISION = "/opt/venvs/vision"
FOREIGN = json.dumps({"argv": ["python3"], "display_name": "Mine", "metadata": {"debugger": True}})


def test_a_kernel_runs_the_interpreter_of_its_environment_and_finds_its_programs():
    content = json.loads(jupyter.text("venv", VISION))
    assert content["argv"] == [f"{VISION}/bin/python", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    assert content["display_name"] == "vision (venv)"
    assert content["env"] == {"PATH": f"{VISION}/bin:${{PATH}}", "VIRTUAL_ENV": VISION}


def test_what_is_as_wanted_does_not_change():
    steps = jupyter.plan("venv", [VISION], {})
    assert list(steps) == ["venv-vision"]
    assert jupyter.plan("venv", [VISION], steps) == {}


def test_an_environment_that_moved_is_rewritten():
    assert list(jupyter.plan("venv", ["/srv/vision"], jupyter.plan("venv", [VISION], {}))) == ["venv-vision"]


def test_only_kernels_of_gpulab_of_the_same_kind_are_taken_away():
    conda = jupyter.plan("conda", ["/opt/conda/envs/vision"], {})
    present = {**jupyter.plan("venv", [VISION], {}), **conda, "venv-mine": FOREIGN, "broken": "{", "list": "[]"}
    assert jupyter.plan("venv", [], present) == {"venv-vision": None}


@pytest.mark.parametrize("found", [FOREIGN, "{", "[]", jupyter.text("conda", VISION)])
def test_a_kernel_of_somebody_else_stays(found):
    with pytest.raises(Refusal) as refused:
        jupyter.plan("venv", [VISION], {"venv-vision": found})
    assert (refused.value.code, "kernels/venv-vision/kernel.json" in str(refused.value)) == ("E021", True)
