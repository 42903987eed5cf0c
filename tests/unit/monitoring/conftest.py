"""The simulated NVML, and a collector made of exactly the files that the role brings to a node."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from sim.build import build

ROOT = Path(__file__).parents[3]
ROLE = ROOT / "roles/monitoring"
SIM = ROOT / "tests/sim"


def shipped():
    """Return the files that make up the collector."""
    names = yaml.safe_load((ROLE / "vars/main.yml").read_text())["__monitoring_modules"]
    return [ROLE / "files/collect.py", *(ROOT / f"plugins/module_utils/{name}.py" for name in names)]


@pytest.fixture(scope="session")
def libraries(tmp_path_factory):
    """Build the simulated libnvidia-ml.so.1 and return its directory."""
    return build(tmp_path_factory.mktemp("simulated"))


@pytest.fixture
def program(tmp_path):
    """Return a directory with nothing but the collector."""
    place = tmp_path / "collector"
    place.mkdir()
    for file in shipped():
        shutil.copy(file, place)
    return place


@pytest.fixture
def collect(program, libraries, tmp_path):
    """Return a function that collects from a simulated model with some settings changed, and returns the text."""

    def run(model, *changes):
        settings = tmp_path / "gpu.conf"
        settings.write_text("\n".join([(SIM / f"models/{model}.conf").read_text(), *changes]))
        metrics = tmp_path / "gpulab-gpu.prom"
        subprocess.run(
            [sys.executable, "-BEs", str(program / "collect.py"), str(metrics)],
            env={"PATH": "/usr/bin", "LD_LIBRARY_PATH": str(libraries), "GPULAB_SIMULATION": str(settings)},
            check=True,
            timeout=40,
        )
        return metrics.read_text()

    return run
