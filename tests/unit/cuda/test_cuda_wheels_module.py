"""What the module says of a node's toolkits of wheels, and what it has a receipt answer for."""

import json
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.cuda import wheels
from ansible_collections.gpulab.node.plugins.modules import cuda_wheels

LINES = ("nvidia-cuda-nvcc==13.0.88 --hash=sha256:0",)


@pytest.fixture
def local(tmp_path):
    """Return a directory with a toolkit of CUDA 13.0, and what a run that was broken off has left."""
    (tmp_path / "cuda-13.0").mkdir()
    (tmp_path / "cuda-13.0" / wheels.RECORD).write_text(json.dumps({"requirements": LINES}))
    (tmp_path / wheels.WORK / "13.2").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def look(local, monkeypatch):
    """Return a function that looks for toolkits of these versions; it returns the result, and what was noted."""

    def looked(*versions, check_mode=False):
        noted = []
        monkeypatch.setattr(cuda_wheels.evidence, "note", lambda _module, file: noted.extend(file))
        module = SimpleNamespace(check_mode=check_mode, params={"replaced": False})
        wanted = {version: wheels.WantedToolkit(version, LINES) for version in versions}
        return cuda_wheels.look(module, wheels.WheelToolkits(local), wanted), noted

    return looked


def test_a_toolkit_that_is_there_changes_nothing_and_what_was_left_is_cleared(look, local):
    result, noted = look("13.0")
    assert result == {"changed": False, "changes": [], "todo": [], "gone": []}
    assert noted == [f"{local}/cuda-13.0/gpulab.json", f"{local}/cuda-13.0/bin/nvcc"]
    assert not (local / wheels.WORK).exists()


def test_check_mode_says_the_same_changes_and_clears_nothing(look, local):
    changes = [
        {"action": "make", "what": "CUDA 13.2 of wheels (it does not exist)"},
        {"action": "delete", "what": "CUDA 13.0 of wheels"},
    ]
    result, _noted = look("13.2", check_mode=True)
    assert result == {"changed": True, "changes": changes}
    assert look("13.2")[0] == {"changed": True, "changes": changes, "todo": ["13.2"], "gone": ["13.0"]}
    assert (local / wheels.WORK).exists()
    assert look(check_mode=True)[0]["changes"] == changes[1:]
    assert (local / wheels.WORK).exists()
