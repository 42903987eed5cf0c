"""The simulated NVML, and a collector made of exactly the files that the role brings to a node."""

import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.filter.program import program
from sim.build import build

ROOT = Path(__file__).parents[3]
ROLE = ROOT / "roles/monitoring"
SIM = ROOT / "tests/sim"


@pytest.fixture(scope="session")
def libraries(tmp_path_factory):
    """Build the simulated libnvidia-ml.so.1 and return its directory."""
    return build(tmp_path_factory.mktemp("simulated"))


@pytest.fixture
def collector(tmp_path):
    """Return a directory with nothing but the programs."""
    for name in ("collect", "tell"):
        for path, text in program(str(ROLE / f"files/{name}.py"), str(tmp_path / "collector")).items():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(text)
    return tmp_path / "collector"


@pytest.fixture
def collect(collector, libraries, tmp_path):
    """Return a function that collects from a simulated model with some settings changed, and returns the text."""

    def run(model, *changes):
        settings = tmp_path / "gpu.conf"
        settings.write_text("\n".join([(SIM / f"models/{model}.conf").read_text(), *changes]))
        metrics = tmp_path / "gpulab-gpu.prom"
        subprocess.run(
            [sys.executable, "-BEs", str(collector / "collect.py"), str(metrics)],
            env={"PATH": "/usr/bin", "LD_LIBRARY_PATH": str(libraries), "GPULAB_SIMULATION": str(settings)},
            check=True,
            timeout=40,
        )
        return metrics.read_text()

    return run
