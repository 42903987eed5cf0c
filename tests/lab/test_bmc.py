"""A node is turned off and on by a stand-in for its BMC, which stops and starts its container: SSH goes and comes back.

No real BMC was ever asked. What is real: the fence, who uses the node, the run's hold on it, and its boot.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests/stubs"))
import bmc as stub
from rollouts import CHANGED, FENCED, put_a_driver, roll, states, wishes_of

NAME = "cut"
WITHOUT = "without"  # it may not be turned off and on
NODES = [
    {"name": name, "release": "bookworm", "gpu": "rtx4090-2", "groups": ["workstations"]} for name in (NAME, WITHOUT)
]
RECORD = ROOT / f"reports/bmc/{NAME}.json"
pytestmark = pytest.mark.story


@pytest.fixture(scope="module")
def bmc(lab, tmp_path_factory):
    """Serve the BMC of the node, and tell the inventory of it."""
    RECORD.unlink(missing_ok=True)
    served = stub.Bmc(tmp_path_factory.mktemp("bmc"))
    container = lab.node(NAME).container
    served.switch = lambda kind: subprocess.run(
        ["docker", "start" if kind == "On" else "stop", container], check=True, stdout=subprocess.PIPE
    )
    settings = {
        "bmc_address": served.address,
        "bmc_user": stub.USER,
        "bmc_password": stub.PASSWORD,
        "bmc_fingerprint": served.fingerprint,
        "bmc_serial": stub.SERIAL,  # a container has the number of whatever it runs on, or none
        "bmc_power": True,
        "bmc_boot_minutes": 3,
    }
    (lab.inventory / "bmc.yml").write_text(json.dumps({"workstations": {"hosts": {NAME: settings}}}))
    yield served
    served.close()
    RECORD.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def ask(lab, bmc):  # noqa: ARG001 - it is to be there
    """Return a function that runs the playbook; its output never has the password."""

    def run(*arguments):
        done = lab.play("playbooks/bmc.yml", "-l", NAME, *arguments)
        for text in (done.output, done.log.read_text(), RECORD.read_text() if RECORD.exists() else ""):
            assert stub.PASSWORD not in text
        return done

    return run


def asked(bmc):
    return [body["ResetType"] for _method, path, body in bmc.asked if path.endswith("ComputerSystem.Reset")]


def test_a_node_without_a_fence_is_not_cut(ask, bmc):
    run = ask("-e", "bmc_do=cycle")
    assert run.rc != 0
    assert "GPULAB-F113" in run.output
    assert "no fence keeps new work from it" in run.output
    assert asked(bmc) == []


def test_a_node_behind_the_fence_of_another_run_is_not_cut(lab, ask, bmc):
    assert lab.play("playbooks/fence.yml", "-l", NAME, "-e", "fence_run=mending").rc == 0
    run = ask("-e", "bmc_do=cycle")
    assert run.rc != 0
    assert "its fence is that of mending" in run.output
    assert asked(bmc) == []


def test_a_node_that_somebody_uses_is_not_cut(lab, ask, bmc):
    busy = "mknod /dev/nvidia0 c 1 3; echo $$ > /run/busy; exec sleep 600 < /dev/nvidia0"
    lab.node(NAME).start(busy)
    run = ask("-e", "bmc_do=cycle", "-e", "fence_run=mending")
    lab.node(NAME).run("kill $(cat /run/busy); rm /dev/nvidia0")
    assert run.rc != 0
    assert "it is in use" in run.output
    assert "sleep" in run.output
    assert asked(bmc) == []


def test_check_mode_says_what_would_be_asked(ask, bmc):
    run = ask("-e", "bmc_do=cycle", "-e", "fence_run=mending", "--check")
    assert run.rc == 0, run.output[-3000:]
    assert asked(bmc) == []


def test_a_fenced_and_free_node_is_turned_off_and_on_and_comes_back(lab, ask, bmc):
    before = lab.node(NAME).boot()
    run = ask("-e", "bmc_do=cycle", "-e", "fence_run=mending")
    assert run.rc == 0, run.output[-3000:]
    assert asked(bmc) == ["GracefulShutdown", "On"]
    assert lab.node(NAME).boot() != before
    assert [one["state"] for one in json.loads(RECORD.read_text())["cycles"]] == ["on"]
    assert lab.node(NAME).holds("grep -q mending /var/lib/gpulab/fence.json")  # who fenced it lifts it


def test_a_node_that_is_dead_is_cut_only_where_it_is_named(lab, ask, bmc):
    # Its system is gone, and the BMC still says On.
    subprocess.run(["docker", "stop", lab.node(NAME).container], check=True, stdout=subprocess.PIPE)
    run = ask("-e", "bmc_do=cycle")
    assert run.rc != 0
    assert "bmc_dead does not name it" in run.output
    assert len(asked(bmc)) == 2
    run = ask("-e", "bmc_do=cycle", "-e", f"bmc_dead={NAME}")
    assert run.rc == 0, run.output[-3000:]
    assert len(asked(bmc)) == 4
    assert lab.play("playbooks/fence.yml", "-l", NAME, "-e", "fence_run=mending", "-e", "fence_state=absent").rc == 0


def test_a_rollout_turns_a_node_off_and_on_that_its_reboot_has_not_brought_back(lab, bmc, tmp_path):
    names = (NAME, WITHOUT)
    put_a_driver(lab, names, tmp_path)  # while nouveau has the GPUs, so that a reboot is due
    containers = [lab.node(name).container for name in names]
    subprocess.run(["docker", "update", "--restart=no", *containers], check=True, stdout=subprocess.PIPE)
    before, asked_before = lab.node(NAME).boot(), len(asked(bmc))
    wishes = wishes_of(lab, {"rollout_canary": [NAME], "rollout_wait_minutes": 1})
    run = roll(lab, wishes, reboot_timeout=45)
    assert stub.PASSWORD not in run.output
    assert states(lab) == {NAME: "done", WITHOUT: "failed"}, run.output[-3000:]
    assert run.rc != 0
    assert asked(bmc)[asked_before:] == ["GracefulShutdown", "On"]
    assert lab.node(NAME).boot() != before
    assert lab.node(NAME).holds(f"! {{ {FENCED}; }} && {CHANGED}")
    told = json.loads(RECORD.read_text())["cycles"][-1]
    assert (told["state"], told["run"]) == ("on", next((lab.directory / "rollouts").iterdir()).name)
    assert "GPULAB-F125" in run.said_of(WITHOUT)
    assert f"-e bmc_dead={WITHOUT}" in run.output
