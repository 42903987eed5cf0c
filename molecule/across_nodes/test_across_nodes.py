"""Two nodes run one all_reduce: real PyTorch (its build without CUDA), torchrun and Gloo over the lab's network.

There is no GPU: the nodes' GPUs are not even simulated here, as no driver is installed.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from scenario import LAB, PROJECT, nodes, playbook

HANG = "import os, time; time.sleep(600 if 'LOCAL_RANK' in os.environ else 0)\n"


@pytest.fixture
def answers(tmp_path):
    """Return a function that verifies both nodes, and returns what each says of the all_reduce over nodes."""

    def run(**variables):
        level = {"verify_level": "standard", "verify_across_nodes": True, "verify_report_directory": str(tmp_path)}
        done = playbook("playbooks/verify.yml", **level, **variables)
        assert (tmp_path / "report.json").exists(), done.output
        hosts = json.loads((tmp_path / "report.json").read_text())["hosts"]
        found = {host["name"]: [r for r in host["results"] if r["id"] == "all-reduce-nodes"] for host in hosts}
        return {name: result for name, (result,) in found.items()}

    return run


def test_two_nodes_add_over_their_network(answers):
    for found in answers().values():
        assert found["severity"] == "ok", found
        assert "2 nodes, 2 processes" in found["summary"]
        assert "Gloo" in found["reason"]
        assert found["observed"] > 0
    for name in ("node1", "node2"):
        assert nodes()[name].run("find /root/.ansible_async -type f; find /tmp -name 'torchelastic_*'").stdout == ""


def test_the_jobs_start_line_starts_a_real_job(tmp_path):
    program = "import torch.distributed as d; d.init_process_group('gloo'); print(d.get_world_size())"
    address = nodes()["node1"].check_output("hostname --all-ip-addresses").split()[0]
    line = (
        ". /opt/venvs/vision/bin/activate; export PROCESSES=1;"
        f' echo "{program}" >/tmp/job.py; timeout 120 sh /etc/gpulab/torchrun.sh /tmp/job.py 2>/tmp/job.log'
    )
    assert address in nodes()["node2"].file("/etc/gpulab/torchrun.sh").content_string
    log = tmp_path / "second"
    with log.open("w") as output:
        second = subprocess.Popen(
            [
                *(Path(sys.executable).with_name("ansible"), f"--inventory={LAB / 'inventory'}", "node2", "--become"),
                *("-m", "ansible.builtin.shell", "-a", line),
            ],
            cwd=PROJECT,
            stdout=output,
            env={**os.environ, "ANSIBLE_STDOUT_CALLBACK": "minimal", "ANSIBLE_FORCE_COLOR": "0", "NO_COLOR": "1"},
        )
        assert nodes()["node1"].check_output(line) == "2"
        assert second.wait(120) == 0
    assert log.read_text().split()[-1] == "2"


def test_a_first_node_that_drops_what_comes_is_named(answers):
    first, second = nodes()["node1"], nodes()["node2"]
    address = second.check_output("hostname --all-ip-addresses").split()[0]
    first.check_output("ip route add blackhole %s/32", address)
    try:
        found = answers(verify_across_nodes_seconds=12)
    finally:
        first.check_output("ip route del blackhole %s/32", address)
    assert {result["severity"] for result in found.values()} == {"fail"}
    assert "without node2" in found["node1"]["summary"]
    assert "did not come" in found["node1"]["reason"]
    assert found["node2"]["summary"].startswith("node1 cannot be reached at")
    assert found["node2"]["reason"] == "timed out"


def test_a_node_that_hangs_is_named_within_the_deadline(answers):
    second = nodes()["node2"]
    place = second.check_output("/opt/venvs/vision/bin/python -c 'import site; print(site.getsitepackages()[0])'")
    second.check_output("printf '%%s' %s >%s/hang.pth", HANG, place)
    try:
        found = answers(verify_across_nodes_seconds=40)
    finally:
        second.check_output("rm %s/hang.pth", place)
    for result in found.values():
        assert result["severity"] == "fail", result
        assert "did not end within 40 s" in result["summary"], result
        assert result["reason"] == "node2: its processes do not start"
    for each in (nodes()["node1"], second):
        assert each.run("pgrep --full 'nodes_all_reduce[.]py'").rc == 1  # this very command does not fit
