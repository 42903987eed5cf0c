"""What an environment is tried with; its interpreter is a script that tells what it was given."""

import json

import pytest
from ansible_collections.gpulab.node.plugins.module_utils import venv
from ansible_collections.gpulab.node.plugins.modules.environment_proof import attempt

INTERPRETER = """#!/bin/sh
printf '{"visible": "%s", "preallocate": "%s"}' "${CUDA_VISIBLE_DEVICES-all}" "$XLA_PYTHON_CLIENT_PREALLOCATE"
"""


@pytest.fixture
def environment(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").write_text(INTERPRETER)
    (tmp_path / "bin/python").chmod(0o755)
    expected = {"framework": "jax", "variables": {}}
    (tmp_path / venv.RECORD).write_text(json.dumps({"expected": expected}))
    return tmp_path


@pytest.mark.parametrize(("gpus", "visible"), [(True, "all"), (False, "")])
def test_gpus_in_use_are_hidden(environment, gpus, visible):
    found = attempt(environment, 10, gpus=gpus)
    assert (found["gpus_tried"], found["answer"]["visible"]) == (gpus, visible)


def test_no_framework_takes_most_of_a_gpu(environment):
    assert attempt(environment, 10, gpus=True)["answer"]["preallocate"] == "false"


def test_environments_of_both_engines_are_told_apart(environment):
    assert attempt(environment, 10, gpus=False)["name"] == environment.name
    assert attempt(environment, 10, gpus=False, name="lab (conda)")["name"] == "lab (conda)"
