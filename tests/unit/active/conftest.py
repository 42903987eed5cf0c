"""A node with simulated GPUs to run the active tests on; they load the simulated libraries in child processes only."""

from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.active import cuda_tests, peer_copies, session
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from sim.build import build

MODELS = Path(__file__).parents[2] / "sim/models"


class ThisMachine(Node):
    """The machine without its containers: those of a lab use simulated GPUs now and then."""

    def names(self, path):
        """List a directory; of the processes, those of this PID namespace."""
        found = super().names(path)
        if path != "/proc":
            return found
        own = self.link("/proc/self/ns/pid")
        return [name for name in found if not name.isdigit() or self.link(f"/proc/{name}/ns/pid") == own]


@pytest.fixture(scope="session")
def libraries(tmp_path_factory):
    """Build the simulated libraries and return their directory."""
    return build(tmp_path_factory.mktemp("simulated"))


@pytest.fixture
def simulate(tmp_path, monkeypatch):
    """Return a function that makes this process's children see a model with more settings; returns its file."""
    monkeypatch.setattr(cuda_tests, "ELEMENTS", 1 << 14)
    monkeypatch.setattr(cuda_tests, "COPY_BYTES", 4 << 20)
    monkeypatch.setattr(cuda_tests, "WARM_UP_SECONDS", 0.05)
    monkeypatch.setattr(peer_copies, "BYTES", 2 << 20)
    file = tmp_path / "gpu.conf"
    monkeypatch.setenv("GPULAB_SIMULATION", str(file))

    def write(model, settings=""):
        file.write_text(f"{(MODELS / f'{model}.conf').read_text()}{settings}\n", encoding="utf-8")
        return file

    return write


@pytest.fixture
def torch(monkeypatch):
    """Return a function that lets interpreters find the stub of PyTorch, in a mode."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent / "stubs"))
    return lambda mode="": monkeypatch.setenv("STUB_TORCH", mode)


@pytest.fixture
def measure(libraries, simulate, monkeypatch):
    """Return a function that runs all tests on a simulated model and returns the measurements."""
    monkeypatch.setattr(session, "NVML_SECONDS", 2.0)

    def run(model, settings="", **wishes):
        simulate(model, settings)
        wanted = session.Wishes(
            **{
                "seconds": 10.0,
                "program_seconds": 10.0,
                "cuda_library": str(libraries / "libcuda.so.1"),
                "nvml_library": str(libraries / "libnvidia-ml.so.1"),
                **wishes,
            }
        )
        return session.measure(ThisMachine(), wanted)

    return run
