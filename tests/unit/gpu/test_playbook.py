"""playbooks/record.yml on this machine: what it shows, writes and refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.plugin_utils.recording import recorded
from sim.build import build

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="becomes root")]

ROOT = Path(__file__).parents[3]
UUID = "GPU-12345678-9abc-def0-1234-56789abcdef0"


@pytest.fixture
def play(tmp_path):
    """Return what runs the playbook for this machine with a simulated GPU: (exit status, output, files written)."""
    libraries, model = build(tmp_path / "simulated"), tmp_path / "gpu.conf"
    model.write_text((ROOT / "tests/sim/models/t4.conf").read_text() + f"gpu.0.uuid = {UUID}\n", encoding="utf-8")

    def run(*arguments, hosts=("node07",)):
        inventory = tmp_path / "inventory.yml"
        this = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        groups = {"gpu-nodes": {"children": {"workstations": {"hosts": dict.fromkeys(hosts, this)}}}}
        inventory.write_text(yaml.safe_dump(groups), encoding="utf-8")
        argv = [Path(sys.executable).with_name("ansible-playbook"), "-i", inventory, ROOT / "playbooks/record.yml"]
        done = subprocess.run(
            [*argv, *arguments],
            cwd=tmp_path,
            env={
                **os.environ,
                "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
                "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
                "ANSIBLE_STDOUT_CALLBACK": "default",
                "ANSIBLE_HOME": str(tmp_path / "home"),
                "LD_LIBRARY_PATH": str(libraries),
                "GPULAB_SIMULATION": str(model),
            },
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr, sorted(tmp_path.glob("recordings/*"))

    return run


def test_check_mode_shows_all_and_writes_nothing(play):
    status, output, files = play("--check")
    assert status == 0, output
    assert "licence: GPL-3.0-or-later" in output
    assert "name: Tesla T4" in output
    assert UUID not in output
    assert files == []


def test_what_is_written_was_shown_and_tells_no_name(play):
    status, output, files = play()
    assert files, output
    (path,) = files
    assert status == 0, output
    assert path.name.startswith("tesla-t4-")
    text = path.read_text(encoding="utf-8")
    made = yaml.safe_load(text)
    assert list(recorded.faults(made)) == []
    assert made["facts"]["simulated"] is True
    assert made["facts"]["nvml"]["gpus"][0]["board_part_number"] == "900-2G183-0000-001"
    told = output.replace("'", "").replace('"', "")
    assert all(line.strip().replace("'", "") in told for line in text.splitlines())
    shown = output.index("Show all that is recorded")
    assert shown < output.index("Write the recording")
    assert made["facts"]["system"]["hostname"] == "node1"
    assert UUID not in text
    assert "node07" not in text


def test_of_two_nodes_none_is_recorded(play):
    status, output, files = play(hosts=("node07", "node08"))
    assert status != 0
    assert "GPULAB-V008" in output
    assert files == []
