"""What an environment is tried with; its interpreter is a script that tells what it was given."""

import json

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.environments import venv
from ansible_collections.gpulab.node.plugins.modules.environment_proof import attempt

INTERPRETER = r"""#!/bin/sh
printf '{"visible": "%s", "platforms": "%s", "preallocate": "%s", "variables": "%s"}' \
    "${CUDA_VISIBLE_DEVICES-all}" "${JAX_PLATFORMS-all}" "$XLA_PYTHON_CLIENT_PREALLOCATE" "$5"
"""


@pytest.fixture
def environment(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").write_text(INTERPRETER)
    (tmp_path / "bin/python").chmod(0o755)
    expected = {"framework": "jax", "variables": {"JAX_PLATFORMS": "cuda"}}
    (tmp_path / venv.RECORD).write_text(json.dumps({"expected": expected}))
    return tmp_path


@pytest.mark.parametrize(
    ("gpus", "visible", "platforms", "variables"), [(True, "all", "all", "JAX_PLATFORMS=cuda"), (False, "", "cpu", "")]
)
def test_gpus_in_use_are_hidden(environment, gpus, visible, platforms, variables):
    found = attempt(environment, 10, gpus=gpus)
    assert found["gpus_tried"] is gpus
    assert {**found["answer"], "preallocate": None} == {
        "visible": visible,
        "platforms": platforms,
        "preallocate": None,
        "variables": variables,
    }


def test_no_framework_takes_most_of_a_gpu(environment):
    assert attempt(environment, 10, gpus=True)["answer"]["preallocate"] == "false"


def test_environments_of_both_engines_are_told_apart(environment):
    assert attempt(environment, 10, gpus=False)["name"] == environment.name
    assert attempt(environment, 10, gpus=False, name="lab (conda)")["name"] == "lab (conda)"
