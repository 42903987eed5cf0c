"""playbooks/plan.yml against the roles it asks, and on this machine, which has no NVIDIA GPU."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml
from ansible_collections.gpulab.node.plugins.plugin_utils.preview import changes

from unit.preview.test_document import SCHEMA

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "ansible_become": False}
AWAY = {"ansible_host": "127.0.0.1", "ansible_port": 1}


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def preview_play():
    return yaml.safe_load(read("playbooks/plan.yml"))[-1]


def test_every_task_of_the_play_runs_in_check_mode():
    assert preview_play()["check_mode"] is True
    assert "check_mode: false" not in read("playbooks/plan.yml")
    for path in ROOT.glob("roles/*/tasks/*.yml"):
        assert "check_mode: false" not in path.read_text(encoding="utf-8"), path


DECISIONS = {  # which change nothing on a node, or come only after a failure
    ("plan", "__plan_decision"),
    ("preflight", "__preflight_judgement"),
    ("environments", "__environments_groups"),
    ("nccl", "__nccl_tests_link"),
    ("conda", "__conda_groups"),
    ("nvidia_driver", "__nvidia_driver_reading"),
    ("nvidia_driver", "__nvidia_driver_proof"),
    ("nvidia_driver", "__nvidia_driver_put_back"),
    ("nvidia_driver", "__nvidia_driver_runfile_back"),
    ("nvidia_driver", "__nvidia_driver_former_modules"),
    ("nvidia_driver", "__nvidia_driver_taken_off"),
}


def test_the_preview_reads_every_task_that_a_role_registers():
    registered = {
        (role, name)
        for role in {path.name for path in (ROOT / "roles").iterdir()} - {"reboot", "verify"}
        for path in (ROOT / "roles" / role / "tasks").glob("*.yml")
        for name in re.findall(r"register: (\S+)", path.read_text(encoding="utf-8"))
    }
    assert registered - DECISIONS == {(role, name) for name, (role, _) in changes.TASKS.items()}


@pytest.fixture
def play(tmp_path):
    """Return a function that runs plan.yml on hosts and returns (exit status, output, preview)."""

    def run(hosts, **variables):
        inventory = tmp_path / "inventory.yml"
        inventory.write_text(
            yaml.safe_dump({"gpu-nodes": {"children": {"workstations": {"hosts": hosts}}}}), encoding="utf-8"
        )
        path = tmp_path / "preview.json"
        argv = [Path(sys.executable).with_name("ansible-playbook"), "-i", inventory, ROOT / "playbooks/plan.yml"]
        done = subprocess.run(
            [*argv, "-e", json.dumps({"plan_json": str(path), **variables})],
            cwd=ROOT,
            env={**os.environ, "ANSIBLE_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        preview = json.loads(path.read_text()) if path.exists() else None
        return done.returncode, done.stdout + done.stderr, preview

    return run


def test_a_refused_and_an_unreachable_host_are_both_shown_and_fail_the_run(play):
    status, output, preview = play({"here": LOCAL, "away": AWAY})
    assert status == 2
    jsonschema.validate(preview, SCHEMA)
    assert {host["name"]: host["state"] for host in preview["hosts"]} == {"away": "unreachable", "here": "refused"}
    assert re.search(r"^ +here +REFUSED ", output, re.MULTILINE)
    assert re.search(r"^ +away +UNREACHABLE ", output, re.MULTILINE)
    recap = output.rpartition("\nRECAP")[2]
    assert "GPULAB-P002" in recap
    assert "GPULAB-H001" in recap


def test_a_file_that_cannot_be_written_is_refused(play):
    status, output, preview = play({"away": AWAY}, plan_json="/nowhere/preview.json")
    assert status == 2
    assert preview is None
    assert "GPULAB-P037" in output


def test_the_preview_can_be_read_without_gpulabs_callback(play, monkeypatch):
    monkeypatch.setenv("ANSIBLE_STDOUT_CALLBACK", "default")
    monkeypatch.setenv("ANSIBLE_CALLBACK_RESULT_FORMAT", "json")
    _status, output, _preview = play({"away": AWAY})
    assert re.search(r'^ +"away +UNREACHABLE .*",$', output, re.MULTILINE)
