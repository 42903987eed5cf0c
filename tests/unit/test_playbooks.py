"""What each playbook runs, and what the tags of a run choose."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.plugin_utils import options
from ansible_collections.gpulab.node.plugins.plugin_utils.roles import known

ROOT = Path(__file__).parents[2]
TASKS, RECEIPT = ("ansible.builtin.import_tasks", "ansible.builtin.include_tasks"), "gpulab.node.receipt:"
DRIVERS = ("secure_boot", "nouveau", "nvidia_driver")


def load(path):
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def lists(node):
    """Yield every list of tasks that a playbook imports or includes."""
    if isinstance(node, dict):
        yield from (node[name] for name in TASKS if name in node)
        node = list(node.values())
    for item in node if isinstance(node, list) else ():
        yield from lists(item)


def test_whoever_ends_with_a_receipt_is_in_the_list():
    with_receipt = {path.parents[1].name for path in ROOT.glob("roles/*/tasks/*.yml") if RECEIPT in path.read_text()}
    assert with_receipt == known.with_receipt().keys()


def test_the_playbooks_run_the_list_and_what_is_around_it():
    assert list(lists(load("playbooks/plan.yml"))) == ["tasks/plan.yml", "tasks/roles.yml"]
    assert list(lists(load("playbooks/provision.yml"))) == ["tasks/begin.yml", "tasks/apply.yml"]
    assert list(lists(load("playbooks/rollout.yml")))[1:] == ["tasks/plan.yml", "tasks/begin.yml", "tasks/apply.yml"]
    assert list(lists(load("playbooks/tasks/apply.yml"))) == ["roles.yml"]


@pytest.mark.parametrize(
    ("tasks", "roles"),
    [
        (load("playbooks/tasks/begin.yml"), {"nvidia_driver", "storage", "users", "directory"}),
        (load("playbooks/remove.yml")[0]["pre_tasks"], {"nvidia_driver", "users"}),
    ],
)
def test_what_only_the_node_can_tell_is_refused_before_the_first_change(tasks, roles):
    included = [task.get("ansible.builtin.include_role") or task.get("ansible.builtin.import_role") for task in tasks]
    judging = {role["name"] for role in included if role and role.get("tasks_from") == "preflight"}
    assert judging == {f"gpulab.node.{name}" for name in roles}


def test_a_role_is_removed_or_says_why_it_stays():
    assert [name for name, role in known.with_receipt().items() if role.is_removed == bool(role.stays)] == []


def test_what_is_removed_is_declared_absent():
    states = {f"{name}_state" for name in known.removed()} & options.load().options.keys()
    of_roles = {name: value for role in known.load().values() for name, value in role.at_removal.items()}
    assert {name: of_roles.get(name) for name in states} == dict.fromkeys(states, "absent")
    assert of_roles.keys() <= options.load().options.keys()


def test_nothing_is_done_for_a_driver_before_the_firmware_is_known_to_let_it_load():
    """Not even where only nouveau or only the driver is asked for."""
    assert [name for name in known.load() if name in DRIVERS] == list(DRIVERS)
    assert known.load()["secure_boot"].tags == list(DRIVERS[1:])


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
