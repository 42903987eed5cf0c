"""playbooks/verify.yml on this machine, which has no NVIDIA GPU, and on a host that nobody can reach.

The node's facts come from the real gpu_facts; where a test needs a GPU's facts, a play puts made ones in their place.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.plugin_utils.report import written
from ansible_collections.gpulab.node.plugins.plugin_utils.report.hosts import BEFORE_THE_PROOF
from sim.build import build

from unit.checks import nodes
from unit.report import runs

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "ansible_become": False}
AWAY = {"ansible_host": "127.0.0.1", "ansible_port": 1}


@pytest.fixture
def play(tmp_path):
    """Return a function that runs a playbook on hosts and returns (exit status, output, report)."""

    def run(hosts, playbook=ROOT / "playbooks/verify.yml", options=(), before=(), **variables):
        inventory = tmp_path / "inventory.yml"
        inventory.write_text(
            yaml.safe_dump({"gpu-nodes": {"children": {"workstations": {"hosts": hosts}}}}), encoding="utf-8"
        )
        directory = tmp_path / "report"
        extra = json.dumps({"verify_report_directory": str(directory), **variables})
        program = Path(sys.executable).with_name("ansible-playbook")
        done = subprocess.run(
            [*before, program, "-i", inventory, playbook, "-e", extra, *options],
            cwd=ROOT,
            # One after the other: all hosts are this machine, which keeps one record of its trials.
            env={
                **os.environ,
                "ANSIBLE_STDOUT_CALLBACK": "default",
                "ANSIBLE_HOME": str(tmp_path / "home"),
                "ANSIBLE_FORKS": "1",
            },
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        report = directory / "report.json"
        return done.returncode, done.stdout + done.stderr, json.loads(report.read_text()) if report.exists() else None

    return run


def of_role(part):
    """Return a part of the role verify."""
    return yaml.safe_load((ROOT / "roles/verify" / part / "main.yml").read_text(encoding="utf-8"))


def made_facts(tmp_path):
    """Write a playbook like verify.yml, with the tasks of its role, in which the facts are a host variable."""
    (playbook,) = yaml.safe_load((ROOT / "playbooks/verify.yml").read_text(encoding="utf-8"))
    playbook["tasks"] = of_role("tasks")
    playbook["tasks"][0]["block"][0] = {
        "name": "Read the facts of the node",
        "ansible.builtin.set_fact": {"gpulab": "{{ made_facts }}", "gpulab_check_mode": False, "cacheable": True},
        "register": "gpulab_reading",
    }
    playbook["vars"] = {**of_role("defaults"), **of_role("vars")}
    for included in (ROOT / "roles/verify/tasks").glob("*.yml"):
        shutil.copy(included, tmp_path)
    path = tmp_path / "made.yml"
    path.write_text(yaml.safe_dump([playbook]), encoding="utf-8")
    return path


def states(report):
    return {host["name"]: host["state"] for host in report["hosts"]}


def test_node_without_gpu_and_unreachable_node_fail_and_are_reported(play):
    status, output, report = play({"here": LOCAL, "away": AWAY})
    assert status == 2
    assert states(report) == {"away": "unreachable", "here": "verified"}
    assert "GPULAB-V001 here" in output
    assert "GPULAB-H001 away" in output


def test_report_is_written_when_no_host_can_be_reached(play):
    status, _, report = play({"away": AWAY, "gone": AWAY})
    assert status == 2
    assert states(report) == {"away": "unreachable", "gone": "unreachable"}


def test_node_that_cannot_be_read_is_reported_with_its_error(play):
    status, output, report = play({"here": {**LOCAL, "ansible_python_interpreter": "/no/python"}})
    assert status == 2
    assert states(report) == {"here": "failed"}
    assert "/no/python" in report["hosts"][0]["detail"]
    assert "Traceback" not in output


def test_host_that_failed_earlier_in_the_run_is_named(play, tmp_path):
    site = [
        {
            "hosts": "gpu-nodes",
            "gather_facts": False,
            "tasks": [{"ansible.builtin.fail": {"msg": "no"}, "when": "inventory_hostname == 'broken'"}],
        },
        {"ansible.builtin.import_playbook": str(ROOT / "playbooks/verify.yml")},
    ]
    (tmp_path / "site.yml").write_text(yaml.safe_dump(site), encoding="utf-8")
    status, _, report = play({"here": LOCAL, "broken": LOCAL}, tmp_path / "site.yml")
    assert status == 2
    assert states(report) == {"broken": "failed", "here": "verified"}
    assert "earlier in this run" in report["hosts"][0]["detail"]


@pytest.mark.parametrize("module", ["software_proof", "gpu_tests"])
def test_node_that_dies_during_the_tests_is_not_proven(play, tmp_path, monkeypatch, module):
    monkeypatch.setenv("ANSIBLE_CONNECTION_PLUGINS", str(Path(__file__).with_name("connections")))
    monkeypatch.setenv("DIES_AT", module)
    monkeypatch.setenv("DIES_MARK", str(tmp_path / "dead"))
    facts = nodes.healthy("t4")
    facts["cuda"]["toolkits"] = [{"prefix": "/usr/local/cuda-12.8", "version": "12.8"}]
    hosts = {"dying": {**LOCAL, "ansible_connection": "dies", "made_facts": facts}}
    status, output, report = play(hosts, made_facts(tmp_path), verify_level="standard")
    assert (tmp_path / "dead").exists(), output
    assert status == 2
    assert states(report) == {"dying": "unreachable"}
    assert report["hosts"][0]["detail"].startswith("GPULAB-H001 dying is unreachable: connect to host node07")


def test_every_task_on_the_node_tells_the_proof_how_it_ended():
    block = of_role("tasks")[0]["block"]
    block += yaml.safe_load((ROOT / "roles/verify/tasks/load.yml").read_text(encoding="utf-8"))
    others = {"gpulab.node.verify", "ansible.builtin.async_status", "ansible.builtin.include_tasks"}
    on_the_node = [task for task in block if not others & set(task)]
    assert {task.get("register") for task in on_the_node} <= set(BEFORE_THE_PROOF)


@pytest.mark.parametrize("name", BEFORE_THE_PROOF)
def test_what_tells_why_a_host_was_not_judged_is_registered(name):
    tasks = [*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("playbooks/*.yml")]
    assert any(re.search(rf"register: {name}\b", task.read_text(encoding="utf-8")) for task in tasks)


def test_host_refused_before_the_proof_is_reported_with_its_refusal(play, tmp_path):
    site = [
        {
            "hosts": "gpu-nodes",
            "gather_facts": False,
            "tasks": [
                {
                    "gpulab.node.refuse": {
                        "code": "H001",
                        "values": {"host": "{{ inventory_hostname }}", "login": "here", "detail": "no"},
                    },
                    "register": variable,
                    "when": f"inventory_hostname == '{variable.strip('_')}'",
                }
                for variable in ("__plan_decision", "__preflight_judgement")
            ],
        },
        {"ansible.builtin.import_playbook": str(ROOT / "playbooks/verify.yml")},
    ]
    (tmp_path / "site.yml").write_text(yaml.safe_dump(site), encoding="utf-8")
    hosts = dict.fromkeys(("here", "plan_decision", "preflight_judgement"), LOCAL)
    status, _, report = play(hosts, tmp_path / "site.yml")
    assert status == 2
    for host in report["hosts"][1:]:
        assert host["state"] == "failed"
        assert host["detail"].startswith(f"GPULAB-H001 {host['name']}")


def test_report_says_what_the_run_changed_and_how_long_it_took(play, tmp_path):
    site = [
        {
            "hosts": "gpu-nodes",
            "gather_facts": False,
            "tasks": [
                {"name": "Change one", "ansible.builtin.command": "sleep 1", "when": "inventory_hostname == 'one'"},
                {"name": "Change none", "ansible.builtin.command": "true", "changed_when": False},
            ],
        },
        {"ansible.builtin.import_playbook": str(ROOT / "playbooks/verify.yml")},
    ]
    (tmp_path / "site.yml").write_text(yaml.safe_dump(site), encoding="utf-8")
    _status, _, report = play({"one": LOCAL, "two": LOCAL}, tmp_path / "site.yml")
    one, two = report["hosts"]
    assert (one["changed"], two["changed"]) == (["Change one"], [])
    assert report["seconds"] >= one["seconds"] >= 1
    assert one["level"] == "quick"
    assert {"gpu-nodes", "workstations"} <= set(one["groups"])


def test_nothing_is_said_of_the_run_where_nobody_looked(play, monkeypatch):
    monkeypatch.setenv("ANSIBLE_CALLBACKS_ENABLED", "no.such.callback")
    _status, _, report = play({"away": AWAY})
    assert report["seconds"] is None
    assert (report["hosts"][0]["changed"], report["hosts"][0]["seconds"]) == (None, None)


SITE = ROOT / "site.yml"


def test_report_is_written_where_every_host_fails_before_the_proof(play):
    status, output, report = play({"away": AWAY, "broken": {**LOCAL, "ansible_python_interpreter": "/no/python"}}, SITE)
    assert status != 0
    found = {host["name"]: (host["state"], host["detail"].split()[0]) for host in report["hosts"]}
    assert found == {"away": ("unreachable", "GPULAB-H001"), "broken": ("failed", "GPULAB-H002")}
    assert "Verify the node" not in output
    assert "report.html" in output


def test_report_says_why_a_run_was_refused_before_any_host_was_read(play):
    status, _, report = play({"one": LOCAL, "two": {**LOCAL, "nvidia_driver_branch": "101"}}, SITE)
    assert status != 0
    assert report["verdict"] == "fail"
    details = [host["detail"] for host in report["hosts"]]
    assert any("GPULAB-P007" in detail and "two" in detail for detail in details)
    assert any("the run ended before it reached this host" in detail for detail in details)


@pytest.mark.parametrize("option", ["--check", "--tags=cuda", "--skip-tags=cuda"])
def test_run_that_is_to_prove_nothing_writes_no_report(play, option):
    status, _, report = play({"away": AWAY}, SITE, options=[option])
    assert status != 0
    assert report is None


def test_playbook_without_a_report_gets_none(play, tmp_path):
    tasks = [{"hosts": "gpu-nodes", "gather_facts": False, "tasks": [{"ansible.builtin.fail": {"msg": "no"}}]}]
    (tmp_path / "own.yml").write_text(yaml.safe_dump(tasks), encoding="utf-8")
    assert play({"here": LOCAL}, tmp_path / "own.yml")[::2] == (2, None)


def test_healthy_node_passes_and_a_warning_fails_it_on_demand(play, tmp_path):
    warned = nodes.healthy("rtx4090x2")
    warned["nvml"]["gpus"][0]["persistence"] = False
    hosts = {"good": {**LOCAL, "made_facts": nodes.healthy("h100x8")}, "warned": {**LOCAL, "made_facts": warned}}
    playbook = made_facts(tmp_path)
    status, output, report = play(hosts, playbook)
    assert status == 0, output
    assert {host["name"]: host["verdict"] for host in report["hosts"]} == {"good": "ok", "warned": "warn"}
    assert {host["counts"]["unknown"] for host in report["hosts"]} == {0}
    status, output, _ = play(hosts, playbook, verify_fail_on="warn")
    assert status == 2
    assert "warn persistence [GPU 0000:19:00.0]: persistence mode is off. configure:" in output


def test_declared_number_of_gpus_comes_from_the_command_line(play, tmp_path):
    hosts = {"good": {**LOCAL, "made_facts": nodes.healthy("t4")}}
    status, output, report = play(hosts, made_facts(tmp_path), verify_expected_gpus="2")
    assert status == 2
    assert "1 GPUs on the PCI bus, 2 declared" in output
    assert [r["id"] for r in report["hosts"][0]["results"] if r["severity"] == "fail"] == ["gpu-count"]
    assert "driver-match" not in output  # what is well is not printed


def test_baseline_that_is_no_report_is_refused(play, tmp_path):
    (tmp_path / "baseline.json").write_text("[]", encoding="utf-8")
    status, output, _ = play({"here": LOCAL}, verify_baseline=str(tmp_path / "baseline.json"))
    assert status == 2
    assert "GPULAB-V004" in output


def test_baseline_is_compared_with(play, tmp_path):
    earlier = runs.mixed()
    earlier["hosts"] = [{**earlier["hosts"][0], "name": "here"}]
    (tmp_path / "baseline.json").write_text(written.text(earlier), encoding="utf-8")
    status, _, _ = play({"here": LOCAL}, verify_baseline=str(tmp_path / "baseline.json"))
    assert status == 2
    assert "Since 2026-11-21 01:00:00 UTC" in (tmp_path / "report/report.html").read_text(encoding="utf-8")


def test_names_of_the_group_are_missed_where_they_are_requested(play):
    _status, output, _ = play({"here": LOCAL}, network_state="present")
    assert "fail group-names" in output


def test_level_standard_loads_the_gpus_and_reports(play, monkeypatch, tmp_path):
    libraries = build(tmp_path / "simulated")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(libraries))
    monkeypatch.setenv("GPULAB_SIMULATION", str(ROOT / "tests/sim/models/t4.conf"))
    # GPUs in use are left alone, and this machine's labs use simulated ones: here nobody sees their processes.
    alone = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    mounts = [{"path": str(ROOT / "docs"), "most_ms": 0}]
    _status, output, report = play({"here": LOCAL}, before=alone, verify_level="standard", verify_mounts=mounts)
    found = {result["id"]: result for result in report["hosts"][0]["results"]}
    assert "simulated GPU" in report["hosts"][0]["simulated"]
    assert found["cuda-smoke"]["severity"] == "ok", found["cuda-smoke"]
    assert "simulated" in found["memory-bandwidth"]["reason"]
    unasked = report["hosts"][0]["not_for_this_machine"]
    not_for_this_machine = {check: entry["reason"] for entry in unasked for check in entry["checks"]}
    assert "verify_python" in not_for_this_machine["matmul-rate"]
    assert "fail dataset-mounts" in output
