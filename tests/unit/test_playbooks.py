"""The roles stand in one list: provision.yml and plan.yml run it, and remove.yml goes through it backwards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.plugin_utils import due

ROOT = Path(__file__).parents[2]
INCLUDE_ROLE, IMPORT_TASKS = "ansible.builtin.include_role", "ansible.builtin.import_tasks"
AROUND = {  # outside of the list
    "capture",
    "diagnose",
    "fence",
    "monitoring_server",
    "nightly",
    "plan",
    "preflight",
    "rebuild",
    "reinstall",
    "rollout",
    "slurm",
    "verify",
}
STAYS = {"storage", "environments", "conda"}  # people's data, and what they work with
UNDONE_BY_NOTHING = {"reboot"}


def load(path):
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


ENTRIES = load("playbooks/tasks/roles.yml")
ROLES = [entry[INCLUDE_ROLE]["name"].removeprefix("gpulab.node.") for entry in ENTRIES]
(REMOVE,) = load("playbooks/remove.yml")


def lists(node):
    """Yield every list of tasks that a playbook imports."""
    if isinstance(node, dict):
        yield from [node[IMPORT_TASKS]] if IMPORT_TASKS in node else []
        node = list(node.values())
    for item in node if isinstance(node, list) else ():
        yield from lists(item)


def test_every_role_is_in_the_list_once():
    assert sorted(ROLES) == sorted({path.name for path in (ROOT / "roles").iterdir()} - AROUND)


@pytest.mark.parametrize("entry", ENTRIES, ids=ROLES)
def test_every_role_has_a_tag_of_its_name(entry):
    name = entry[INCLUDE_ROLE]["name"].removeprefix("gpulab.node.")
    tags = [entry["tags"]] if isinstance(entry["tags"], str) else entry["tags"]
    assert name in tags
    assert entry[INCLUDE_ROLE]["apply"]["tags"] == entry["tags"]  # else --tags would leave out all that is in the role


@pytest.mark.parametrize("role", due.PARTS)
def test_a_role_runs_where_it_is_due(role):
    entry = ENTRIES[ROLES.index(role)]
    assert entry["when"] == f"'{role}' in ansible_facts['gpulab_plan'].due"


def test_every_role_may_be_due():
    assert list(due.PARTS) == [role for role in ROLES if role != "reboot"]


def test_the_playbooks_run_the_list_and_what_is_around_it():
    assert list(lists(load("playbooks/plan.yml"))) == ["tasks/plan.yml", "tasks/roles.yml"]
    assert list(lists(load("playbooks/provision.yml"))) == ["tasks/begin.yml", "tasks/apply.yml"]
    assert list(lists(load("playbooks/rollout.yml")))[1:] == ["tasks/plan.yml", "tasks/begin.yml", "tasks/apply.yml"]
    assert list(lists(load("playbooks/tasks/apply.yml"))) == ["roles.yml"]


def test_what_is_taken_away_goes_in_reverse():
    removed = [role["role"].removeprefix("gpulab.node.") for role in REMOVE["roles"]]
    assert removed == [role for role in reversed(ROLES) if role not in STAYS | UNDONE_BY_NOTHING]
    assert [role["tags"] for role in REMOVE["roles"]] == removed


@pytest.mark.parametrize("role", [role for role in ROLES if role not in STAYS])
def test_what_is_taken_away_is_declared_absent(role):
    options = load(f"roles/{role}/meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    assert REMOVE["vars"].get(f"{role}_state") == ("absent" if f"{role}_state" in options else None)


def test_nothing_is_done_for_a_driver_before_the_firmware_is_known_to_let_it_load():
    """Not even where only nouveau or only the driver is asked for."""
    entry = ENTRIES[ROLES.index("secure_boot")]
    for name in ("nouveau", "nvidia_driver"):
        assert ROLES.index("secure_boot") < ROLES.index(name)
        assert name in entry["tags"]


def tasks(playbook, tmp_path, *arguments):
    """Return the tasks that a playbook would run, without what checks the arguments of roles."""
    inventory = tmp_path / "inventory.yml"
    inventory.write_text("gpu-nodes: {children: {workstations: {hosts: {node1: {}}}}}\n", encoding="utf-8")
    argv = [Path(sys.executable).with_name("ansible-playbook"), "-i", inventory, playbook, "--list-tasks", *arguments]
    environment = {**os.environ, "ANSIBLE_HOME": str(tmp_path / "home")}
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=True)
    lines = [line.partition("\t")[0].strip() for line in done.stdout.splitlines() if "\t" in line]
    return [line for line in lines if not line.startswith("play #") and "Validating arguments" not in line]


@pytest.mark.parametrize("playbook", ["gpulab.node.provision", "gpulab.node.plan"])
def test_a_tag_chooses_a_role_and_keeps_what_every_role_needs(playbook, tmp_path):
    found = tasks(playbook, tmp_path, "--tags=base")
    roles = {line.partition(" : ")[0].removeprefix("gpulab.node.") for line in found if " : " in line}
    assert roles == {"plan", "preflight"}
    assert {"Check the inventory before any node is changed", "Prepare the host"} <= set(found)
    assert "Install the driver" not in found
