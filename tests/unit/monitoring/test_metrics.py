"""Facts become metrics: in base units, with labels, and none where the board has no such thing."""

import shutil
import subprocess

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.monitoring import metrics

from unit.checks import nodes

from .reading import facts, samples

FIRST = {"index": "0"}


def text(*args, **kwargs):
    return metrics.exposition(facts(*args, **kwargs))


def broken(change, model="a100-pcie-x2"):
    """Return the text for a node of which something was changed."""
    found = facts(model)
    change(found)
    return metrics.exposition(found)


@pytest.mark.parametrize("model", nodes.MODELS)
def test_promtool_has_nothing_to_say(model):
    log = {"readable": True, "events": [{"kind": "xid", "xid": 79, "bus_id": "0000:19:00.0", "count": 2, "time": None}]}
    promtool = shutil.which("promtool")
    assert promtool, "promtool is missing: make test-setup installs it"
    whole = text(model, kernel_log=log, mounts={'/data "1"\\': True})
    done = subprocess.run([promtool, "check", "metrics"], input=whole, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_units_are_base_units():
    found = broken(
        lambda f: f["nvml"]["gpus"][0].update(
            power_mw={**f["nvml"]["gpus"][0]["power_mw"], "usage": 123_456},
            memory_mib={"total": 40960, "used": 3, "bar1": 0},
            utilization={"gpu": 87, "memory": 12},
            clocks={**f["nvml"]["gpus"][0]["clocks"], "sm": 1410},
            energy_mj=7_200_500,
        )
    )
    assert samples(found, "gpulab_gpu_power_watts", **FIRST) == [123.456]
    assert samples(found, "gpulab_gpu_energy_joules_total", **FIRST) == [7200.5]
    assert samples(found, "gpulab_gpu_memory_used_bytes", **FIRST) == [3 << 20]
    assert samples(found, "gpulab_gpu_utilization_ratio", unit="gpu", **FIRST) == [0.87]
    assert samples(found, "gpulab_gpu_clock_hertz", clock="sm", **FIRST) == [1.41e9]


def test_every_gpu_is_named():
    labels = {"uuid": "GPU-00000000-0000-0000-0000-000000000001", "index": "1", "model": "NVIDIA A100-PCIE-40GB"}
    assert samples(text(), "gpulab_gpu_temperature_celsius", sensor="gpu", **labels) == [34.0]
    assert samples(text(), "gpulab_gpu_up", bus_id="0000:29:00.0", **labels) == [1.0]


def test_what_a_board_has_not_gives_no_sample():
    geforce = text("rtx4090x2")
    assert samples(geforce, "gpulab_gpu_ecc_errors_total") == []
    assert "gpulab_gpu_nvlink" not in geforce
    assert samples(geforce, "gpulab_gpu_temperature_margin_celsius") == [45.0] * 2
    assert samples(text(), "gpulab_gpu_temperature_margin_celsius") == []
    assert samples(text(), "gpulab_gpu_temperature_limit_celsius", limit="gpu_max") == [85.0] * 2


def test_a_lost_gpu_is_down_and_the_other_is_not():
    found = broken(lambda f: f["nvml"]["gpus"].__setitem__(0, {"index": 0, "error": "GPU_IS_LOST", "code": 15}))
    assert samples(found, "gpulab_gpu_up", bus_id="0000:19:00.0") == [0.0]
    assert samples(found, "gpulab_gpu_up", bus_id="0000:29:00.0") == [1.0]
    assert samples(found, "gpulab_gpu_power_watts", **FIRST) == []


def test_a_driver_that_hangs_takes_all_gpus_down():
    found = broken(lambda f: f["nvml"].update(state="unresponsive", gpus=[]))
    assert samples(found, "gpulab_gpu_up") == [0.0] * 2
    assert samples(found, "gpulab_nvml_state", state="unresponsive") == [1.0]
    assert samples(found, "gpulab_nvml_state", state="ok") == [0.0]


@pytest.mark.parametrize(
    ("driver", "state", "mismatch"),
    [
        ({"loaded": "580.1", "library": "580.1"}, "ok", 0),
        ({"loaded": "580.1", "library": "580.2"}, "ok", 1),
        ({"loaded": "580.1", "library": None}, "ok", 0),
        ({"loaded": None, "library": None}, "mismatch", 1),
    ],
)
def test_another_driver_on_disk_than_loaded(driver, state, mismatch):
    found = broken(lambda f: (f.update(driver=driver), f["nvml"].update(state=state)))
    assert samples(found, "gpulab_driver_mismatch") == [mismatch]


@pytest.mark.parametrize(("width", "slot", "most"), [(16, 16, 16), (8, 16, 16), (8, 8, 8)])
def test_lanes_are_held_against_board_and_slot(width, slot, most):
    def change(found):
        found["nvml"]["gpus"][0]["pcie"].update(width=width, max_width=16)
        found["pci"]["gpus"][0]["bridge_link"]["max_width"] = slot

    found = broken(change)
    assert samples(found, "gpulab_gpu_pcie_width", **FIRST) == [width]
    assert samples(found, "gpulab_gpu_pcie_width_max", **FIRST) == [most]


def test_clock_events_are_told_one_by_one():
    found = broken(lambda f: f["nvml"]["gpus"][0]["clocks"].update(event_reasons=0x8 | 0x40))
    held = [reason for reason in metrics.EVENT_REASONS if samples(found, "gpulab_gpu_clock_event", reason=reason)[0]]
    assert held == ["hw_slowdown", "hw_thermal"]


def test_errors_of_the_kernel_log():
    event = {"kind": "xid", "xid": 79, "bus_id": "0000:19:00.0", "count": 3, "time": "1970-01-01T01:00:10+0100"}
    found = text(kernel_log={"readable": True, "events": [event]})
    assert samples(found, "gpulab_kernel_log_errors", xid="79", bus_id="0000:19:00.0") == [3.0]
    assert samples(found, "gpulab_kernel_log_error_timestamp_seconds", xid="79") == [10.0]


def test_errors_that_differ_in_their_text_only_are_one_series():
    event = {"kind": "xid", "xid": 149, "bus_id": "0000:19:00.0", "count": 3, "time": "1970-01-01T01:00:20+0100"}
    earlier = {**event, "count": 1, "time": "1970-01-01T01:00:10+0100"}
    found = text(kernel_log={"readable": True, "events": [event, earlier, {**event, "time": None}]})
    assert samples(found, "gpulab_kernel_log_errors", xid="149") == [7.0]
    assert samples(found, "gpulab_kernel_log_error_timestamp_seconds", xid="149") == [20.0]


@pytest.mark.parametrize(("xid", "severity"), [(79, "fail"), (31, "info"), (999, "warn")])
def test_an_error_is_as_grave_as_in_the_proof(xid, severity):
    event = {"kind": "xid", "xid": xid, "bus_id": "0000:19:00.0", "count": 1, "time": None}
    found = text(kernel_log={"readable": True, "events": [event]})
    assert samples(found, "gpulab_kernel_log_errors", severity=severity) == [1.0]


@pytest.mark.parametrize("time", [None, "", "yesterday", "2026-11-21T08:15:00"])
def test_a_time_that_is_none_gives_no_sample(time):
    assert metrics.seconds_of(time) is None


@pytest.mark.parametrize(("simulated", "told"), [(None, 0), ("simulated GPU", 1)])
def test_simulated_gpus_are_named_as_such(simulated, told):
    assert samples(text(simulated=simulated), "gpulab_gpus_simulated") == [told]


def test_mounts():
    found = text(mounts={"/data": False, "/home": True})
    assert samples(found, "gpulab_mount_mounted", mountpoint="/data") == [0.0]
    assert samples(found, "gpulab_mount_mounted", mountpoint="/home") == [1.0]


def test_processes_are_counted_by_user():
    processes = [{"pid": pid, "memory_mib": 1} for pid in (7, 8, 9, 10)]
    given = facts(owners={7: "li", 8: "wei", 9: "li"})  # the last one has ended
    given["nvml"]["gpus"][0]["processes"] = processes
    found = metrics.exposition(given)
    assert samples(found, "gpulab_gpu_user_processes", user="li") == [2.0]
    assert samples(found, "gpulab_gpu_user_processes") == [2.0, 1.0]
