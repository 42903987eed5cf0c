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
from ansible_collections.gpulab.node.plugins.module_utils import gpu_settings_host
from ansible_collections.gpulab.node.plugins.modules import gpu_settings
run = Path(sys.argv.pop(1))
gpu_settings_host.LOCKED, gpu_settings.MEMORY = run / "locked.json", run / "memory/before.json"
gpu_settings_host.READ_SECONDS = 60
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

    def set(self, *, check=False, **values):
        """Run the module with these values for every GPU; with none, for nothing wanted."""
        settings = {"all": values, "gpus": {}, "power_budget_watts": None} if values else {}
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
    foreseen = machine.set(check=True, power_limit_watts=200)
    assert (foreseen["changed"], machine.memory.exists()) == (True, False)
    first = machine.set(power_limit_watts=200)
    assert (first["steps"], first["diff"]) == (foreseen["steps"], foreseen["diff"])
    assert first["diff"][0]["after"] == "power_limit_watts: 200\n"
    assert machine.set(power_limit_watts=200)["changed"] is False
    assert machine.memory.exists()
    back = machine.set()
    assert [step["after"] for step in back["steps"]] == [250, 250]
    assert not machine.memory.exists()
    assert machine.set()["changed"] is False


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
        f"ECC of GPU {address} turns off at a boot only" for address in ("0000:3b:00.0", "0000:af:00.0")
    ]


def test_without_a_driver_check_mode_names_what_would_be_set(bare):
    assert bare.set()["changed"] is False
    foreseen = bare.set(check=True, power_limit_watts=200)
    assert (foreseen["changed"], foreseen["steps"][0]["before"]) == (True, "unknown")
    assert bare.set(power_limit_watts=200)["refusal"]["code"] == "H124"


def test_a_name_that_is_no_setting_is_refused(machine):
    assert machine.set(power_limit=200)["refusal"]["code"] == "P054"
