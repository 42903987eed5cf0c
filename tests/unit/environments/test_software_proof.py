"""What an environment is tried with; its interpreter is a script that tells what it was given."""

import json
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.environments import venv
from ansible_collections.gpulab.node.plugins.module_utils.receipts import trial
from ansible_collections.gpulab.node.plugins.modules import software_proof
from ansible_collections.gpulab.node.plugins.modules.software_proof import attempt

from unit.checks.environment_faults import ANSWER, EXPECTED, GPU
from unit.checks.environment_faults import environment as environment_of_lab

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


WAITS = """#!/bin/sh
touch {mine}
for _ in $(seq 100); do [ -e {other} ] && break; sleep 0.1; done
[ -e {other} ] || exit 1
"""


@pytest.fixture
def node(tmp_path):
    """Return the parameters for a node with an environment and a toolkit, each of which waits for the other."""
    link, nvcc = tmp_path / "venvs/lab", tmp_path / "cuda/bin/nvcc"
    (tmp_path / "build/bin").mkdir(parents=True)
    nvcc.parent.mkdir(parents=True)
    link.parent.mkdir()
    link.symlink_to(tmp_path / "build")
    (link / venv.RECORD).write_text(json.dumps({"expected": {"framework": "jax", "variables": {}}}))
    program = 'while [ "$1" != -o ]; do shift; done; touch "$2"'
    begun, compiling = tmp_path / "begun", tmp_path / "compiling"
    (link / "bin/python").write_text(f"{WAITS.format(mine=begun, other=compiling)}echo '{{}}'\n")
    nvcc.write_text(f"{WAITS.format(mine=compiling, other=begun)}{program}\n")
    for file in (link / "bin/python", nvcc):
        file.chmod(0o755)
    toolkits = [{"version": "12.8", "prefix": str(tmp_path / "cuda")}]
    return {
        "directory": str(link.parent),
        "conda_directory": None,
        "gpus": False,
        "toolkits": toolkits,
        "compute_capabilities": ["8.9"],
        "container": True,
    }


def module(params, tmp_path, *, check_mode=False):
    tmpdir = tmp_path / "tmpdir"
    tmpdir.mkdir()
    return SimpleNamespace(params=params, check_mode=check_mode, tmpdir=str(tmpdir), get_bin_path=lambda _name: None)


def test_environments_and_compilers_are_tried_at_once(node, tmp_path):
    facts = software_proof.tried(module(node, tmp_path))
    assert [(one["name"], one["answer"]) for one in facts["gpulab_environments"]] == [("lab", {})]
    assert [(one["version"], one["problem"]) for one in facts["gpulab_cuda_compiled"]] == [("12.8", None)]
    assert facts["gpulab_container_started"] is None  # without Docker


@pytest.mark.parametrize(
    ("params", "facts"),
    [
        ({"toolkits": [], "container": False}, {"gpulab_cuda_compiled": []}),
        ({"conda_directory": "/nowhere"}, {"gpulab_environments": [], "gpulab_container_started": None}),
    ],
)
def test_only_what_was_asked_for_is_a_fact(tmp_path, params, facts):
    nothing = {"directory": None, "conda_directory": None, "gpus": True, "toolkits": None, "compute_capabilities": []}
    assert software_proof.tried(module({**nothing, "container": True, **params}, tmp_path)) == facts


def test_check_mode_starts_no_container(node, tmp_path):
    assert "gpulab_container_started" not in software_proof.tried(module(node, tmp_path, check_mode=True))


COMPILED = {"version": "12.8", "prefix": "/usr", "compute_capabilities": ["8.9"], "seconds": 2.6, "problem": None}


@pytest.mark.parametrize(
    ("found", "faultless"),
    [
        ({}, True),
        ({"gpulab_environments": [environment_of_lab()]}, True),
        ({"gpulab_environments": [{**environment_of_lab(), "expected": None}]}, False),
        ({"gpulab_environments": [{**environment_of_lab(), "answer": None}]}, False),
        ({"gpulab_environments": [environment_of_lab(failure="ImportError: libcudnn.so.9")]}, False),
        ({"gpulab_environments": [environment_of_lab(gpus=[], gpu_failure="no driver")]}, False),
        ({"gpulab_environments": [environment_of_lab(gpus=[{**GPU, "matmul": False}])]}, False),
        ({"gpulab_environments": [{**environment_of_lab(gpus=[]), "gpus_tried": False}]}, True),
        ({"gpulab_cuda_compiled": [COMPILED]}, True),
        ({"gpulab_cuda_compiled": [COMPILED, {**COMPILED, "problem": "nvcc cannot be run"}]}, False),
        ({"gpulab_container_started": None}, True),
        ({"gpulab_container_started": {"seconds": 60, "problem": "it did not end within 60 s"}}, False),
    ],
)
def test_only_what_worked_counts_another_time(found, faultless):
    assert software_proof.faultless(found, 1) is faultless


def kept(node, tmp_path, facts="facts"):
    """Try a node, keep what came of it, and return what the next reading of the node's facts finds of it."""
    (tmp_path / "tmpdir").rmdir() if (tmp_path / "tmpdir").exists() else None
    params = {**node, "toolkits": [], "again": True, "facts": facts, "gpu_count": 0}
    software_proof.tried_and_kept(module(params, tmp_path))
    return trial.last(software_proof.NODE)


@pytest.fixture
def alone(node, tmp_path, monkeypatch):
    """Return the node with an environment that waits for nothing, and with a record of its own."""
    interpreter = tmp_path / "build/bin/python"
    interpreter.write_text(f"#!/bin/sh\necho '{json.dumps(ANSWER)}'\n")
    (tmp_path / "build" / venv.RECORD).write_text(json.dumps({"expected": EXPECTED}))
    monkeypatch.setattr(trial, "RECORD", str(tmp_path / "trial.json"))
    return node


def test_a_trial_is_kept_with_what_it_depended_on(alone, tmp_path):
    last = kept(alone, tmp_path)
    assert last.found["gpulab_environments"][0]["answer"] == ANSWER
    assert last.watched == trial.Watch(software_proof.NODE, last.asked).digest("facts")


def test_what_changed_while_it_was_tried_is_not_kept(alone, tmp_path):
    (tmp_path / "build/bin/python").write_text(f"#!/bin/sh\ntouch {tmp_path}/build/more\necho '{json.dumps(ANSWER)}'\n")
    assert kept(alone, tmp_path) is None


def test_a_trial_that_fails_takes_the_last_one_away(alone, tmp_path):
    assert kept(alone, tmp_path)
    (tmp_path / "build/bin/python").write_text("#!/bin/sh\nexit 1\n")
    assert kept(alone, tmp_path) is None
