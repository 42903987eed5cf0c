"""The playbook against a stand-in BMC, with the password in a vault: what is told, kept, and shown to nobody."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from stubs import bmc as stub
from stubs import ipmi

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
PROGRAMS = Path(sys.executable).parent


class Processes(threading.Thread):
    """Reads the command lines and environments of all processes until it is told to stop."""

    def __init__(self):
        """Have found nothing yet."""
        super().__init__(daemon=True)
        self.looks, self.found, self._end = 0, [], threading.Event()

    def run(self):
        """Look, fifty times a second."""
        while not self._end.wait(0.02):
            self.looks += 1
            for place in Path("/proc").glob("[0-9]*"):
                for name in ("cmdline", "environ"):
                    try:
                        text = (place / name).read_bytes()
                    except OSError:
                        continue
                    if stub.PASSWORD.encode() in text or stub.TOKEN.encode() in text:
                        self.found.append(f"{place}/{name}")

    def stop(self):
        """End it."""
        self._end.set()
        self.join()


@pytest.fixture
def play(tmp_path, bmc):
    """Return a function that runs the playbook for node07, which cannot be reached, and returns what it printed."""
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
        "ANSIBLE_STDOUT_CALLBACK": "default",
        "ANSIBLE_HOME": str(tmp_path / "home"),
        "ANSIBLE_VAULT_PASSWORD_FILE": str(tmp_path / "vault"),
    }
    (tmp_path / "vault").write_text("of the vault\n", encoding="utf-8")
    vaulted = subprocess.run(
        [PROGRAMS / "ansible-vault", "encrypt_string", "--stdin-name", "bmc_password"],
        input=stub.PASSWORD,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    group = tmp_path / "group_vars/gpu-nodes.yml"
    group.parent.mkdir()
    group.write_text(
        f"bmc_address: {bmc.address}\nbmc_user: {stub.USER}\nbmc_fingerprint: {bmc.fingerprint}\n{vaulted}",
        encoding="utf-8",
    )
    (tmp_path / "hosts.yml").write_text(
        "gpu-nodes: {hosts: {node07: {ansible_host: 127.0.0.1, ansible_port: 1}}}\n", encoding="utf-8"
    )

    def run(*arguments, **settings):
        argv = [PROGRAMS / "ansible-playbook", "-i", tmp_path / "hosts.yml", ROOT / "playbooks/bmc.yml", "-vvv"]
        argv += ["-e", json.dumps(settings), *arguments]
        processes = Processes()
        processes.start()
        done = subprocess.run(
            argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        processes.stop()
        assert processes.looks > 10
        assert processes.found == []
        said = done.stdout + done.stderr
        written = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "vault"]
        for text in (said, *(path.read_text(encoding="utf-8", errors="replace") for path in written)):
            assert stub.PASSWORD not in text
            assert stub.TOKEN not in text
        return done.returncode, said

    return run


def record(tmp_path):
    file = tmp_path / "reports/bmc/node07.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def test_a_bmc_is_read_and_its_password_is_nowhere(play, tmp_path):
    rc, said = play("--check", bmc_serial=stub.SERIAL)
    assert rc == 0, said
    assert record(tmp_path) is None

    rc, said = play(bmc_serial=stub.SERIAL, bmc_json=str(tmp_path / "all.json"))
    assert rc == 0, said
    assert "Stand-in Node 8, serial number GPU4711A, power On, health OK" in said
    assert "Power supply 2 lost" in said
    told = json.loads((tmp_path / "all.json").read_text(encoding="utf-8"))
    (document,) = told["nodes"]
    assert told["siblings"] == []
    assert (document["host"], document["serial"], len(document["new_events"])) == ("node07", stub.SERIAL, 2)
    assert record(tmp_path)["document"] == document

    rc, said = play()  # the node is still not there: it is the machine that it was
    assert rc == 0, said
    assert record(tmp_path)["document"]["new_events"] == []


@pytest.mark.skipif(not all(map(shutil.which, ipmi.NEEDS)), reason="ipmi_sim or ipmitool is not here")
def test_a_bmc_is_read_and_its_machine_turned_off_and_on_by_ipmi(play, tmp_path):
    (tmp_path / "sim").mkdir()
    served = ipmi.Ipmi(tmp_path / "sim")
    known = {"bmc_address": served.address, "bmc_protocol": "ipmi", "bmc_serial": stub.SERIAL, "bmc_boot_minutes": 0}
    (tmp_path / "sim/lan.conf").unlink()  # which ipmi_sim has read; it has the password
    try:
        rc, said = play(**known)
        assert rc == 0, said
        assert "Stand-in Node 8, serial number GPU4711A, power On, health OK" in said
        asked = {**known, "bmc_do": "cycle", "bmc_power": True, "bmc_dead": "node07"}
        rc, said = play(**asked)
        assert rc != 0
        assert "GPULAB-F112" in said
        assert served.asked == []
        rc, said = play(**asked, bmc_alone=True)
        assert rc == 0, said
        assert served.asked == ["shutdown 1", "power 1"]
    finally:
        served.close()


def test_a_refusal_of_a_bmc_shows_no_password(play, bmc, tmp_path):
    rc, said = play()
    assert rc != 0
    assert "GPULAB-F105" in said
    bmc.statuses["SessionService/Sessions"] = 401
    rc, said = play(bmc_serial=stub.SERIAL)
    assert rc != 0
    assert "GPULAB-F102" in said
    assert record(tmp_path) is None


def test_a_dead_node_is_turned_off_and_on_by_the_admins_word_alone(play, bmc, tmp_path):
    asked = {"bmc_do": "cycle", "bmc_serial": stub.SERIAL, "bmc_boot_minutes": 0}
    for further, code in (
        ({}, "F110"),
        ({"bmc_power": True}, "F113"),
        ({"bmc_power": True, "bmc_cycles_most": 0}, "F111"),
    ):
        rc, said = play(**asked, **further)
        assert rc != 0
        assert f"GPULAB-{code}" in said
    asked |= {"bmc_power": True, "bmc_dead": "node07"}
    rc, said = play("--check", **asked, bmc_boot_once="Pxe")
    assert rc == 0, said
    assert "would ask: boot once from Pxe, GracefulShutdown, ForceOff" in said
    assert resets(bmc) == []
    assert record(tmp_path)["cycles"] == []

    rc, said = play(**asked, bmc_boot_once="Pxe")
    assert rc == 0, said
    assert "GracefulShutdown: power read Off" in said
    assert "boot once from Pxe: read Disabled" in said
    assert resets(bmc) == ["GracefulShutdown", "On"]
    assert [one["state"] for one in record(tmp_path)["cycles"]] == ["on"]

    rc, said = play(**{**asked, "bmc_boot_minutes": 0.1})
    assert rc != 0
    assert "GPULAB-F117" in said


def resets(bmc):
    return [body["ResetType"] for _method, path, body in bmc.asked if path.endswith("ComputerSystem.Reset")]


def test_a_node_whose_ssh_answers_is_not_dead(play, bmc, tmp_path):
    with socket.socket() as living:
        living.bind(("127.0.0.1", 0))
        living.listen()
        hosts = {"node07": {"ansible_host": "127.0.0.1", "ansible_port": living.getsockname()[1]}}
        (tmp_path / "hosts.yml").write_text(json.dumps({"gpu-nodes": {"hosts": hosts}}), encoding="utf-8")
        threading.Thread(target=greet, args=(living,), daemon=True).start()
        asked = {"bmc_do": "cycle", "bmc_serial": stub.SERIAL, "bmc_power": True, "bmc_dead": "node07"}
        rc, said = play(**asked)
    assert rc != 0
    assert "its SSH answers, although gpulab could not log in" in said
    assert resets(bmc) == []


def greet(living):
    """Greet as SSH does, and hang up."""
    while True:
        try:
            talk = living.accept()[0]
        except OSError:
            return
        with talk:
            talk.sendall(b"SSH-2.0-stand-in\r\n")
