"""The history of two real proofs of this machine, which has no NVIDIA GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]


def test_each_proof_adds_to_the_history_and_is_compared_with_the_last(tmp_path):
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "ansible_become": False}
    hosts = {"here": local, "away": {"ansible_host": "127.0.0.1", "ansible_port": 1}}
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(
        yaml.safe_dump({"gpu-nodes": {"children": {"workstations": {"hosts": hosts}}}}), encoding="utf-8"
    )
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
        "ANSIBLE_STDOUT_CALLBACK": "default",
        "ANSIBLE_HOME": str(tmp_path / "home"),
    }

    def play(name, *options):
        argv = [
            Path(sys.executable).with_name("ansible-playbook"),
            "-i",
            inventory,
            ROOT / "playbooks" / name,
            *options,
        ]
        done = subprocess.run(
            argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        return done.stdout + done.stderr

    play("verify.yml", "-l", "here")
    (one,) = (json.loads(line) for line in (tmp_path / "reports/history/here.jsonl").read_text().splitlines())
    assert one["findings"]
    assert not (tmp_path / "reports/history/away.jsonl").exists()
    play("verify.yml", "--check")  # is no part of the history
    said = play("verify.yml")
    report = json.loads((tmp_path / "reports/latest/report.json").read_text())
    assert (report["changes"]["earlier"], report["changes"]["hosts_added"]) == (one["created"], ["away"])
    assert f"since {one['created']}: 0 new, 0 gone" in said
    assert len((tmp_path / "reports/history/here.jsonl").read_text().splitlines()) == 2
    assert (tmp_path / "reports/index.html").exists()
    history = play("history.yml")
    assert "here  fail  quick" in history
    assert "2 proofs" in history
    assert "away  fail  unreachable" in history
    assert "page: reports/history.html" in history
    page = (tmp_path / "reports/history.html").read_text(encoding="utf-8")
    assert page.count('<tr class="fail"') == 2
