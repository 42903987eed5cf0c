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
    # Which it does not preview, and in which commands that only read say so.
    others = ("bmc", "jupyter", "monitoring_server", "slurm", "usage")
    assert not [name for name in others if name in read("playbooks/tasks/roles.yml")]
    for path in (path for path in ROOT.glob("roles/*/tasks/*.yml") if path.parts[-3] not in others):
        assert "check_mode: false" not in path.read_text(encoding="utf-8"), path


@pytest.fixture
def play(tmp_path):
    """Return a function that runs a playbook, plan.yml unless told, and returns (exit status, output, preview)."""

    def run(hosts, playbook=ROOT / "playbooks/plan.yml", **variables):
        inventory = tmp_path / "inventory.yml"
        inventory.write_text(
            yaml.safe_dump({"gpu-nodes": {"children": {"workstations": {"hosts": hosts}}}}), encoding="utf-8"
        )
        path = tmp_path / "preview.json"
        argv = [Path(sys.executable).with_name("ansible-playbook"), "-i", inventory, playbook]
        done = subprocess.run(
            [*argv, "-e", json.dumps({"plan_json": str(path), "verify_report_directory": str(tmp_path), **variables})],
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


def test_a_refused_and_an_unreachable_host_are_both_shown_and_fail_the_run(play, tmp_path):
    status, output, preview = play({"here": LOCAL, "away": AWAY})
    assert status == 2
    jsonschema.validate(preview, SCHEMA)
    assert {host["name"]: host["state"] for host in preview["hosts"]} == {"away": "unreachable", "here": "refused"}
    assert re.search(r"^ +here +REFUSED ", output, re.MULTILINE)
    assert re.search(r"^ +away +UNREACHABLE ", output, re.MULTILINE)
    assert f"page: {tmp_path}/plan.html" in output
    assert "GPULAB-P002" in (tmp_path / "plan.html").read_text(encoding="utf-8")
    recap = output.rpartition("\nRECAP")[2]
    assert "GPULAB-P002, see the preview" in recap
    assert output.count("no NVIDIA GPU is on the PCI bus") == output.count("away is unreachable") == 1


def test_a_page_that_cannot_be_written_hides_nothing(play):
    status, output, preview = play({"away": AWAY}, verify_report_directory="/proc/none")
    assert (status, preview["hosts"][0]["state"]) == (2, "unreachable")
    assert "page: not written to /proc/none/plan.html: No such file or directory" in output


def test_a_file_that_cannot_be_written_is_refused(play):
    status, output, preview = play({"away": AWAY}, plan_json="/nowhere/preview.json")
    assert status == 2
    assert preview is None
    assert "GPULAB-P037" in output


@pytest.mark.parametrize("playbook", [ROOT / "playbooks/plan.yml", "gpulab.node.plan"], ids=["file", "collection"])
def test_the_preview_needs_no_setting(play, monkeypatch, tmp_path, playbook):
    empty = tmp_path / "ansible.cfg"
    empty.touch()
    monkeypatch.setenv("ANSIBLE_CONFIG", str(empty))
    monkeypatch.setenv("ANSIBLE_COLLECTIONS_PATH", str(ROOT / "collections"))
    monkeypatch.setenv("ANSIBLE_CALLBACK_RESULT_FORMAT", "json")
    _status, output, preview = play({"away": AWAY}, playbook)
    assert re.search(r'^ +"away +UNREACHABLE .*",$', output, re.MULTILINE)
    assert preview["hosts"][0]["state"] == "unreachable"


def task(module, *, name="Do something", **arguments):
    """Return a task; what is no argument of its module is added with |."""
    return {"name": name, module: arguments}


FILE, COPY, PREVIEW = "ansible.builtin.file", "ansible.builtin.copy", "gpulab.node.preview"


@pytest.fixture
def own(tmp_path):
    """Return the path of a playbook of somebody's own, with tasks of every kind."""
    preview = task(PREVIEW, path="{{ plan_json }}") | {"run_once": True}
    tasks = [
        task(COPY, dest=f"{tmp_path}/new", content="text"),
        task(FILE, path=f"{tmp_path}/{{{{ item }}}}", state="directory") | {"loop": ["a", "b"]},
        task(FILE, path=f"{tmp_path}/{{{{ item }}}}", state="{{ 'touch' if item == 'd' else 'absent' }}")
        | {"loop": ["nothing", "d"]},
        task("ansible.builtin.blockinfile", path=f"{tmp_path}/secret", block="word", create=True) | {"no_log": True},
        task(COPY, dest=f"{tmp_path}/judged", content="text") | {"changed_when": False},
        task(COPY, dest=f"{tmp_path}/failed", content="text") | {"failed_when": True, "ignore_errors": True},
        task("ansible.builtin.command", argv=["true"]) | {"check_mode": False},
        {
            "block": [task("ansible.builtin.fail")],
            "rescue": [task("gpulab.node.owned_files", owner="own", files={f"{tmp_path}/rescued": "text"})],
        },
        task("gpulab.node.owned_files", owner="own", files={f"{tmp_path}/here": "text"}) | {"delegate_to": "localhost"},
        task("ansible.builtin.set_fact", name="Keep a fact", fact=1) | {"changed_when": True},
        preview,
    ]
    path = tmp_path / "own.yml"
    play = {"hosts": "all", "gather_facts": False, "check_mode": True, "tasks": tasks}
    again = {"hosts": "all", "gather_facts": False, "tasks": [task(PREVIEW, path="{{ plan_json }}.again")]}
    path.write_text(yaml.safe_dump([play, again]), encoding="utf-8")
    return path


def test_all_tasks_are_seen_that_would_change_something_and_no_other(play, own, monkeypatch, tmp_path):
    monkeypatch.setenv("ANSIBLE_CALLBACKS_ENABLED", PREVIEW)
    status, output, preview = play({"here": LOCAL}, own)
    assert status == 0, output
    assert [(change["action"], change["objects"]) for change in preview["hosts"][0]["changes"]] == [
        ("write", [f"{tmp_path}/new"]),
        ("write", [f"{tmp_path}/a"]),
        ("write", [f"{tmp_path}/b"]),
        ("write", [f"{tmp_path}/d"]),
        ("write", [f"{tmp_path}/secret"]),
        ("write", [f"{tmp_path}/rescued"]),
        ("write", [f"{tmp_path}/here (controller)"]),
        ("arrange", ["Keep a fact"]),
    ]
    again = json.loads((tmp_path / "preview.json.again").read_text())
    assert again["hosts"][0]["changes"] == []  # what has been shown is not shown twice


def test_a_preview_of_which_nobody_kept_anything_is_refused(play, own):
    status, output, preview = play({"here": LOCAL}, own)
    assert (status, preview) == (2, None)
    assert "GPULAB-P097" in output
