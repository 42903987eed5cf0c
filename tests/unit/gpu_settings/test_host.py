"""Settings of GPUs, set through the simulated NVML of tests/sim and read back."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.gpu_settings import host, plan
from sim.build import build

MODELS = Path(__file__).parents[2] / "sim/models"

pytestmark = [
    pytest.mark.skipif(not shutil.which("gcc"), reason="the simulated NVML needs gcc"),
    pytest.mark.skipif(os.geteuid() != 0, reason="setting needs root, in the simulation as on a GPU"),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return str(build(tmp_path_factory.mktemp("simulated")) / "libnvidia-ml.so.1")


class Simulated:
    """Two A100, with what a test lets go wrong."""

    def __init__(self, directory):
        """Start with the model alone."""
        self.file = directory / "gpu.conf"
        self.inject()

    def inject(self, *lines):
        """Let the node behave otherwise."""
        text = (MODELS / "a100-pcie-2.conf").read_text(encoding="utf-8")
        self.file.write_text("\n".join([text, *lines, ""]), encoding="utf-8")

    def gpus(self):
        """Read them."""
        return host.facts()["gpus"]

    def bring(self, **values):
        """Set what differs; return why each step was not taken, by GPU and name."""
        steps = plan.plan({"all": values}, self.gpus(), {}, host.locked_clocks())
        return {(step.index, step.name): why for step, why in host.apply(steps)}


@pytest.fixture
def node(library, tmp_path, monkeypatch):
    simulated = Simulated(tmp_path)
    monkeypatch.setenv("GPULAB_SIMULATION", str(simulated.file))
    monkeypatch.setattr(host, "LIBRARY", library)
    monkeypatch.setattr(host, "LOCKED", tmp_path / "run/locked.json")
    monkeypatch.setattr(host, "READ_SECONDS", 60)
    return simulated


EVERYTHING = {
    "persistence": True,
    "accounting": True,
    "compute_mode": "exclusive_process",
    "ecc": False,
    "mig": True,
    "power_limit_watts": 200,
    "locked_clocks_mhz": [300, 1200],
}


def test_every_setting_is_set_and_read_back_and_then_left_alone(node):
    assert node.bring(**EVERYTHING) == {(gpu, name): "" for name in EVERYTHING for gpu in (0, 1)}
    gpu = node.gpus()[1]
    assert (gpu["persistence"], gpu["accounting"], gpu["compute_mode"]) == (True, True, 3)
    assert (gpu["ecc"]["mode"], gpu["mig"]) == (
        {"enabled": True, "pending": False},
        {"enabled": False, "pending": True},
    )
    assert (gpu["power_mw"]["limit"], gpu["clocks"]["sm"]) == (200_000, 300)
    assert node.bring(**EVERYTHING) == {}


def test_clocks_are_given_free_again(node):
    node.bring(locked_clocks_mhz=[300, 1200])
    locked = host.locked_clocks()
    remembered = {gpu: {"locked_clocks_mhz": None} for gpu in locked}
    steps = plan.plan({}, node.gpus(), remembered, locked)
    assert [why for _step, why in host.apply(steps)] == ["", ""]
    assert node.gpus()[0]["clocks"]["sm"] == 210
    assert host.locked_clocks() == {}


@pytest.mark.parametrize(
    "wish",
    [
        ("persistence", True, "persistence"),
        ("accounting", True, "accounting"),
        ("compute_mode", "prohibited", "compute_mode"),
        ("ecc", False, "ecc_pending"),
        ("mig", True, "mig_pending"),
        ("power_limit_watts", 200, "power_limit_w"),
        ("locked_clocks_mhz", [300, 1200], "clock_locked_max"),
    ],
)
@pytest.mark.parametrize(("code", "error"), [(3, "NOT_SUPPORTED"), (4, "NO_PERMISSION"), (19, "IN_USE")])
def test_what_one_gpu_refuses_is_told_and_the_other_has_it(node, wish, code, error):
    name, value, field = wish
    node.inject(f"gpu.0.set_{field} = ERR:{code}")
    assert node.bring(**{name: value}) == {(0, name): error, (1, name): ""}
    steps = plan.plan({"all": {name: value}}, node.gpus(), {}, host.locked_clocks())
    assert [step.index for step in steps] == [0]
    refusal = host.refusal(steps[0], error)
    assert (refusal.code, name in refusal.cause, error in refusal.cause) == ("H125", True, True)


@pytest.mark.parametrize("error", [*host.WAYS, "UNKNOWN"])
def test_each_error_has_a_remedy_of_its_own(error):
    step = plan.SettingStep("0000:01:00.0", "GPU-1", 0, "ecc", before=True, after=False)
    way = host.WAYS.get(error, host.OTHERWISE)
    assert host.refusal(step, error).remedy == f"{way}."


def test_a_driver_that_says_yes_and_does_nothing_is_found_out(node):
    node.inject("gpu.0.set_power_limit_w = KEPT")
    why = node.bring(power_limit_watts=200)
    assert why == {(0, "power_limit_watts"): "the driver accepted it, but reports 250", (1, "power_limit_watts"): ""}


def test_clocks_that_stay_up_are_found_out(node, monkeypatch):
    monkeypatch.setattr(host, "PAUSE", 0.01)
    node.inject("gpu.0.set_clock_locked_max = KEPT", "gpu.0.clock_sm = 1410")
    assert "1410 MHz" in node.bring(locked_clocks_mhz=[210, 900])[0, "locked_clocks_mhz"]
    assert len(host.locked_clocks()) == 1


def test_a_driver_that_hangs_costs_the_deadline_and_no_more(node, monkeypatch):
    monkeypatch.setattr(host, "SET_SECONDS", 3)
    node.inject("gpu.1.set_persistence = HANG")
    started = time.monotonic()
    answers = node.bring(persistence=True, power_limit_watts=200)
    assert time.monotonic() - started < 60
    assert answers[0, "persistence"] == ""
    late = {"the driver did not answer in time"}
    assert {why for step, why in answers.items() if step != (0, "persistence")} == late


def test_a_gpu_in_use_keeps_mig(node):
    node.inject("gpu.0.processes = 4242:100")
    assert node.bring(mig=True) == {(0, "mig"): "IN_USE", (1, "mig"): ""}


def boot(settings):
    """Do what the unit does at boot."""
    return host.at_boot(f"# Written by gpulab\n{json.dumps(settings)}")


@pytest.mark.usefixtures("node")
def test_the_unit_sets_what_the_boot_took_away():
    settings = {"all": {"power_limit_watts": 200}, "gpus": {}, "power_budget_watts": None}
    done, failed = boot(settings)
    assert done[0] == "GPU 0000:3b:00.0: power_limit_watts 250 -> 200"
    assert failed == []
    assert boot(settings) == ([], [])


def test_the_unit_leaves_a_gpu_in_use_alone_where_its_user_would_notice(node):
    node.inject("gpu.0.processes = 4242:100")
    done, failed = boot({"all": {"power_limit_watts": 200, "compute_mode": "prohibited"}})
    assert len(done) == 3
    assert failed == ['GPU 0000:3b:00.0: compute_mode "default" -> "prohibited": unchanged, because the GPU is in use']


def test_the_unit_tells_what_was_refused(node):
    node.inject("gpu.0.set_power_limit_w = ERR:4")
    done, failed = boot({"all": {"power_limit_watts": 200}})
    assert (len(done), len(failed)) == (1, 1)
    assert failed[0].startswith("GPULAB-H125")


def lose_the_first(node):
    """Let the first GPU fall off the bus, so that the second has its index; return their UUIDs."""
    first, second = (gpu["uuid"] for gpu in node.gpus())
    node.inject("count = 1", "gpu.0.address = 0000:af:00.0", f"gpu.0.uuid = {second}")
    return first, second


@pytest.mark.parametrize("name", [0, "0000:3b:00.0"])
def test_the_unit_gives_no_gpu_the_settings_of_one_that_is_lost(node, name):
    wish = {"all": {"power_limit_watts": 200}, "gpus": {name: {"power_limit_watts": 180}}, "power_budget_watts": None}
    kept = plan.resolved(wish, node.gpus())
    first, _second = lose_the_first(node)
    done, failed = boot(kept)
    assert done == ["GPU 0000:af:00.0: power_limit_watts 250 -> 200"]
    assert failed == [f"GPULAB-H120 gpu_settings_per_gpu names {first}, but this node has no such GPU."]


@pytest.mark.usefixtures("node")
def test_the_unit_sets_the_rest_where_a_name_means_no_gpu():
    done, failed = boot({"all": {"power_limit_watts": 200}, "gpus": {"3": {"power_limit_watts": 180}}})
    assert (len(done), [line[:11] for line in failed]) == (2, ["GPULAB-H120"])


@pytest.mark.parametrize(
    ("wish", "code"),
    [({"power_limit_watts": 100}, "H123"), ({"mig_instances": ["9g.90gb"]}, "H127"), ({"mig": True}, "H122")],
)
def test_the_unit_sets_the_other_gpus_where_one_is_refused_its_settings(node, wish, code):
    node.inject("gpu.0.mig_pending = N/A" if code == "H122" else "")
    done, failed = boot({"all": {"power_limit_watts": 200}, "gpus": {"0": wish}})
    assert done == ["GPU 0000:af:00.0: power_limit_watts 250 -> 200"]
    assert [line[:11] for line in failed] == [f"GPULAB-{code}"]


@pytest.mark.usefixtures("node")
def test_the_unit_keeps_declared_limits_where_the_power_budget_cannot_be_kept():
    done, failed = boot({"gpus": {"0": {"power_limit_watts": 200}}, "power_budget_watts": 210})
    assert done == ["GPU 0000:3b:00.0: power_limit_watts 250 -> 200"]
    assert [line[:11] for line in failed] == ["GPULAB-H121"]


# --- instances of MIG ---

AT_ONCE = "gpu.*.mig_at_once = 1"
CUT = ("gpu.*.mig = 1", "gpu.*.mig_pending = 1", "gpu.*.mig_instances = 1/9/0/0.2 2/9/4/0.2")  # two of 3g.20gb
AGAIN = "the former instances are restored"


def layouts(node):
    """Return what each GPU is cut into."""
    return [plan.live(gpu, "mig_instances", {}) for gpu in node.gpus()]


def test_instances_are_made_with_mig_itself_and_then_left_alone(node):
    node.inject(AT_ONCE)
    wish = {"mig_instances": ["1g.5gb+me", "4g.20gb", "2g.10gb"]}
    assert node.bring(**wish) == {(gpu, name): "" for name in ("mig", "mig_instances") for gpu in (0, 1)}
    assert layouts(node) == [["4g.20gb", "2g.10gb", "1g.5gb+me"]] * 2
    devices = [device["uuid"] for gpu in node.gpus() for one in gpu["mig_instances"] for device in one["devices"]]
    assert len(set(devices)) == 6
    assert node.bring(**wish) == {}
    assert node.bring(mig=True) == {}, "instances that nobody declares are left alone"
    assert node.bring(mig_instances=[]) == {(0, "mig_instances"): "", (1, "mig_instances"): ""}
    assert layouts(node) == [[], []]


def test_instances_wait_for_a_boot_with_mig(node):
    wish = {"mig_instances": ["7g.40gb"]}
    assert node.bring(**wish)[0, "mig_instances"] == host.WAITS
    assert node.bring(**wish) == {}
    node.inject("gpu.*.mig = 1", "gpu.*.mig_pending = 1")
    done, failed = boot({"all": wish})
    assert done == [f'GPU {gpu}: mig_instances [] -> ["7g.40gb"]' for gpu in ("0000:3b:00.0", "0000:af:00.0")]
    assert (failed, boot({"all": wish})) == ([], ([], []))


@pytest.mark.usefixtures("node")
def test_at_boot_mig_that_takes_another_boot_is_told():
    done, failed = boot({"all": {"mig_instances": ["7g.40gb"]}})
    assert (len(done), len(failed)) == (2, 2)
    assert failed[0].endswith(host.WAITS)


def test_an_instance_that_lies_where_one_is_wanted_stays(node):
    node.inject(*CUT)
    kept = node.gpus()[0]["mig_instances"][0]
    node.bring(mig_instances=["3g.20gb", "2g.10gb"])
    assert node.gpus()[0]["mig_instances"][0] == kept
    assert layouts(node)[0] == ["3g.20gb", "2g.10gb"]


@pytest.mark.parametrize("fault", ["mig_refuse = 14", "mig_refuse_compute = 1"])
def test_what_was_there_is_made_again_where_an_instance_cannot_be_made(node, fault):
    node.inject(*CUT, f"gpu.0.{fault}")
    former = node.gpus()[0]["mig_instances"]
    why = node.bring(mig_instances=["1g.5gb", "1g.5gb", "2g.10gb", "2g.10gb"])
    assert why == {(0, "mig_instances"): f"INSUFFICIENT_RESOURCES: {AGAIN}", (1, "mig_instances"): ""}
    assert node.gpus()[0]["mig_instances"] == former
    assert layouts(node)[1] == ["2g.10gb", "2g.10gb", "1g.5gb", "1g.5gb"]


def test_what_cannot_be_made_again_either_is_told(node):
    node.inject(*CUT, "gpu.0.mig_refuse = 0", "gpu.0.mig_refuse_compute = 2")
    why = node.bring(mig_instances=["7g.40gb"])[0, "mig_instances"]
    assert why.startswith("INSUFFICIENT_RESOURCES: the former instances could not be restored (INSUFFICIENT")


def test_compute_instances_of_somebody_elses_come_back_as_they_were(node):
    node.inject(*CUT, "gpu.0.mig_instances = 1/9/0/0.0,1.1 2/19/4/-", "gpu.1.mig_instances =")
    theirs = [["3g.20gb(1c+2c)", "1g.5gb()"], []]
    assert layouts(node) == theirs
    steps = plan.plan({"all": {"mig_instances": ["7g.40gb"]}}, node.gpus())
    remembered = plan.to_remember({}, node.gpus(), {"all": {"mig_instances": ["7g.40gb"]}}, steps, steps)
    host.apply(steps)
    assert layouts(node) == [["7g.40gb"]] * 2
    assert [why for _step, why in host.apply(plan.plan({}, node.gpus(), remembered))] == ["", ""]
    assert layouts(node) == theirs


def test_instances_go_before_mig_turns_off(node):
    node.inject(AT_ONCE, *CUT)
    steps = plan.plan({"all": {"mig": False}}, node.gpus())
    assert [(step.index, step.name) for step in steps] == [
        (0, "mig_instances"), (1, "mig_instances"), (0, "mig"), (1, "mig"),
    ]  # fmt: skip
    assert {why for _step, why in host.apply(steps)} == {""}
    assert node.gpus()[0]["mig"] == {"enabled": False, "pending": False}


def test_instances_in_use_stay(node):
    node.inject(*CUT, "gpu.0.processes = 4242:100")
    former = layouts(node)
    assert node.bring(mig_instances=[])[0, "mig_instances"] == f"IN_USE: {AGAIN}"
    assert layouts(node) == [former[0], []]


def test_a_driver_that_says_yes_and_makes_no_instance_is_found_out(node):
    node.inject(*CUT, "gpu.0.set_mig_instances = KEPT")
    assert node.bring(mig_instances=[])[0, "mig_instances"] != ""
