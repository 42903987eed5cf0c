"""The simulated NVML, read by NVIDIA's own Python binding, says what the settings say and fails as they say."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

MODELS = Path(__file__).parents[2] / "sim/models"
# Settings that NVML has no function to read: most are for the PCI tree and the CUDA driver.
NOT_IN_NVML = {"class", "bridge_pcie_width_max", "copy_to_device_gbs", "copy_to_host_gbs", "memory_gbs", "peer_gbs"}
NOT_IN_NVML |= {"clock_locked_min", "clock_locked_max"}  # set, and never told
NOT_IN_NVML |= {"mig_at_once"}
TWO_GPUS = (MODELS / "a100-pcie-2.conf").read_text()
NOT_SUPPORTED, ABSENT = "error 3", "error 13"


def gpu_settings(text, gpu):
    """Return the settings of one GPU, found by other means than the simulation's: later lines replace earlier ones."""
    found = re.findall(rf"^gpu\.(?:\*|{gpu})\.(\w+) *=[ \t]*([^#\n]*?)[ \t]*$", text, re.MULTILINE)
    return dict(found)


def as_reading(value):
    """Turn a setting into what NVML gives for it."""
    if value == "N/A":
        return NOT_SUPPORTED
    if re.fullmatch(r"-?\d{1,12}|0x[0-9a-f]+", value):
        return int(value, 0)
    return float(value) if re.fullmatch(r"\d+\.\d+", value) else value


@pytest.mark.parametrize("model", sorted(MODELS.glob("*.conf")), ids=lambda path: path.stem)
def test_every_field_of_every_gpu_reads_as_the_model_has_it(run, model):
    text = model.read_text()
    node = run("read_nvml.py", text)
    assert node["driver_version"] == re.search(r"^driver_version = (\S+)", text, re.MULTILINE)[1]
    assert len(node["gpus"]) == int(re.search(r"^count = (\d+)", text, re.MULTILINE)[1])
    for gpu, reading in enumerate(node["gpus"]):
        settings = gpu_settings(text, gpu)
        assert set(settings) - NOT_IN_NVML <= set(reading), "a setting that no function reads"
        strings = {"serial", "compute_capability", "processes", "nvlinks_down", "board_part_number"}
        if settings["mig"] == "0":
            settings["mig_instances"] = "N/A"
        expected = {
            key: value if key in strings and value != "N/A" else as_reading(value)
            for key, value in settings.items()
            if key not in NOT_IN_NVML
        }
        if settings["ecc"] == "0":  # no counters while ECC is off
            expected.update({key: NOT_SUPPORTED for key in expected if re.match("ecc_.*corrected", key)})
        assert {key: reading[key] for key in expected} == expected


@pytest.mark.parametrize(("value", "error"), [("N/A", NOT_SUPPORTED), ("ABSENT", ABSENT), ("ERR:16", "error 16")])
def test_every_field_of_one_gpu_can_fail(run, value, error):
    healthy = run("read_nvml.py", TWO_GPUS)["gpus"]
    present = [key for key, reading in healthy[1].items() if reading not in {NOT_SUPPORTED, ABSENT}]
    faults = "".join(f"gpu.1.{key} = {value}\n" for key in present)
    gpus = run("read_nvml.py", TWO_GPUS + faults)["gpus"]
    assert {key: gpus[1][key] for key in present} == dict.fromkeys(present, error)
    assert gpus[0] == healthy[0]


@pytest.mark.parametrize(
    "readings",
    [{"temp"}, {"vbios"}, {"pcie_width"}, {"power_w"}, {"memory_mib", "memory_reserved_mib", "memory_used_mib"}],
    ids=min,
)
def test_a_field_fails_alone_or_with_those_of_the_same_call(run, readings):
    healthy = run("read_nvml.py", TWO_GPUS)["gpus"][1]
    gpu = run("read_nvml.py", f"{TWO_GPUS}gpu.1.{min(readings)} = ERR:16\n")["gpus"][1]
    assert gpu == {**healthy, **dict.fromkeys(readings, "error 16")}


def test_a_lost_gpu_has_no_handle_and_leaves_the_others_alone(run):
    gpus = run("read_nvml.py", f"{TWO_GPUS}gpu.0.lost = 15\n")["gpus"]
    assert gpus[0] == "error 15"
    assert gpus[1]["temp"] == 33


@pytest.mark.parametrize("code", [9, 18, 999])
def test_initialisation_fails_as_set(run, code):
    assert run("read_nvml.py", f"{TWO_GPUS}init = {code}\n") == {"init": f"error {code}"}


def test_the_driver_may_show_fewer_gpus_than_the_bus(run):
    assert len(run("read_nvml.py", f"{TWO_GPUS}driver_count = 1\n")["gpus"]) == 1


def test_an_older_driver_lacks_functions(run):
    names = "nvmlDeviceGetTemperatureV nvmlDeviceGetNumaNodeId"
    gpus = run("read_nvml.py", f"{TWO_GPUS}absent_functions = {names}\n")["gpus"]
    assert gpus[0]["numa_node"] == ABSENT
    assert gpus[0]["temp"] == 33


@pytest.mark.parametrize(
    ("installed", "outcome"),
    [("550.163.01", None), ("550.163.010", "error 18"), ("570.1.1", "error 18"), (None, "error 12")],
)
def test_another_installed_library_than_the_loaded_module_is_a_mismatch(run, tmp_path, installed, outcome):
    if installed:
        (tmp_path / f"libnvidia-ml.so.{installed}").touch()
    node = run("read_nvml.py", f"{TWO_GPUS}installed_library = {tmp_path}/libnvidia-ml.so.*\n")
    assert node.get("init") == outcome


def test_processes_are_listed(run):
    gpus = run("read_nvml.py", f"{TWO_GPUS}gpu.1.processes = 4242:1024 4243:512\n")["gpus"]
    assert [gpu["processes"] for gpu in gpus] == ["", "4242:1024 4243:512"]


def blocks_sigterm(pid):
    blocked = re.search(r"^SigBlk:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1]
    return int(blocked, 16) >> (signal.SIGTERM - 1) & 1


@pytest.mark.parametrize("setting", ["hang = 1", "gpu.1.hang = 1"])
def test_a_hung_driver_ends_by_sigkill_only(start, setting):
    child = start("read_nvml.py", f"{TWO_GPUS}{setting}\n")
    deadline = time.monotonic() + 30
    while not blocks_sigterm(child.pid):
        assert child.poll() is None, "it did not hang"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    child.terminate()
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(timeout=0.2)
    child.kill()
    assert child.wait(timeout=5) == -signal.SIGKILL
    child.stdout.close()


def test_a_delay_slows_every_call(run):
    fast, slow = (run("set_nvml.py", f"{TWO_GPUS}{setting}", "time") for setting in ("", "gpu.0.delay_ms = 100\n"))
    assert fast["seconds"] < 0.1 <= slow["seconds"]


@pytest.mark.skipif(os.geteuid() != 0, reason="setting needs root, in the simulation as on a GPU")
def test_what_is_set_is_read_by_the_next_program(run, tmp_path):
    written = run("set_nvml.py", TWO_GPUS, "set")
    assert written == {"persistence": None, "power_limit": None, "power_limit_too_high": "error 2", "ecc": None}
    gpus = run("read_nvml.py", TWO_GPUS)["gpus"]
    assert [(gpu["persistence"], gpu["power_limit_w"], gpu["ecc"], gpu["ecc_pending"]) for gpu in gpus] == [
        (1, 200, 1, 0),
        (0, 250, 1, 1),
    ]
    assert (tmp_path / "gpu.conf").read_text() == TWO_GPUS


def test_setting_can_be_refused(run):
    refused = run("set_nvml.py", f"{TWO_GPUS}gpu.*.set_persistence = ERR:4\n", "set")
    assert refused["persistence"] == "error 4"


def test_the_library_says_that_it_simulates(run):
    assert run("set_nvml.py", TWO_GPUS, "announce") == {
        "simulation": "simulated GPU (gpulab tests/sim): NVIDIA A100-PCIE-40GB x2"
    }


def test_gpus_of_two_numa_nodes_meet_at_the_system_level(run):
    node, system = 40, 50
    levels = run("set_nvml.py", (MODELS / "h100-sxm-8.conf").read_text(), "peers")["levels"]
    assert levels == [node, node, node, system, system, system, system]
