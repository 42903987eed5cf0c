"""The stand-in for nvidia-smi tells of the simulated GPUs, says SIMULATED, and gives way to NVIDIA's own program."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SIM = Path(__file__).parents[2] / "sim"
MODEL = SIM / "models/rtx4090-2.conf"


@pytest.fixture
def node(tmp_path):
    """Return a function that runs the program as a node has it, with an environment."""
    program = tmp_path / "local/bin/nvidia-smi"
    program.parent.mkdir(parents=True)
    shutil.copy(SIM / "nvidia_smi.py", program)

    def run(*arguments, **environment):
        known = {"PATH": f"{program.parent}:{os.environ['PATH']}", **environment}
        done = subprocess.run(
            [sys.executable, str(program), *arguments], env=known, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture
def simulated(node, libraries, tmp_path):
    """Return that function with the simulated library in place, and settings besides those of the model."""

    def run(*arguments, settings=""):
        file = tmp_path / "gpu.conf"
        file.write_text(f"{MODEL.read_text(encoding='utf-8')}\n{settings}\n", encoding="utf-8")
        return node(*arguments, LD_LIBRARY_PATH=str(libraries), GPULAB_SIMULATION=str(file))

    return run


@pytest.mark.parametrize("arguments", [(), ("-q",), ("--query",), ("-L",), ("--list-gpus",)])
def test_it_names_every_gpu_and_says_that_they_are_simulated(simulated, arguments):
    status, output, errors = simulated(*arguments)
    assert status == 0
    assert output.count("NVIDIA GeForce RTX 4090") >= 2
    assert "SIMULATED" in output + errors


def test_what_programs_read_is_as_nvidias_own_writes_it(simulated):
    (_zero, listed, _note), form = simulated("-L"), "--format=csv,noheader,nounits"
    assert listed.splitlines()[0] == "GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-51301a7e-0000-4000-8000-000000000000)"
    asked = simulated("--query-gpu=index,name,memory.total,serial", form)
    assert asked == (0, "".join(f"{n}, NVIDIA GeForce RTX 4090, 24564, [N/A]\n" for n in (0, 1)), "")
    assert simulated("--query-gpu=index", "--format=csv")[1].splitlines()[0] == "index"


def test_a_fault_shows_there(simulated):
    _status, output, _errors = simulated(settings="gpu.1.lost = 15")
    assert "GPU is lost" in output
    status, output, _errors = simulated(settings="init = 9")
    assert (status, output.startswith("SIMULATED: NVIDIA-SMI has failed")) == (9, True)


@pytest.mark.parametrize("arguments", [("--gpu-reset",), ("--query-gpu=moon", "--format=csv"), ("-pm", "1")])
def test_what_it_does_not_know_it_refuses(simulated, arguments):
    status, output, errors = simulated(*arguments)
    assert (status, output) == (2, "")
    assert "SIMULATED" in errors


def test_without_the_simulated_library_nvidias_own_runs(node, tmp_path):
    assert node("-L")[0] == 127
    real = tmp_path / "bin/nvidia-smi"
    real.parent.mkdir()
    real.write_text('#!/bin/sh\necho "the real one: $*"\n', encoding="utf-8")
    real.chmod(0o755)
    path = f"{tmp_path}/local/bin:{real.parent}:{os.environ['PATH']}"
    assert node("-L", PATH=path) == (0, "the real one: -L\n", "")
