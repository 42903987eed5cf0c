"""Reading NVML: against the simulated library of tests/sim, and against stubs that hang, crash or refuse."""

import importlib.util
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.nvml import library as nvml
from ansible_collections.gpulab.node.plugins.module_utils.nvml import readings
from ansible_collections.gpulab.node.plugins.module_utils.nvml.query import NvmlQuery

from unit.checks.nodes import MIG_PROFILES

SIM = Path(__file__).parents[2] / "sim"
COUNT = "int nvmlInit_v2(void) { return 0; } int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }"
HANDLE = "int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) { *h = (void *)8; %s; return 0; }"

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="the stubs and the simulated NVML need gcc")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Build the simulated libnvidia-ml.so.1."""
    spec = importlib.util.spec_from_file_location("sim_build", SIM / "build.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    return build.build(tmp_path_factory.mktemp("sim")) / nvml.LIBRARY


@pytest.fixture
def simulated(library, tmp_path, monkeypatch):
    """Read a model of tests/sim, with some settings of its node changed."""

    def read(model, *changes, seconds=5):
        settings = tmp_path / "gpu.conf"
        settings.write_text("\n".join([(SIM / "models" / f"{model}.conf").read_text(), *changes]))
        monkeypatch.setenv("GPULAB_SIMULATION", str(settings))
        return NvmlQuery(seconds, str(library)).facts()

    return read


@pytest.fixture
def stub(tmp_path):
    """Build a library from a few lines of C."""

    def build(source):
        library = tmp_path / "stub.so"
        text = "#include <unistd.h>\n#include <stdlib.h>\n" + source
        command = ["gcc", "-shared", "-fPIC", "-x", "c", "-o", str(library), "-"]
        subprocess.run(command, input=text.encode(), check=True)
        return str(library)

    return build


def test_eight_gpus(simulated):
    facts = simulated("h100-sxm-8")
    assert facts["state"] == "ok"
    assert facts["simulated"].startswith("simulated GPU")
    assert [gpu["index"] for gpu in facts["gpus"]] == list(range(8))
    assert len({gpu["uuid"] for gpu in facts["gpus"]}) == 8
    gpu = facts["gpus"][0]
    assert gpu["device"] == "10de:2330"
    assert gpu["bus_id"].startswith("0000:")
    assert gpu["compute_capability"] == "9.0"
    assert gpu["architecture"] == "hopper"
    assert gpu["memory_mib"]["total"] == 81559
    assert gpu["ecc"]["mode"] == {"enabled": True, "pending": True}
    assert gpu["remapped_rows"]["pending"] is False
    assert gpu["fabric"]["state"] == "completed"
    assert len(gpu["nvlink"]["links"]) == 18
    assert all(link["active"] is True for link in gpu["nvlink"]["links"])
    assert len(facts["peers"]) == 28


def test_what_a_board_lacks_is_told_from_what_fails(simulated):
    """A GeForce has no serial; an infoROM that cannot be read is an error."""
    gpu = simulated("rtx4090-2", "gpu.0.inforom = ERR:999")["gpus"][0]
    assert gpu["serial"] == {"unsupported": "NOT_SUPPORTED"}
    assert gpu["inforom"]["version"] == {"error": "UNKNOWN", "code": 999}


def test_a_gpu_tells_what_it_can_be_cut_into_and_what_it_is_cut_into(simulated):
    """The second instance has two compute instances, the third none; GPU 1 is whole."""
    cut = "gpu.0.mig = 1", "gpu.0.mig_pending = 1", "gpu.0.mig_instances = 4/9/4/0.2 1/14/0/0.0,1.0 2/19/2/-"
    gpus = simulated("a100-pcie-2", *cut)["gpus"]
    assert sorted(gpus[0]["mig_profiles"], key=lambda one: one["id"]) == sorted(MIG_PROFILES, key=lambda one: one["id"])
    assert [(one["name"], one["id"], one["placement"], one["compute_slices"]) for one in gpus[0]["mig_instances"]] == [
        ("2g.10gb(1c+1c)", 1, [0, 2], [1, 1]),
        ("1g.5gb()", 2, [2, 1], []),
        ("3g.20gb", 4, [4, 4], [3]),
    ]
    devices = [one["devices"] for one in gpus[0]["mig_instances"]]
    assert [[device["uuid"][18:22] for device in found] for found in devices] == [["0100", "0101"], [], ["0400"]]
    assert sorted(device["index"] for found in devices for device in found) == [0, 1, 2]
    assert (gpus[1]["mig_profiles"], gpus[1]["mig_instances"]) == (gpus[0]["mig_profiles"], [])


@pytest.mark.parametrize(
    ("model", "changes", "profiles", "instances"),
    [
        ("t4", (), "NOT_SUPPORTED", "NOT_SUPPORTED"),
        ("a100-pcie-2", ("absent_functions = nvmlDeviceGetGpuInstanceProfileInfoV",), "FUNCTION_NOT_FOUND", None),
        ("a100-pcie-2", ("gpu.*.mig = 1", "gpu.*.mig_instances = ERR:4"), None, "NO_PERMISSION"),
    ],
)
def test_instances_that_cannot_be_read_say_why(simulated, model, changes, profiles, instances):
    gpu = simulated(model, *changes)["gpus"][0]
    why = [read.get("unsupported", read.get("error")) if isinstance(read, dict) else None for read in (
        gpu["mig_profiles"], gpu["mig_instances"],
    )]  # fmt: skip
    assert why == [profiles, instances]


def test_a_superchips_link_to_its_processor_is_read(simulated):
    assert simulated("gb200-4")["gpus"][0]["c2c"] is True
    assert simulated("t4")["gpus"][0]["c2c"] == {"unsupported": "NOT_SUPPORTED"}


def test_lost_gpu_does_not_hide_the_others(simulated):
    facts = simulated("h100-sxm-8", "gpu.3.lost = 15")
    assert facts["gpus"][3] == {"index": 3, "error": "GPU_IS_LOST", "code": 15}
    assert [gpu["index"] for gpu in facts["gpus"]] == list(range(8))
    assert facts["gpus"][4]["name"] == facts["gpus"][2]["name"]
    assert len(facts["peers"]) == 21


@pytest.mark.parametrize(
    ("change", "read", "expected"),
    [
        ("gpu.0.temp = 91", lambda gpu: gpu["temperature"]["gpu"], 91),
        (
            "gpu.0.ecc_volatile_uncorrected = 5000000000",
            lambda gpu: gpu["ecc"]["volatile"]["uncorrected"],
            5_000_000_000,
        ),
        ("gpu.0.remapped_pending = 1", lambda gpu: gpu["remapped_rows"]["pending"], True),
        ("gpu.0.remapped_failure = 1", lambda gpu: gpu["remapped_rows"]["failure"], True),
        ("gpu.0.inforom_valid = ERR:14", lambda gpu: gpu["inforom"]["valid"], False),
        ("gpu.0.recovery_action = 2", lambda gpu: gpu["recovery_action"], 2),
        ("gpu.0.energy_mj = 5000000000", lambda gpu: gpu["energy_mj"], 5_000_000_000),
        ("gpu.0.persistence = 1", lambda gpu: gpu["persistence"], True),
        ("gpu.0.pcie_width = 8", lambda gpu: gpu["pcie"]["width"], 8),
    ],
)
def test_setting_is_read(simulated, change, read, expected):
    gpus = simulated("a100-pcie-2", change)["gpus"]
    assert read(gpus[0]) == expected
    assert read(gpus[1]) != expected


@pytest.mark.parametrize(
    ("code", "state"), [(9, "not_loaded"), (18, "mismatch"), (999, "error"), (4, "error")], ids=str
)
def test_library_that_refuses_to_start(stub, code, state):
    facts = NvmlQuery(5, stub(f"int nvmlInit_v2(void) {{ return {code}; }}")).facts()
    assert facts["state"] == state
    assert facts["error"] == {"code": code, "text": nvml.ERRORS[code]}
    assert facts["gpus"] == []


def test_library_that_is_absent(tmp_path):
    facts = NvmlQuery(5, str(tmp_path / "libnvidia-ml.so.1")).facts()
    assert facts["state"] == "absent"
    assert facts["error"]["code"] == 12


def test_library_of_something_else(stub):
    """A file by that name without a single NVML function."""
    facts = NvmlQuery(5, stub("int nothing(void) { return 0; }")).facts()
    assert facts["state"] == "error"
    assert facts["error"]["text"] == "FUNCTION_NOT_FOUND"


def test_driver_without_gpus(stub):
    source = "int nvmlInit_v2(void) { return 0; } int nvmlDeviceGetCount_v2(unsigned *n) { *n = 0; return 0; }"
    facts = NvmlQuery(5, stub(source)).facts()
    assert facts["state"] == "no_devices"
    assert facts["simulated"] is None


def test_old_library_with_few_functions(stub):
    """Each missing function is one unsupported reading, and nothing more."""
    facts = NvmlQuery(5, stub(COUNT + HANDLE % "")).facts()
    assert facts["state"] == "ok"
    gpu = facts["gpus"][1]
    assert gpu["name"] == {"unsupported": "FUNCTION_NOT_FOUND"}
    assert gpu["clocks"]["event_reasons"] == {"unsupported": "FUNCTION_NOT_FOUND"}
    assert gpu["nvlink"]["links"] == []


def test_clock_reasons_by_their_old_name(stub):
    source = "int nvmlDeviceGetCurrentClocksThrottleReasons(void *h, unsigned long long *r) { *r = 0x40; return 0; }"
    assert NvmlQuery(5, stub(COUNT + HANDLE % "" + source)).facts()["gpus"][0]["clocks"]["event_reasons"] == 0x40


def test_fabric_by_the_call_that_the_driver_knows(stub):
    """A driver that knows version 2 of the fabric's structure refuses version 3."""
    source = """
    int nvmlDeviceGetGpuFabricInfoV(void *h, unsigned *info) {
        if (*info >> 24 != 2) return 25;
        info[5] = 0; info[6] = 7; info[7] = 0x99999903; info[8] = 0x1aa; return 0;
    }"""
    fabric = NvmlQuery(5, stub(COUNT + HANDLE % "" + source)).facts()["gpus"][0]["fabric"]
    assert fabric["state"] == "completed"
    assert fabric["clique"] == 7
    assert fabric["health_mask"] == 0x1AA
    assert fabric["health_summary"] is None


def test_hung_driver_is_an_answer(stub):
    before = time.monotonic()
    facts = NvmlQuery(0.3, stub("int nvmlInit_v2(void) { sleep(60); return 0; }")).facts()
    assert time.monotonic() - before < 1.3
    assert facts["state"] == "unresponsive"
    assert facts["error"]["text"] == "NVML did not answer in time, at the library"


def test_one_hung_gpu_does_not_lose_the_one_before(stub):
    facts = NvmlQuery(0.5, stub(COUNT + HANDLE % "if (i == 1) sleep(60)")).facts()
    assert facts["state"] == "unresponsive"
    assert facts["error"]["text"] == "NVML did not answer in time, at GPU 1"
    assert [gpu["index"] for gpu in facts["gpus"]] == [0]


def test_crash_in_the_driver_is_an_answer(stub):
    facts = NvmlQuery(5, stub(COUNT + HANDLE % "if (i == 1) abort()")).facts()
    assert facts["state"] == "error"
    assert facts["error"]["text"] == "the reading process died (signal 6), at GPU 1"
    assert [gpu["index"] for gpu in facts["gpus"]] == [0]


def test_gpu_processes_in_any_number(stub):
    """More processes than the first buffer holds."""
    source = """
    struct process { unsigned pid; unsigned long long memory; unsigned instance, compute; };
    int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *n, struct process *p) {
        unsigned have = 200, room = *n;
        *n = have;
        if (room < have) return 7;
        for (unsigned i = 0; i < have; i++) { p[i].pid = 1000 + i; p[i].memory = i ? 3ull << 20 : -1ull; }
        return 0;
    }
    int nvmlDeviceGetGraphicsRunningProcesses_v3(void *h, unsigned *n, struct process *p) { *n = 0; return 0; }"""
    processes = NvmlQuery(5, stub(COUNT + HANDLE % "" + source)).facts()["gpus"][0]["processes"]
    assert len(processes) == 200
    assert processes[0] == {"pid": 1000, "memory_mib": None}
    assert processes[1] == {"pid": 1001, "memory_mib": 3}


def test_bus_id_is_the_kernels_address():
    assert readings.sysfs_address("00000000:3B:00.0") == "0000:3b:00.0"
    assert readings.sysfs_address("00010001:01:00.0") == "0001:01:00.0"
