"""Files of an inventory that Ansible cannot read, or reads otherwise than meant: the line, and what helps."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.inventory_check import syntax

ROOT = Path(__file__).parents[3]
GOOD = [
    "gpu-nodes:\n  children:\n    workstations:\n      hosts:\n        node1:\n      vars: {a: [1]}\n",
    "gpu-nodes:\n  hosts: node1\n",
    "all:\n  vars:\n    secret: !vault |\n      $ANSIBLE_VAULT;1.1;AES256\n      3136\n",
    "$ANSIBLE_VAULT;1.1;AES256\n31363\n",
    "plugin: constructed\nhosts: [a]\ngroups: {hosts: [a]}\n",
    "",
]
BAD = {
    "a tab": ("workstations:\n  hosts:\n\tnode1:\n", "3", "spaces"),
    "no colon": ("workstations:\n  hosts:\n    node1\n    node2: {a: b}\n", "4", "colon"),
    "a quote that does not end": ('workstations:\n  hosts:\n    node1: {a: "b}\n', "4", "quotes"),
    "indented differently": ("workstations:\n  hosts:\n    node1:\n   node2:\n", "4", "indentation"),
    "a colon in a value": ("workstations:\n  vars:\n    a: b: c\n", "3", "quotes"),
    "a list of hosts": ("workstations:\n  hosts:\n    - node1\n", "3", "{node01:, node02:}"),
    "a list of groups": ("gpu-nodes:\n  children: [workstations]\n", "2", "no dash"),
    "a list further down": ("all:\n  children:\n    workstations:\n      hosts:\n        - node1\n", "5", "hosts: {"),
}


@pytest.mark.parametrize("text", GOOD)
def test_a_file_without_fault_is_left_to_ansible(tmp_path, text):
    path = tmp_path / "hosts.yml"
    path.write_text(text, encoding="utf-8")
    assert syntax.fault(path) is None


@pytest.mark.parametrize("path", sorted([*ROOT.glob("examples/*/hosts.yml"), ROOT / "inventory/hosts.yml"]))
def test_the_inventories_of_the_checkout_have_none(path):
    assert syntax.fault(path) is None


def test_what_is_no_file_of_yaml_is_left_to_ansible(tmp_path):
    (tmp_path / "hosts").write_text("[a]\n\tb\n", encoding="utf-8")
    (tmp_path / "binary.yml").write_bytes(b"\xff\xfe")
    for path in ("hosts", "binary.yml", "missing.yml"):
        assert syntax.fault(tmp_path / path) is None


@pytest.mark.parametrize(("text", "line", "advice"), BAD.values(), ids=BAD)
def test_a_fault_is_named_with_its_line_and_what_helps(tmp_path, text, line, advice):
    path = tmp_path / "hosts.yml"
    path.write_text(text, encoding="utf-8")
    refusal = syntax.fault(path)
    assert refusal.code == "I050"
    assert refusal.cause.startswith(f"{path}:{line} cannot be read: ")
    assert advice in refusal.remedy


def test_ansible_ends_with_that_message_alone(tmp_path):
    path = tmp_path / "hosts.yml"
    path.write_text(BAD["a tab"][0], encoding="utf-8")
    argv = ["ansible-inventory", "-i", path, "--list"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert done.stderr.startswith(f"[ERROR]: GPULAB-I050 {path}:3 ")
    assert len(done.stderr.splitlines()) == 1
