"""The simulated CUDA driver runs a kernel on host memory, at the model's speeds, and fails as the settings say."""

from pathlib import Path

import pytest

MODELS = Path(__file__).parents[2] / "sim/models"
TWO_GPUS = (MODELS / "a100-pcie-2.conf").read_text()
HEALTHY = {"name": "NVIDIA A100-PCIE-40GB", "cc": "8.0", "wrong": 0, "gbs": 25.0}


def test_a_kernel_runs_on_every_gpu(run):
    assert run("add_on_gpu.py", TWO_GPUS) == [HEALTHY, HEALTHY]


def test_wrong_results_and_slow_copies_of_one_gpu_show(run):
    settings = f"{TWO_GPUS}gpu.1.cuda_wrong_results = 3\ngpu.1.copy_to_device_gbs = 6.3\n"
    assert run("add_on_gpu.py", settings) == [HEALTHY, {**HEALTHY, "wrong": 3, "gbs": 6.3}]


def test_a_function_fails_on_one_gpu(run):
    results = run("add_on_gpu.py", f"{TWO_GPUS}gpu.0.cuda.cuLaunchKernel = 214\n")
    assert results == ["cuLaunchKernel: 214 CUDA_ERROR_ECC_UNCORRECTABLE", HEALTHY]


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ("cuda.cuInit = 999", "999 CUDA_ERROR_UNKNOWN"),
        ("init = 18", "803 CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        ("driver_count = 0", "100 CUDA_ERROR_NO_DEVICE"),
    ],
)
def test_cuda_does_not_start(run, setting, error):
    assert run("add_on_gpu.py", f"{TWO_GPUS}{setting}\n") == f"cuInit: {error}"


def test_gpus_behind_nvswitches_wait_for_the_fabric_manager(run):
    settings = (MODELS / "h100-sxm-8.conf").read_text()
    assert len(run("add_on_gpu.py", settings)) == 8
    assert run("add_on_gpu.py", f"{settings}gpu.*.fabric_state = 2\n") == "cuInit: 802 CUDA_ERROR_SYSTEM_NOT_READY"
