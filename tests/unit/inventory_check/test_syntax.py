"""Files of an inventory that Ansible cannot read, or reads otherwise than meant: the line, and what helps."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml
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
    "a quote that does not end": ('workstations:\n  hosts:\n    node1: {a: "b}\n', "3", "second quote"),
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
    for path in ("hosts", "binary.yml"):
        assert syntax.fault(tmp_path / path) is None
    assert "no such file" in syntax.fault(tmp_path / "missing.yml").cause
    assert syntax.fault(tmp_path / "missing.yml", is_one_of_several=True) is None


@pytest.mark.parametrize(("text", "line", "advice"), BAD.values(), ids=BAD)
def test_a_fault_is_named_with_its_line_and_what_helps(tmp_path, text, line, advice):
    path = tmp_path / "hosts.yml"
    path.write_text(text, encoding="utf-8")
    refusal = syntax.fault(path)
    assert refusal.code == "I050"
    assert refusal.cause.startswith(f"{path}:{line} cannot be read: ")
    assert advice in refusal.remedy


FILES = [
    case
    for case in yaml.safe_load((ROOT / "tests/unit/mistakes.yml").read_text(encoding="utf-8"))
    if case.get("rc") == 4 and "I020" not in case["says"] and "files" in case and ".password" not in case["files"]
]


@pytest.mark.parametrize("case", FILES, ids=lambda case: case["what"])
def test_a_fault_of_a_file_beside_the_inventory_is_named(case, tmp_path):
    unread = ("all.yml~", ".old", ".git/COMMIT_EDITMSG", "README", "all/.old/a.yml", "of_another_inventory.yml")
    good = {
        "hosts.yml": "gpu-nodes: {children: {workstations: {hosts: {n1: }}}}\n",
        **{f"group_vars/{name}": "- no\n" for name in unread},
    }
    for name, text in {**good, **case["files"]}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text.replace("VAULT", "$ANSIBLE_VAULT;1.1;AES256\n31\n"), encoding="utf-8")
    refusal = syntax.fault(tmp_path / "hosts.yml")
    assert refusal.code == "I050"
    assert [word for word in case["says"] if word not in str(refusal)] == []


def test_a_vault_whose_password_is_given_and_good_variables_are_left_to_ansible(tmp_path):
    (tmp_path / "group_vars/all").mkdir(parents=True)
    (tmp_path / "group_vars/all/vault").write_text("$ANSIBLE_VAULT;1.1;AES256\n31\n", encoding="utf-8")
    (tmp_path / "group_vars/all/main.yml").write_text("a: {<<: {b: 1}, c: '{{ d }}'}\ne: [{f: 1}]\n", encoding="utf-8")
    (tmp_path / "hosts").write_text("[all]\nn1\n", encoding="utf-8")
    assert syntax.fault(tmp_path / "hosts", has_vault_password=True) is None
    assert syntax.fault(tmp_path / "hosts").cause.endswith("it is encrypted, and no password was given.")
    assert syntax.fault(Path("n1,n2"), has_vault_password=True) is None


@pytest.mark.parametrize("text", ["a=b", "@hosts.yml", "@~/hosts.yml", '{"a": [1]}', "[a]"])
def test_what_e_can_take_is_left_to_ansible(tmp_path, monkeypatch, text):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "hosts.yml").write_text("a: 1\n", encoding="utf-8")
    assert syntax.fault_of_arguments([text], tmp_path) is None


@pytest.mark.parametrize(("text", "problem"), [("@nothing.yml", "no such file"), ('{"a": b', "expected")])
def test_what_e_cannot_take_is_named(tmp_path, text, problem):
    refusal = syntax.fault_of_arguments(["a=b", text], tmp_path)
    assert refusal.cause.startswith(f"-e {text} cannot be read: ")
    assert problem in refusal.cause


def test_ansible_ends_with_that_message_alone(tmp_path):
    path = tmp_path / "hosts.yml"
    path.write_text(BAD["a tab"][0], encoding="utf-8")
    argv = ["ansible-inventory", "-i", path, "--list"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert done.stderr.startswith(f"[ERROR]: GPULAB-I050 {path}:3 ")
    assert len(done.stderr.splitlines()) == 1
