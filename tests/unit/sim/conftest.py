"""The simulated libraries, built once, and programs run on them in a child process.

A child, because a library that is loaded once stays loaded: the other tests must not find a GPU.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sim.build import build

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="session")
def libraries(tmp_path_factory):
    """Build libnvidia-ml.so.1 and libcuda.so.1 and return their directory."""
    return build(tmp_path_factory.mktemp("simulated"))


@pytest.fixture
def start(libraries, tmp_path):
    """Return a function that starts a program of programs/ on settings given as text, with arguments."""

    def start_program(program, settings, *arguments):
        file = tmp_path / "gpu.conf"
        file.write_text(settings)
        environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries), "GPULAB_SIMULATION": str(file)}
        return subprocess.Popen(
            [sys.executable, str(PROGRAMS / program), *arguments], env=environment, stdout=subprocess.PIPE, text=True
        )

    return start_program


@pytest.fixture
def run(start):
    """Return a function that runs a program to its end and returns the JSON it prints."""

    def run_program(program, settings, *arguments):
        child = start(program, settings, *arguments)
        output, _ = child.communicate(timeout=60)
        assert child.returncode == 0
        return json.loads(output)

    return run_program
