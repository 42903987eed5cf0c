"""What the proof's program answers, with stand-ins for the frameworks in place of the real ones."""

import subprocess
import sys
import types
from pathlib import Path
from unittest.mock import MagicMock

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
    assert found["architectures"] == ["sm_80", "sm_90"]


def test_a_wrong_product_on_the_cpu_is_seen(torch):
    module = torch()
    module.tensor.__matmul__ = lambda self, _other: self
    assert probe.probe("pytorch", {})["cpu_matmul"] is False


def test_a_cuda_build_without_a_driver_says_why(torch):
    torch("13.0")
    found = probe.probe("pytorch", {})
    assert (found["cpu_matmul"], found["gpus"], found["gpu_failure"]) == (True, [], "RuntimeError: no driver")
    assert (found["architectures"], found["broken"]) == (["sm_80", "sm_90"], {})


@pytest.mark.parametrize("framework", ["tensorflow", "jax"])
def test_other_frameworks_name_the_driver_that_is_not_there(framework, monkeypatch):
    module, made_for = MagicMock(__version__="1.0"), MagicMock(metadata={"Name": "jax-cuda13-plugin"})
    module.sysconfig.get_build_info.return_value = {"is_cuda_build": True, "cuda_version": "13.0"}
    module.config.list_physical_devices.return_value = module.devices.return_value = [MagicMock()]
    monkeypatch.setitem(sys.modules, framework, module)
    monkeypatch.setitem(sys.modules, "numpy", MagicMock())
    monkeypatch.setattr("importlib.metadata.distributions", lambda: [made_for])
    monkeypatch.setattr(probe, "DRIVER", "libabsent.so.1")
    found = probe.probe(framework, {})
    assert (found["failure"], found["gpus"]) == (None, [])
    assert found["gpu_failure"].startswith("OSError: libabsent.so.1: cannot open shared object file")


def test_libraries_of_nvidias_wheels_that_cannot_be_loaded_are_named(tmp_path):
    """Made by the compiler: one that is whole, one cut off, and five that need what is not there."""
    library = tmp_path / "nvidia/cu13/lib"
    library.mkdir(parents=True)
    for needed in ("libcublasLt.so.99", "libmlx5-absent.so.1", "libcuda.so.99"):
        (library / "empty.c").write_text("")
        build = ["cc", "-shared", "-o", needed, f"-Wl,-soname,{needed}", "empty.c"]
        subprocess.run(build, check=True, cwd=library)
        user = ["cc", "-shared", "-o", f"libuser_of_{needed}", "-Wl,--no-as-needed", needed]
        subprocess.run(user, check=True, cwd=library)
        (library / needed).unlink()
    for symbol in ("__nvJitLinkComplete_12_4", "pmix_value_load"):
        (library / "user.c").write_text(f"extern char {symbol}; char *user = &{symbol};")
        subprocess.run(["cc", "-shared", "-o", f"libuser_of_{symbol}.so", "user.c"], check=True, cwd=library)
    subprocess.run(["cc", "-shared", "-o", "libwhole.so", "empty.c"], check=True, cwd=library)
    (library / "libcut_off.so.1").write_bytes((library / "libwhole.so").read_bytes()[:40])
    assert probe.broken(str(tmp_path)) == {
        "nvidia/cu13/lib/libcut_off.so.1": "libcut_off.so.1: file too short",
        "nvidia/cu13/lib/libuser_of___nvJitLinkComplete_12_4.so": (
            "libuser_of___nvJitLinkComplete_12_4.so: undefined symbol: __nvJitLinkComplete_12_4"
        ),
        "nvidia/cu13/lib/libuser_of_libcublasLt.so.99": (
            "libcublasLt.so.99: cannot open shared object file: No such file or directory"
        ),
    }


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
