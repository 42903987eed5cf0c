"""The module gpu_settings as Ansible runs it, on the simulated NVML of tests/sim and without any."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sim.build import build

MODELS = Path(__file__).parents[2] / "sim/models"
SCRIPT = """
import sys
from pathlib import Path
from ansible.plugins.loader import init_plugin_loader
init_plugin_loader([sys.argv.pop(1)])
import ansible.module_utils.basic as basic
basic._ANSIBLE_PROFILE = "legacy"
from ansible_collections.gpulab.node.plugins.module_utils.gpu_settings import host
from ansible_collections.gpulab.node.plugins.modules import gpu_settings
run = Path(sys.argv.pop(1))
host.LOCKED, gpu_settings.MEMORY = run / "locked.json", run / "memory/before.json"
host.READ_SECONDS = 60
gpu_settings.main()
"""

pytestmark = [
    pytest.mark.skipif(not shutil.which("gcc"), reason="the simulated NVML needs gcc"),
    pytest.mark.skipif(os.geteuid() != 0, reason="setting needs root, in the simulation as on a GPU"),
]


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    return build(tmp_path_factory.mktemp("simulated"))


class Machine:
    """A node with two A100; without_driver takes NVML away."""

    def __init__(self, root, libraries, directory):
        """Keep where things are."""
        self.memory = directory / "memory/before.json"
        self._argv = [sys.executable, "-c", SCRIPT, str(root / "collections"), str(directory)]
        self._file = directory / "gpu.conf"
        self._library_path = str(libraries)
        self.inject()

    def inject(self, *lines):
        """Let the node behave otherwise."""
        text = (MODELS / "a100-pcie-2.conf").read_text(encoding="utf-8")
        self._file.write_text("\n".join([text, *lines, ""]), encoding="utf-8")

    def set(self, *, check=False, single=None, **values):
        """Run the module with these values for every GPU, and single ones; with none, for nothing wanted."""
        wanted = {"all": values, "gpus": single or {}, "power_budget_watts": None}
        settings = wanted if any(wanted.values()) else {}
        arguments = {"settings": settings, "host": "node07", "_ansible_check_mode": check}
        done = subprocess.run(
            self._argv,
            input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
            env={**os.environ, "LD_LIBRARY_PATH": self._library_path, "GPULAB_SIMULATION": str(self._file)},
            capture_output=True,
            check=False,
            text=True,
            timeout=120,
        )
        assert done.stderr == ""
        return json.loads(done.stdout)


@pytest.fixture
def machine(pytestconfig, libraries, tmp_path):
    return Machine(pytestconfig.rootpath, libraries, tmp_path)


@pytest.fixture
def bare(pytestconfig, tmp_path):
    """Return a machine without a driver."""
    (tmp_path / "empty").mkdir()
    return Machine(pytestconfig.rootpath, tmp_path / "empty", tmp_path)


def test_from_check_mode_over_a_second_run_to_the_way_back(machine):
    predicted = machine.set(check=True, power_limit_watts=200)
    assert (predicted["changed"], machine.memory.exists()) == (True, False)
    first = machine.set(power_limit_watts=200)
    assert (first["steps"], first["diff"]) == (predicted["steps"], predicted["diff"])
    assert first["diff"][0]["after"] == "power_limit_watts: 200\n"
    assert machine.set(power_limit_watts=200)["changed"] is False
    assert machine.memory.exists()
    back = machine.set()
    assert [step["after"] for step in back["steps"]] == [250, 250]
    assert not machine.memory.exists()
    assert machine.set()["changed"] is False


def test_the_settings_for_the_next_boot_name_a_gpu_by_its_uuid(machine):
    wish = {"single": {"1": {"power_limit_watts": 200}}}
    predicted = machine.set(check=True, **wish)["settings"]
    assert [name[:4] for name in predicted["gpus"]] == ["GPU-"]
    first, again = machine.set(**wish), machine.set(**wish)
    assert (first["settings"], again["settings"], again["changed"]) == (predicted, predicted, False)
    assert machine.set()["settings"] == {}


def test_nothing_is_set_where_one_value_is_out_of_range(machine):
    refused = machine.set(accounting=True, power_limit_watts=251)
    assert refused["refusal"]["code"] == "H123"
    assert "150 to 250 W" in refused["msg"]
    assert {step["name"] for step in machine.set(check=True, accounting=True)["steps"]} == {"accounting"}


@pytest.mark.parametrize("check", [True, False])
def test_a_gpu_in_use_keeps_its_compute_mode_and_may_get_another_limit(machine, check):
    machine.inject(f"gpu.0.processes = {os.getpid()}:100")
    refused = machine.set(check=check, compute_mode="prohibited", power_limit_watts=200)
    assert refused["refusal"]["code"] == "H126"
    assert f"pid {os.getpid()}" in refused["msg"]
    assert machine.set(power_limit_watts=200)["changed"] is True


def test_what_a_gpu_refused_is_told_and_not_remembered(machine):
    machine.inject("gpu.0.set_power_limit_w = ERR:4")
    failed = machine.set(power_limit_watts=200)
    assert (failed["failed"], failed["changed"], [one["code"] for one in failed["refused"]]) == (True, True, ["H125"])
    assert [*json.loads(machine.memory.read_text()).values()] == [{"power_limit_watts": 250}]


def test_ecc_says_that_it_takes_a_boot(machine):
    assert machine.set(ecc=False)["pending"] == [
        f"ECC of GPU {address} turns off only at a reboot" for address in ("0000:3b:00.0", "0000:af:00.0")
    ]


def test_without_a_driver_check_mode_names_what_would_be_set(bare):
    assert bare.set()["changed"] is False
    predicted = bare.set(check=True, power_limit_watts=200)
    assert (predicted["changed"], predicted["steps"][0]["before"]) == (True, "unknown")
    assert predicted["settings"]["all"] == {"power_limit_watts": 200}
    assert bare.set(power_limit_watts=200)["refusal"]["code"] == "H124"


def test_a_name_that_is_no_setting_is_refused(machine):
    assert machine.set(power_limit=200)["refusal"]["code"] == "P054"


HALVES = ["3g.20gb", "3g.20gb"]


def test_instances_from_check_mode_over_a_second_run_to_the_way_back(machine):
    machine.inject("gpu.*.mig_at_once = 1")
    predicted = machine.set(check=True, mig_instances=HALVES)
    assert [(one["name"], one["before"], one["after"]) for one in predicted["steps"]] == [
        ("mig", False, True), ("mig", False, True), ("mig_instances", [], HALVES), ("mig_instances", [], HALVES),
    ]  # fmt: skip
    first = machine.set(mig_instances=HALVES)
    assert (first["steps"], first["diff"]) == (predicted["steps"], predicted["diff"])
    assert first["diff"][0]["after"] == 'mig: true\nmig_instances: ["3g.20gb", "3g.20gb"]\n'
    assert machine.set(mig_instances=HALVES)["changed"] is False
    assert machine.set(mig_instances=["7g.40gb"])["diff"][0]["before"] == 'mig_instances: ["3g.20gb", "3g.20gb"]\n'
    assert [(one["name"], one["after"]) for one in machine.set()["steps"]] == [
        ("mig_instances", []), ("mig_instances", []), ("mig", False), ("mig", False),
    ]  # fmt: skip
    assert not machine.memory.exists()


def test_instances_that_wait_for_a_boot_are_not_said_to_be_there(machine):
    first = machine.set(mig_instances=HALVES)
    assert {one["name"] for one in first["steps"]} == {"mig"}
    assert first["pending"][0] == "MIG of GPU 0000:3b:00.0 turns on only at a reboot"
    again = machine.set(mig_instances=HALVES)
    assert (again["changed"], again["pending"]) == (False, first["pending"])
    machine.inject("gpu.*.mig = 1", "gpu.*.mig_instances = 1/9/0/0.2 2/9/4/0.2")  # a boot, and the unit at boot
    assert machine.set(mig_instances=HALVES)["changed"] is False
    without = machine.set(check=True, mig=True)["steps"]
    assert [(one["name"], one["after"]) for one in without] == [("mig_instances", []), ("mig_instances", [])]
    assert [(one["name"], one["after"]) for one in machine.set()["steps"]][1:3] == [
        ("mig_instances", []),
        ("mig", False),
    ]


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("instances", "says"),
    [
        (["3g.40gb"], "it has no profile 3g.40gb"),
        (["4g.20gb", "4g.20gb"], "they do not fit together"),
        (["3g.20gb", "3g.20gb", "1g.5gb"], "they do not fit together"),
    ],
)
def test_instances_that_a_gpu_cannot_have_are_refused_before_the_first_change(machine, check, instances, says):
    refused = machine.set(check=check, accounting=True, mig_instances=instances)
    assert refused["refusal"]["code"] == "H127"
    assert says in refused["refusal"]["cause"]
    assert "3g.20gb (2 fit), 4g.20gb (1 fit)" in refused["refusal"]["remedy"]
    assert {step["name"] for step in machine.set(check=True, accounting=True)["steps"]} == {"accounting"}


def test_instances_stay_while_somebody_uses_a_gpu(machine):
    cut = "gpu.*.mig = 1", "gpu.*.mig_pending = 1", "gpu.1.mig_instances = 1/9/0/0.2 2/9/4/0.2"
    machine.inject(*cut, f"gpu.0.processes = {os.getpid()}:100")
    refused = machine.set(mig_instances=[])
    assert refused["refusal"]["code"] == "H126"
    assert "mig_instances would change" in refused["msg"]


def test_what_was_there_before_a_failed_layout_is_not_remembered(machine):
    cut = "gpu.*.mig = 1", "gpu.*.mig_pending = 1", "gpu.*.mig_instances = 1/9/0/0.2"
    machine.inject(*cut, "gpu.*.mig_refuse = 0")
    failed = machine.set(mig_instances=["7g.40gb"])
    assert ([one["code"] for one in failed["refused"]], failed["changed"]) == (["H125", "H125"], False)
    assert "the former instances are restored" in failed["msg"]
    assert not machine.memory.exists()


def test_without_a_driver_check_mode_foresees_mig_with_its_instances(bare):
    predicted = bare.set(check=True, mig_instances=HALVES)
    assert {one["name"]: one["after"] for one in predicted["steps"]} == {"mig": True, "mig_instances": HALVES}


def test_instances_without_mig_contradict_themselves(machine):
    assert machine.set(mig=False, mig_instances=HALVES)["refusal"]["code"] == "P056"
