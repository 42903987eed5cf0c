"""The active tests on simulated GPUs, from the driver's call to the check's finding."""

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.active import session
from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import verify
from ansible_collections.gpulab.node.plugins.module_utils.facts.kernel_log import events

from unit.checks import nodes

RATES = "rates_declared = 1"
ACTIVE = {"cuda-smoke", "copy-rate", "memory-bandwidth", "matmul-rate", "peer-copies"} | {
    "all-reduce",
    "container-gpu",
    "burn-in",
}


def findings(measurements):
    """Return what the checks of measurements find on a healthy T4 that measured this."""
    facts = {**nodes.healthy("t4"), "measurements": measurements}
    for gpu in measurements["gpus"]:
        facts["nvml"]["gpus"][0]["uuid"] = gpu["uuid"]  # whose link the floor of copies follows from
    found = verify(nodes.node(facts, level="standard"))
    return {(r.id, r.severity, r.remediation) for r in found if r.severity in ("warn", "fail", "unknown")}


@pytest.mark.parametrize("model", ["v100", "a100-pcie-2", "h100-sxm-8"])
def test_every_gpu_of_a_healthy_model_passes(measure, model):
    measured = measure(model, RATES)
    assert measured["gpus"]
    for gpu in measured["gpus"]:
        assert {name: test["state"] for name, test in gpu["tests"].items()} == {
            "smoke": "done",
            "copies": "done",
            "memory": "done",
            "matmul": "skipped",
        }
    facts = {**nodes.healthy("t4"), "measurements": measured}
    found = verify(nodes.node(facts, level="standard"))
    assert {r.severity for r in found if r.id in ACTIVE} == {"ok", "inapplicable"}


def test_rates_are_those_of_the_model(measure):
    tests = measure("t4")["gpus"][0]["tests"]
    assert tests["smoke"] == {"state": "done", "elements": 1 << 14, "wrong": 0}
    assert (tests["copies"]["to_device_gbs"], tests["copies"]["to_host_gbs"]) == (6.2, 6.5)
    assert tests["copies"]["on_device_gbs"] == 120  # each byte is read and written
    assert tests["memory"]["memory_gbs"] == 240


@pytest.mark.parametrize(("setting", "declared"), [("", False), (RATES, True)])
def test_measurements_say_that_they_are_simulated(measure, setting, declared):
    measured = measure("t4", setting)
    assert measured["simulated"] == "simulated GPU (gpulab tests/sim): Tesla T4 x1"
    assert measured["rates_declared"] is declared
    slow = measure("t4", f"{setting}\ngpu.*.memory_gbs = 1")
    assert bool(findings(slow)) is declared


@pytest.mark.parametrize(
    ("setting", "finding"),
    [
        ("gpu.0.cuda_wrong_results = 3", ("cuda-smoke", "fail", "contact_support")),
        ("gpu.0.cuda_corrupt_copy = 1", ("cuda-smoke", "fail", "contact_support")),
        ("gpu.0.cuda.cuMemAlloc_v2 = 2", ("cuda-smoke", "fail", "reset_gpu")),
        ("gpu.0.cuda.cuCtxSynchronize = 710", ("cuda-smoke", "fail", "contact_support")),
        ("gpu.0.cuda.cuLaunchKernel = 719", ("cuda-smoke", "fail", "contact_support")),
        ("gpu.0.cuda.cuDevicePrimaryCtxRetain = 46", ("cuda-smoke", "fail", "stop_app")),
        ("cuda.cuInit = 802", ("cuda-smoke", "fail", "start_fabricmanager")),
        ("gpu.0.cuda_corrupt_copy = 4000000", ("copy-rate", "fail", "contact_support")),
        ("gpu.0.cuda.cuMemHostAlloc = 2", ("copy-rate", "fail", "reset_gpu")),
        ("gpu.0.copy_to_device_gbs = 2", ("copy-rate", "fail", "check_seating")),
        ("gpu.0.copy_to_host_gbs = 2", ("copy-rate", "fail", "check_seating")),
        ("gpu.0.memory_gbs = 100", ("memory-bandwidth", "fail", "contact_support")),
        ("gpu.0.cuda.cuMemsetD32_v2 = 214", ("memory-bandwidth", "fail", "reset_gpu")),
    ],
)
def test_fault_is_found_by_its_check_with_its_remedy(measure, setting, finding):
    assert findings(measure("t4", f"{RATES}\n{setting}")) == {finding}


def test_hung_launch_is_a_result_and_the_gpu_is_left_alone(measure):
    begin = time.monotonic()
    measured = measure("t4", "gpu.0.cuda.cuLaunchKernel = HANG", seconds=1.0)
    assert time.monotonic() - begin < 5
    tests = measured["gpus"][0]["tests"]
    assert tests["smoke"]["state"] == "late"
    assert {tests[name]["state"] for name in ("copies", "memory", "matmul")} == {"skipped"}
    assert findings(measured) == {("cuda-smoke", "fail", "reboot")}


def test_missing_library_is_a_result(measure):
    measured = measure("t4", cuda_library="/nonexistent/libcuda.so.1")
    assert findings(measured) == {("cuda-smoke", "fail", "install_driver")}


def test_slow_gpu_is_told_from_its_sibling(measure):
    measured = measure("rtx4090-2", f"{RATES}\ngpu.1.memory_gbs = 700")
    assert findings(measured) == {("memory-bandwidth", "warn", "contact_support")}


def test_burn_in_is_by_pytorch_where_an_interpreter_has_it(measure, torch):
    torch()
    measured = measure("t4", level="burn-in", burn_in_minutes=0.01, python=sys.executable, program_seconds=30.0)
    tests = measured["gpus"][0]["tests"]
    assert (tests["matmul"]["state"], tests["burn_in"]["load"]) == ("done", "bf16 matmul")


def test_interpreter_that_is_not_there_is_a_result(measure):
    tests = measure("t4", python="/nonexistent/python")["gpus"][0]["tests"]
    assert tests["matmul"]["error"]["name"] == "/nonexistent/python: No such file or directory"


def test_gpu_in_use_is_left_alone_and_its_sibling_is_tested(measure):
    first, second = measure("rtx4090-2", "gpu.0.processes = 1:512")["gpus"]
    assert {test["state"] for test in first["tests"].values()} == {"skipped"}
    assert "PID 1" in first["tests"]["smoke"]["reason"]
    assert second["tests"]["smoke"]["state"] == "done"


@pytest.fixture
def take_after(monkeypatch):
    """Return a function that lets PID 1 take GPU 0 when a step of the session has ended for the last GPU."""

    def take(step, last):
        whole = getattr(session, step)

        def stepped(*arguments):
            record = whole(*arguments)
            if step != "_matmul" or arguments[-1]["index"] == last:
                with Path(os.environ["GPULAB_SIMULATION"]).open("a", encoding="utf-8") as settings:
                    settings.write("gpu.0.processes = 1:512\n")
            return record

        monkeypatch.setattr(session, step, stepped)

    return take


def test_gpu_that_somebody_takes_after_its_tests_is_left_alone(measure, take_after):
    take_after("_matmul", last=7)
    measured = measure("h100-sxm-8", level="burn-in", burn_in_minutes=0.01)
    first, *others = measured["gpus"]
    assert first["tests"]["smoke"]["state"] == "done"
    ends = {end for pair in measured["peer_copies"]["pairs"] for end in (pair["from"], pair["to"])}
    assert ends == set(range(1, 8))
    assert measured["all_reduce"]["state"] == "skipped"
    for reason in (
        measured["peer_copies"]["taken"][first["uuid"]],
        measured["all_reduce"]["reason"],
        first["tests"]["burn_in"]["reason"],
    ):
        assert "PID 1, user root" in reason
    assert {gpu["tests"]["burn_in"]["state"] for gpu in others} == {"done"}
    found = verify(nodes.node({**nodes.healthy("h100x8"), "measurements": measured}, level="burn-in"))
    told = {r.id for r in found if r.severity == "skipped" and "PID 1" in str(r.reason) + r.summary}
    assert told == {"peer-copies", "all-reduce", "burn-in"}


@pytest.mark.parametrize(("step", "left"), [("_matmul", "peer_copies"), ("_peer_copies", "all_reduce")])
def test_each_step_looks_who_uses_the_gpus(measure, take_after, step, left):
    take_after(step, last=1)
    measured = measure("a100-pcie-2")
    assert measured[left]["state"] == "skipped"
    assert "PID 1, user root" in measured[left]["reason"]


def test_burn_in_looks_who_uses_the_gpus(measure, take_after):
    take_after("_all_reduce", last=0)
    (gpu,) = measure("t4", level="burn-in", burn_in_minutes=0.01)["gpus"]
    assert "PID 1, user root" in gpu["tests"]["burn_in"]["reason"]


def test_errors_in_the_kernel_log_are_counted_by_their_xid(measure, monkeypatch):
    lines = [
        "NVRM: Xid (PCI:0000:01:00): 31, of somebody's program",
        "NVRM: Xid (PCI:0000:01:00): 48, x",
        "NVRM: Xid (PCI:0000:01:00): 48, x",
        "NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:99:00): 79, another GPU's",
    ]
    log = {"readable": True, "events": events("\n".join(lines))}
    monkeypatch.setattr(session, "KernelLogQuery", lambda _node: SimpleNamespace(facts=lambda: log))
    (gpu,) = measure("t4", "gpu.0.address = 0000:01:00.0")["gpus"]
    assert gpu["errors"]["after"]["kernel_log"] == {"48": 2, "fallen_off_the_bus": 1}


def test_node_without_nvml_has_nothing_to_test(measure):
    measured = measure("t4", nvml_library="/nonexistent/libnvidia-ml.so.1")
    assert measured["gpus"] == []
    facts = {**nodes.healthy("t4"), "measurements": measured}
    found = verify(nodes.node(facts, level="standard"))
    assert {r.severity for r in found if r.id in ACTIVE} == {"skipped"}


def test_burn_in_loads_all_gpus_together_and_watches_them(measure, monkeypatch):
    monkeypatch.setattr("ansible_collections.gpulab.node.plugins.module_utils.active.session.SAMPLE_SECONDS", 0.3)
    settings = f"{RATES}\ngpu.1.clock_event_reasons = 0x40\ngpu.1.temp = 91"
    measured = measure("rtx4090-2", settings, level="burn-in", burn_in_minutes=0.02)
    cool, hot = (gpu["tests"]["burn_in"] for gpu in measured["gpus"])
    assert (cool["state"], cool["wrong"], cool["load"]) == ("done", 0, "triad")
    assert cool["samples"] >= 2
    assert hot["hottest_celsius"] == 91
    assert findings(measured) == {("burn-in", "fail", "check_cooling")}


def test_data_is_loaded_for_a_gpu_that_is_idle(measure, monkeypatch, tmp_path):
    (tmp_path / "file").write_bytes(b"data")
    asked = []
    monkeypatch.setattr(session.loading, "measure", lambda *given: asked.append(given) or {"state": "done"})
    measured = measure("t4", python=sys.executable, mounts=(str(tmp_path),))
    ((python, path, numbers, gpu, seconds),) = asked
    assert (python, path, gpu, seconds) == (sys.executable, str(tmp_path), measured["gpus"][0]["uuid"], 10.0)
    assert numbers[-1] == len(os.sched_getaffinity(0))
    assert measured["data_loading"] == [{"state": "done"}]
    assert "read_mbs" in measured["mounts"][0]


def test_while_somebody_works_nothing_is_loaded_or_read(measure, monkeypatch, tmp_path):
    (tmp_path / "file").write_bytes(b"data")
    monkeypatch.setattr(session.idle, "in_use", lambda _users: "in use by anna")
    measured = measure("t4", python=sys.executable, mounts=(str(tmp_path),))
    assert measured["data_loading"] == [{"path": str(tmp_path), "state": "skipped", "reason": "in use by anna"}]
    assert (measured["mounts"][0]["left_alone"], "read_mbs" in measured["mounts"][0]) == ("in use by anna", False)


def test_without_pytorch_nothing_is_loaded(measure, tmp_path):
    (record,) = measure("t4", mounts=(str(tmp_path),))["data_loading"]
    assert record["reason"] == "no interpreter with PyTorch is set (verify_python)"
