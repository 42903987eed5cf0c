"""The labs in examples/: the project's own check of an inventory and its plan take them as they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.vars.manager import VariableManager

from unit.plan import make
from unit.plan.test_plan_action import of, run

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LABS = sorted((ROOT / "examples").glob("*/hosts.yml"))
RTX_4090, RTX_A6000, A100_SXM, L4, H100_SXM = (f"10de:{device}" for device in ("2684", "2230", "20b2", "27b8", "2330"))
# What each example says its machines are.
NODES = {
    "here/localhost": ("debian-12", [RTX_4090]),
    "two_workstations/desk1": ("debian-13", [RTX_4090]),
    "two_workstations/desk2": ("debian-13", [RTX_4090]),
    "four_servers/desk1": ("debian-13", [RTX_A6000]),
    "four_servers/train1": ("ubuntu-24.04", [A100_SXM] * 4),
    "four_servers/train2": ("ubuntu-24.04", [A100_SXM] * 4),
    "four_servers/infer1": ("debian-12", [L4]),
    "h100_node/dgx1": ("ubuntu-24.04", [H100_SXM] * 8),
}
CHECK = """
- hosts: gpu-nodes
  gather_facts: false
  any_errors_fatal: true
  tasks:
    - gpulab.node.inventory_check:
"""


def hosts(lab):
    """Return the variables of each host of a lab, as Ansible reads them."""
    loader = DataLoader()
    inventory = InventoryManager(loader=loader, sources=[str(lab)])
    variables = VariableManager(loader=loader, inventory=inventory)
    return {
        host.name: variables.get_vars(host=host, include_hostvars=False) for host in inventory.get_hosts("gpu-nodes")
    }


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.parent.name)
def test_the_inventory_is_not_refused(lab, tmp_path):
    playbook = tmp_path / "check.yml"
    playbook.write_text(CHECK, encoding="utf-8")
    command = [Path(sys.executable).with_name("ansible-playbook"), "-i", lab, playbook]
    environment = {**os.environ, "ANSIBLE_HOME": str(tmp_path / "home"), "ANSIBLE_NOCOLOR": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", NODES)
def test_every_node_of_a_lab_gets_a_plan(name):
    lab, _, host = name.partition("/")
    platform, gpus = NODES[name]
    variables = hosts(ROOT / "examples" / lab / "hosts.yml")[host]
    result = run({**variables, **of(make.facts(platform, gpus))})
    assert "gpulab_plan" in result.get("ansible_facts", {}), result.get("msg")


def test_every_lab_and_host_is_planned():
    assert {f"{lab.parent.name}/{host}" for lab in LABS for host in hosts(lab)} == set(NODES)
