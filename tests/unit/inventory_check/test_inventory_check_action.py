"""The action over a real inventory, and the filter that gives the play its hosts; no node is connected to."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from ansible import context
from ansible.inventory.manager import InventoryManager
from ansible.module_utils.common.collections import ImmutableDict
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.template import Templar, trust_as_template
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager
from ansible_collections.gpulab.node.plugins.action.inventory_check import ActionModule
from ansible_collections.gpulab.node.plugins.filter.gpu_nodes import gpu_nodes

LAB = Path(__file__).parents[3] / "lab"
INVENTORY = """
gpu-nodes:
  children: {workstations: , training_servers: , inference_servers: }
  vars: {nvidia_driver_source: distribution, lab_branch: "580"}
workstations:
  hosts:
    node1: {ansible_host: 10.0.0.1, VARIABLES}
training_servers:
  hosts:
    node2: {ansible_host: 10.0.0.2}
"""


@pytest.fixture
def run(tmp_path):
    """Return a function that checks the inventory with more variables on node1, and returns the action's result."""

    def checked(variables="ntp_server: pool", *, text=INVENTORY, facts=None, registered=None):
        path = tmp_path / "hosts.yml"
        path.write_text(text.replace("VARIABLES", variables), encoding="utf-8")
        loader = DataLoader()
        inventory = InventoryManager(loader, [str(path)])
        variable_manager = VariableManager(loader, inventory)
        if facts:
            variable_manager.set_host_facts("node1", facts)
            variable_manager.set_nonpersistent_facts("node1", facts)  # as inject_facts_as_vars does
        if registered:
            variable_manager.set_nonpersistent_facts("node1", registered)
        hosts = [host.name for host in inventory.get_hosts()]
        task_vars = {
            "hostvars": HostVars(inventory, variable_manager, loader),
            "groups": inventory.get_groups_dict(),
            "ansible_play_hosts_all": hosts,
        }
        # it can tell no more than its temporary directory: an attempt to reach the node would fail
        connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="unused"))
        action = ActionModule(Task(), connection, PlayContext(), loader, Templar(loader, task_vars), None)
        return action.run(task_vars=task_vars)

    return checked


def test_a_sound_inventory_passes(run):
    assert run() == {"changed": False, "msg": "the inventory of 2 hosts is valid"}


@pytest.mark.parametrize("without", [[], ["monitoring_state"]])
def test_the_inventory_of_the_lab_passes(run, without):
    nodes = yaml.safe_load((LAB / "nodes.yml").read_text(encoding="utf-8"))
    template = trust_as_template((LAB / "templates/hosts.yml.j2").read_text(encoding="utf-8"))
    types = yaml.safe_load((LAB.parent / "catalog/host_types.yml").read_text(encoding="utf-8"))["host_types"]
    known = {one["option"] for record in types for one in record["options"]}
    assert {option for node in nodes["lab_nodes"] for option in node.get("without", [])} <= known
    variables = {**nodes, "lab_directory": "/lab", "lab_subnet": "172.30.0", "lab_host_types": types}
    variables["lab_without"] = without
    text = Templar(DataLoader(), variables).template(template)
    assert ("    monitoring_state: null\n" in text) is bool(without)
    assert run(text=text)["msg"] == f"the inventory of {len(nodes['lab_nodes'])} hosts is valid"


def test_every_error_is_a_line(run):
    result = run("nvidia_driver_version: 580.10, gpulab_without_gpu: 'perhaps', gpulab_drivr_branch: 1")
    assert result["failed"] is True
    assert [line.split(":")[0] for line in result["msg"].splitlines()] == [
        "GPULAB-I003 node1",
        "GPULAB-I005 node1",
        "GPULAB-I001 node1",
    ]


def test_a_single_error_is_data_too(run):
    assert run("gpulab_x: 1")["refusal"]["code"] == "I001"


def test_values_are_judged_as_they_are_worked_out(run):
    assert "failed" not in run('nvidia_driver_branch: "{{ lab_branch }}"')
    assert (
        "GPULAB-I003 node1: nvidia_driver_branch is the number 580"
        in run('nvidia_driver_branch: "{{ lab_branch | int }}"')["msg"]
    )


def test_a_template_that_fails_is_refused(run):
    message = run('nvidia_driver_branch: "{{ lab_brnach }}"')["msg"]
    assert message == (
        "GPULAB-I013 node1: nvidia_driver_branch cannot be evaluated: 'lab_brnach' is undefined. Remedy: Define the"
        " variables that it uses, or correct its template."
    )


def test_what_roles_keep_for_later_plays_of_the_run_is_no_input(run):
    assert "failed" not in run(registered={"__nvidia_driver_later": True})
    assert "GPULAB-I002" in run("__nvidia_driver_later: true")["msg"]


def test_what_needs_the_facts_of_the_node_waits_for_them(run):
    assert "failed" not in run("nvidia_driver_kernels: \"{{ [ansible_facts['gpulab'].system.kernel] }}\"")


def test_templates_of_other_variables_are_left_alone(run):
    assert "failed" not in run('ntp_server: "{{ nothing }}"')


def test_facts_and_results_of_an_earlier_play_are_no_input(run):
    assert "failed" not in run(
        facts={"gpulab": {"schema": 1}, "gpulab_plan": {"schema": 1}},
        registered={"gpulab_verify": {"changed": False}, "__plan_facts": {"changed": False}},
    )


def test_the_filter_gives_the_group():
    assert gpu_nodes({"gpu-nodes": ["node1"]}) == "gpu-nodes"


@pytest.mark.parametrize("look", [None, "syntax", "listhosts", "listtasks", "listtags"])
def test_the_filter_fails_without_gpu_nodes_unless_nothing_is_run(monkeypatch, look):
    monkeypatch.setattr(context, "CLIARGS", ImmutableDict({look: True} if look else {}))
    if look:
        assert gpu_nodes({}) == "gpu-nodes"
    else:
        with pytest.raises(SystemExit, match="4"):
            gpu_nodes({})
