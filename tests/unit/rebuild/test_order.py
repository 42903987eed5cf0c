"""The order in which the roles go, where another one would lose something when the controller dies in between."""

from __future__ import annotations

from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]


def load(path):
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def tasks(part):
    """Yield the tasks of a list and of its blocks, each as (module, arguments, task)."""
    for task in part:
        yield from (
            (name, arguments, task) for name, arguments in task.items() if name.startswith(("gpulab.", "ansible."))
        )
        for inner in ("block", "rescue"):
            yield from tasks(task.get(inner, ()))


def works(path, module):
    """Return what a module does in a file, in its order."""
    return [arguments for name, arguments, _task in tasks(load(path)) if name == f"gpulab.node.{module}"]


def position(path, wanted):
    """Return where a task stands, by the value of its argument work or state, or by its role."""
    found = list(tasks(load(path)))
    (number,) = (
        number
        for number, (_name, arguments, _task) in enumerate(found)
        if isinstance(arguments, dict)
        and wanted in (arguments.get("work"), arguments.get("state"), arguments.get("name"))
    )
    return number


INSTALL, FINISH = "roles/reinstall/tasks/install.yml", "roles/rebuild/tasks/finish.yml"


def test_the_controller_knows_of_the_installation_before_any_reboot_could_begin_it():
    """Else a run that died in between, and a power cut, end in a capture of the new system as the newest one."""
    assert position(INSTALL, "lock") < position(INSTALL, "installing") < position(INSTALL, "arm")
    assert position(INSTALL, "arm") < position(INSTALL, "reboot")


def test_a_node_is_captured_behind_the_lock_and_looked_at_again_before_it_is_armed():
    assert position(INSTALL, "lock") < position(INSTALL, "gpulab.node.capture") < position(INSTALL, "put")
    names = [name for name, _arguments, _task in tasks(load(INSTALL))]
    assert position(INSTALL, "put") < names.index("gpulab.node.gpu_facts") < position(INSTALL, "arm")


def test_the_settings_are_checked_against_the_new_system_before_anything_changes():
    """Else the node is wiped, and then waits for a person who mends its inventory."""
    reinstall = "roles/reinstall/tasks/main.yml"
    names = [name for name, _arguments, _task in tasks(load(reinstall))]
    planned = names.index("gpulab.node.plan")
    assert position(reinstall, "plan") < planned < names.index("gpulab.node.refuse")
    assert names.index("gpulab.node.refuse") < names.index("ansible.builtin.import_tasks")
    first = load("playbooks/reinstall.yml")[0]
    assert [name for name, _arguments, _task in tasks(first["tasks"])] == ["gpulab.node.inventory_check"]


def test_a_node_is_proven_only_when_all_is_done():
    """A proven node is reinstalled by the same command; a run that stopped before has to go on instead."""
    assert position(FINISH, "proven") == len(list(tasks(load(FINISH)))) - 1


def test_jobs_start_only_in_a_run_that_has_proven_the_node():
    """The proof of the provisioning, which fails nothing, does not count; nor does a run with --tags."""
    first, *_others = tasks(load(FINISH))
    assert first[:2] == ("gpulab.node.refuse", {"code": "R068", "values": {"host": "{{ inventory_hostname }}"}})
    assert "gpulab_verify.counts is not defined" in first[2]["when"]
    last = list(tasks(load("roles/rebuild/tasks/environments.yml")))[-1]
    assert last[:2] == ("ansible.builtin.set_fact", {"gpulab_verify": {}})
    plays = {play["name"]: play for play in load("playbooks/rebuild.yml")}
    assert plays["Prove"]["tags"] == "always"


def test_jobs_are_held_before_anything_is_provisioned_and_let_go_at_the_end():
    (held,) = [
        number
        for number, (_name, _arguments, task) in enumerate(tasks(load("roles/rebuild/tasks/main.yml")))
        if "hold_jobs" in task.get("loop", ())
    ]
    assert held > position("roles/rebuild/tasks/main.yml", "gates")
    names = [play["name"] for play in load("playbooks/rebuild.yml")]
    assert names.index("Restore the nodes") < names.index("Provision") < names.index("Prove")
    assert names[-1] == "Enable the jobs"


def test_facts_of_before_a_reinstall_are_read_again():
    """Trap 15: a cache of facts may have those of the former system."""
    first, *_others = tasks(load("roles/rebuild/tasks/main.yml"))
    assert first[:2] == ("gpulab.node.gpu_facts", {"work": "begin"})


def test_a_reinstall_and_its_rebuild_are_of_the_same_hosts():
    """The rebuild, and the provisioning in it, must reach no node that was not reinstalled: -l limits all of them."""
    playbooks = [load(f"playbooks/{name}.yml") for name in ("reinstall", "rebuild", "provision")]
    assert len({play["hosts"] for plays in playbooks for play in plays if "hosts" in play}) == 1
