"""site.yml as the operator runs it: bad input ends the run before any host is touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
# Nobody listens at this address: a connection would be seen as an unreachable host.
INVENTORY = """
gpu-nodes:
  children: {workstations: }
workstations:
  hosts:
    node1: {ansible_host: 127.0.0.1, ansible_port: 1, HOST}
"""


def site(tmp_path, text, *options):
    """Run site.yml on an inventory; return its exit status and what it printed."""
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(text, encoding="utf-8")
    command = [Path(sys.executable).with_name("ansible-playbook"), "-i", inventory, "site.yml", "--check", *options]
    run = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_HOME": str(tmp_path / "home"), "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return run.returncode, run.stdout + run.stderr


def test_bad_input_ends_the_run_before_any_host_is_touched(tmp_path):
    status, output = site(tmp_path, INVENTORY.replace("HOST", "gpulab_x: 1"))
    assert status == 2
    assert "GPULAB-I001" in output
    assert "PLAY Plan" not in output


def test_tags_do_not_switch_the_check_off(tmp_path):
    status, output = site(tmp_path, INVENTORY.replace("HOST", "gpulab_x: 1"), "--tags", "reboot")
    assert status == 2
    assert "GPULAB-I001" in output


@pytest.mark.parametrize("option", ["--tags", "--skip-tags"])
def test_a_tag_that_no_task_has_is_refused(tmp_path, option):
    status, output = site(tmp_path, INVENTORY.replace("HOST", "ntp_server: pool"), option, "nvidia-driver")
    assert status == 2
    assert "GPULAB-I047" in output
    assert "Did you mean nvidia_driver?" in " ".join(output.split())
    assert "PLAY Plan" not in output


def test_files_of_variables_that_nothing_reads_are_named(tmp_path):
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "host_vars/node01.yml").write_text("ntp_server: pool\n", encoding="utf-8")
    text = INVENTORY.replace("HOST", "ntp_server: pool")
    status, output = site(tmp_path, text)
    assert status == 4
    assert f"{tmp_path}/host_vars/node01.yml, so nothing reads them" in "".join(output.split("\n"))
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/gpu_nodes.yml").write_text("ntp_server: pool\n", encoding="utf-8")
    status, output = site(tmp_path, text)
    assert status == 2
    assert "GPULAB-I048" in output


def test_an_inventory_without_nodes_is_refused(tmp_path):
    status, output = site(tmp_path, "gpu-nodes: {children: {workstations: }}", "-l", "gpu-nodes")
    assert status == 4
    assert f"GPULAB-I020 the run has no hosts: the group gpu-nodes is empty ({tmp_path}/hosts.yml)." in output
    assert len(output.strip().splitlines()) <= 4
    assert "Error processing" not in output


def test_the_group_may_be_written_as_an_inventory_plugin_writes_it(tmp_path):
    text = INVENTORY.replace("HOST", "ntp_server: pool").replace("gpu-nodes", "gpu_nodes")
    status, output = site(tmp_path, text, "-l", "gpu_nodes")
    assert status == 4
    assert "node1  unreachable" in output


def test_a_run_that_would_begin_after_the_plan_is_refused(tmp_path):
    text = INVENTORY.replace("HOST", "ntp_server: pool")
    status, output = site(tmp_path, text, "--start-at-task", "Install the toolkits")
    assert status != 0
    assert "GPULAB-I040 --start-at-task Install the toolkits skips the tasks that read and plan the node" in output


def test_good_input_lets_the_run_go_on(tmp_path):
    status, output = site(tmp_path, INVENTORY.replace("HOST", "ntp_server: pool"))
    assert status == 4
    assert "PLAY Plan" in output
