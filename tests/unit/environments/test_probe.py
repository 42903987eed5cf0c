"""What the proof's program answers, with stand-ins for the frameworks in place of the real ones."""

import subprocess
import sys
import types
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.environments import probe
from ansible_collections.gpulab.node.plugins.module_utils.environments.builds import probe_source

from .wheels import TORCH


@pytest.fixture
def torch(monkeypatch):
    """Return a function that puts a stand-in for PyTorch in place."""

    def put(cuda=None, **more):
        module = types.ModuleType("torch")
        exec(TORCH.format(version="2.13.0", cuda=cuda), module.__dict__)  # noqa: S102
        for name, value in more.items():
            setattr(module.cuda, name, value)
        module.tensor.to = lambda self, _device: self
        module.tensor.cpu = lambda self: self
        module.equal = lambda one, other: one == other
        monkeypatch.setitem(sys.modules, "torch", module)
        return module

    return put


GPUS = {
    "is_available": lambda: True,
    "device_count": lambda: 2,
    "get_arch_list": lambda: ["sm_90"],
    "get_device_name": lambda gpu: f"GPU {gpu}",
    "get_device_capability": lambda _gpu: (9, 0),
}


def test_a_build_without_cuda_computes_on_the_cpu(torch):
    torch()
    found = probe.probe("pytorch", {})
    assert (found["version"], found["cuda"], found["cpu_matmul"], found["gpus"]) == ("2.13.0", None, True, [])
    assert (found["failure"], found["gpu_failure"]) == (None, None)


def test_every_gpu_is_compared_with_the_cpu(torch):
    module = torch("13.0", **GPUS)
    module.tensor.to = lambda self, device: module.tensor([[0.0] * 256] * 256) if device == "cuda:1" else self
    found = probe.probe("pytorch", {})
    assert [(gpu["name"], gpu["compute_capability"], gpu["matmul"]) for gpu in found["gpus"]] == [
        ("GPU 0", "9.0", True),
        ("GPU 1", "9.0", False),
    ]
    assert found["architectures"] == ["sm_90"]


def test_a_wrong_product_on_the_cpu_is_seen(torch):
    module = torch()
    module.tensor.__matmul__ = lambda self, _other: self
    assert probe.probe("pytorch", {})["cpu_matmul"] is False


def test_a_cuda_build_without_a_driver_says_why(torch):
    torch("13.0")
    found = probe.probe("pytorch", {})
    assert (found["cpu_matmul"], found["gpus"], found["gpu_failure"]) == (True, [], "RuntimeError: no driver")


def test_a_framework_that_is_not_there_is_a_failure(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    assert "tensorflow" in probe.probe("tensorflow", {})["failure"]


def test_variables_that_are_not_set_are_named(torch, monkeypatch):
    torch()
    monkeypatch.setenv("GROWTH", "true")
    assert probe.probe("pytorch", {"GROWTH": "true", "OTHER": "1"})["unset"] == ["OTHER"]


def test_the_program_stands_alone_and_prints_one_line(tmp_path):
    (tmp_path / "program.py").write_text(probe_source())
    argv = [sys.executable, "-I", str(tmp_path / "program.py"), "tensorflow", "A=b=c"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=Path("/"))
    assert done.stdout.count("\n") == 1
    assert '"unset": ["A"]' in done.stdout


def test_the_products_are_exact_in_float32():
    left, right, first_row = probe._matrices()  # noqa: SLF001
    assert probe.SIZE * 7 * 7 < 2**24
    assert len({tuple(row) for row in left}) > 1
    assert len(set(first_row)) > 1
    assert len(right) == probe.SIZE
