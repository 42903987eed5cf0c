"""Tests that are programs: PyTorch is a stub here (stubs/torch), docker and nccl-tests are scripts."""

import re
import sys
import time

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.active import matmul_program, programs
from ansible_collections.gpulab.node.plugins.module_utils.active.programs import (
    TorchTest,
    all_reduce,
    container,
    nccl_test_values,
)

GPUS = [{"uuid": f"GPU-{n}"} for n in range(3)]
NCCL_OUTPUT = """# nThread 1 nGpus 8 minBytes 1073741824 maxBytes 1073741824
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
  1073741824     268435456     float     sum      -1   4050.1  265.11  463.95      0   4048.2  265.24  464.17      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 464.06
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Return a function that puts a shell script on the PATH."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    def write(name, script):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)

    return write


def matmul(seconds=20.0, *arguments):
    return TorchTest(sys.executable, GPUS[0], seconds, *arguments).finish()


def test_each_precision_is_measured(torch):
    torch()
    record = matmul()
    assert record["state"] == "done"
    assert record["size"] == 8192
    rate = round(2 * 8192**3 / 1e9, 1)  # the stub's millisecond
    assert {key: value for key, value in record.items() if key.endswith("_tflops")} == dict.fromkeys(
        ("fp16_tflops", "fp32_tflops", "bf16_tflops", "tf32_tflops"), rate
    )
    assert record["wrong"] == 0


def test_old_gpu_is_measured_in_what_it_has(torch):
    torch("old")
    record = matmul()
    assert "fp16_tflops" in record
    assert "bf16_tflops" not in record


@pytest.mark.parametrize(
    ("mode", "state", "said"), [("no-gpu", "failed", "sees no GPU"), ("wrong", "done", ""), ("hang", "late", "")]
)
def test_what_goes_wrong_is_told(torch, mode, state, said):
    torch(mode)
    begin = time.monotonic()
    record = matmul(seconds=2.0 if mode == "hang" else 20.0)
    assert time.monotonic() - begin < 15
    assert record["state"] == state
    assert said in record.get("error", {"name": ""})["name"]
    assert (record.get("wrong", 0) > 0) == (mode == "wrong")


def test_interpreter_without_pytorch_is_told():
    assert "No module named" in matmul()["error"]["name"]


def test_burn_in_lasts_as_long_as_it_is_told(torch):
    torch()
    record = matmul(20.0, "0.3")
    assert (record["state"], record["load"], record["wrong"]) == ("done", "bf16 matmul", 0)
    assert record["runs"] > 0


@pytest.mark.parametrize(("free", "size"), [(80 << 30, 8192), (4 << 30, 8192), (1 << 30, 5632), (64 << 20, 1280)])
def test_matrices_fit_into_half_of_the_free_memory(free, size):
    assert matmul_program.fitting_size(free) == size
    assert 4 * 4 * size**2 <= free / 2


def test_all_reduce_by_pytorch_runs_a_process_per_gpu(torch):
    torch()
    record = all_reduce(sys.executable, GPUS, 20.0)
    assert record["state"] == "done"
    assert record["gpus"] == 3
    assert record["wrong"] == 0
    assert record["all_reduce_gbs"] == round((1 << 30) / 1e6 * 4 / 3, 1)  # the stub's millisecond


def test_rank_that_fails_is_the_cause(torch):
    torch("rank-2-fails")
    record = all_reduce(sys.executable, GPUS, 3.0)
    assert record["state"] == "failed"
    assert "unhandled system error" in record["error"]["name"]


def test_all_reduce_needs_a_program():
    assert all_reduce(None, GPUS, 5.0)["state"] == "skipped"


def test_nccl_tests_are_preferred_and_see_the_gpus_named(program, tmp_path):
    program("all_reduce_perf", f"echo $CUDA_VISIBLE_DEVICES >$0.saw; cat <<'END'\n{NCCL_OUTPUT}END")
    record = all_reduce(sys.executable, GPUS, 10.0)
    assert (tmp_path / "all_reduce_perf.saw").read_text() == "GPU-0,GPU-1,GPU-2\n"
    assert (record["state"], record["by"]) == ("done", "nccl-tests")
    assert (record["all_reduce_gbs"], record["wrong"]) == (463.95, 0)


def test_output_of_nccl_tests_without_results_gives_no_values():
    assert nccl_test_values("# nThread 1\n") == {}
    assert nccl_test_values(NCCL_OUTPUT.replace("463.95      0", "463.95    N/A"))["wrong"] is None


def test_container_counts_the_gpus_it_sees(program):
    program("docker", 'echo "$*" >"$0.arguments"; printf "GPU 0: NVIDIA T4 (UUID: GPU-0)\\nGPU 1: NVIDIA T4\\n"')
    record = container("base", 2, 10.0)
    assert (record["state"], record["seen"], record["expected"]) == ("done", 2, 2)


def test_container_image_is_never_pulled(program, tmp_path):
    program("docker", 'echo "$*" >"$0.arguments"')
    container("base", 1, 10.0)
    assert "--pull=never" in (tmp_path / "docker.arguments").read_text()


def test_container_that_fails_is_told(program):
    program("docker", 'echo "No such image: base" >&2; exit 125')
    record = container("base", 1, 10.0)
    assert record["error"] == {"code": 125, "name": "No such image: base"}


def test_container_that_is_late_does_not_live_on_behind_its_client(program, tmp_path):
    program("docker", 'echo "$*" >>"$0.calls"; [ "$1" != run ] || sleep 60')
    assert container("base", 1, 0.5)["state"] == "late"
    assert container("base", 1, 0.5)["state"] == "late"
    calls = (tmp_path / "docker.calls").read_text().splitlines()
    names = [re.search(r"--name=(\S+)", call)[1] for call in calls[::2]]
    assert calls[1::2] == [f"rm --force {name}" for name in names]
    assert len(set(names)) == 2


def test_docker_that_does_not_answer_holds_nothing_up(program, monkeypatch):
    monkeypatch.setattr(programs, "CONTAINER_STOP_SECONDS", 0.5)
    program("docker", "sleep 60")
    begin = time.monotonic()
    assert container("base", 1, 0.5)["state"] == "late"
    assert time.monotonic() - begin < 10
