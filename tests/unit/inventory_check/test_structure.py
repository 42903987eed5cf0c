"""The groups and addresses of an inventory."""

from __future__ import annotations

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils import options
from ansible_collections.gpulab.node.plugins.plugin_utils.inventory_check import structure, unknown
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

from .make import GROUPS, check_hosts

TYPES = "workstations, shared_workstations, training_servers, inference_servers"
ADD = f"Add each machine to one of the groups {TYPES}, below gpu-nodes"


def test_a_sound_inventory_passes():
    hosts = {"node1": {}, "node2": {"ansible_host": "10.0.0.2"}, "node3": {"ansible_host": "10.0.0.3"}}
    assert check_hosts(hosts) == []


def test_hosts_that_no_host_type_claims_are_refused():
    groups = {"gpu-nodes": ["node1", "node2", "node3"], "workstations": ["node1"], "rack_7": ["node2", "node3"]}
    (message,) = check_hosts({"node1": {}, "node2": {}, "node3": {}}, groups)
    assert message == (
        "GPULAB-I021 no host type is given to node2, node3. "
        f"Remedy: Add each to one of the groups {TYPES}, below gpu-nodes."
    )


def test_a_host_of_two_types_that_disagree_is_refused():
    groups = {**GROUPS, "inference_servers": ["node1"]}
    (message,) = check_hosts({"node1": {}, "node2": {}}, groups)
    assert message.startswith(
        "GPULAB-I025 node1 is in the host types workstations and inference_servers, which disagree about"
        " gpulab_environments. Remedy: Leave it in one of them,"
    )


def test_two_types_agree_where_the_inventory_sets_what_they_disagree_about():
    groups = {**GROUPS, "inference_servers": ["node1"]}
    assert check_hosts({"node1": {"gpulab_environments": []}, "node2": {}}, groups) == []
    assert check_hosts({"node1": {"gpulab_environments": None}, "node2": {}}, groups) == []


def test_a_misspelt_host_type_is_named():
    groups = {"gpu-nodes": ["node1", "node2"], "workstations": ["node1"], "trainning_servers": ["node2"]}
    assert check_hosts({"node1": {}, "node2": {}}, groups) == [
        "GPULAB-I023 the group trainning_servers of node2 is not a host type. Remedy: Did you mean training_servers?"
    ]


def test_a_host_outside_gpu_nodes_needs_no_host_type():
    assert check_hosts({"login": {}}, {"gpu-nodes": ["node1"], "workstations": ["node1"]}) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"ansible_host": "10.0.0.5"}, {"ansible_host": "10.0.0.5"}),
        ({"ansible_host": "GPU5.lab"}, {"ansible_host": "gpu5.lab", "ansible_port": 22}),
        ({"ansible_host": "node2"}, {}),
    ],
    ids=["same-address", "same-name-and-port", "address-is-the-name-of-another"],
)
def test_two_hosts_at_one_address_are_refused(one, other):
    (message,) = check_hosts({"node1": one, "node2": other})
    assert message == (
        f"GPULAB-I024 node1, node2 have the same address {one['ansible_host'].lower()} port 22."
        " Remedy: Give each its own ansible_host, or remove the duplicates."
    )


@pytest.mark.parametrize(
    "difference",
    [{"ansible_port": 2222}, {"ansible_ssh_common_args": "-J jump2"}, {"ansible_connection": "local"}],
    ids=["port", "jump-host", "connection"],
)
def test_one_address_reached_in_two_ways_is_two(difference):
    address = {"ansible_host": "10.0.0.5"}
    assert check_hosts({"node1": address, "node2": {**address, **difference}}) == []


@pytest.mark.parametrize(
    ("groups", "cause", "remedy"),
    [
        ({"gpu-nodes": []}, "is empty", f"{ADD}: workstations: {{hosts: {{NAME: {{ansible_host: ADDRESS}}}}}}"),
        ({"gpunodes": ["node1"]}, "is not in the inventory", "Did you mean gpu-nodes instead of gpunodes?"),
    ],
    ids=["empty", "misspelt"],
)
def test_an_inventory_without_gpu_nodes_is_refused(groups, cause, remedy):
    with pytest.raises(Refusal) as caught:
        structure.selection(groups)
    assert str(caught.value) == (f"GPULAB-I020 the run has no hosts: the group gpu-nodes {cause}. Remedy: {remedy}")


@pytest.mark.parametrize(
    ("names", "pattern"),
    [(["gpu-nodes"], "gpu-nodes"), (["gpu_nodes"], "gpu_nodes"), (["gpu-nodes", "gpu_nodes"], "gpu-nodes:gpu_nodes")],
)
def test_the_hosts_of_a_run_are_the_gpu_nodes_with_hyphen_or_underscore(names, pattern):
    groups = {name: [f"node{number}"] for number, name in enumerate(names)}
    assert structure.selection(groups) == pattern
    assert structure.nodes(groups) == [f"node{number}" for number in range(len(names))]
    untyped = [refusal.code for refusal in structure.faults({"node0": {}}, groups)]
    assert untyped == ["I021"]


# Names that are nearly those of groups gpulab looks for: (group, what is meant). None where it is another's.
NEARLY = {
    "slurm_controler": "slurm_controllers",
    "slurm_controller": "slurm_controllers",
    "slurm-controllers": "slurm_controllers",
    "Slurm_Controllers": "slurm_controllers",
    "slurmcontrollers": "slurm_controllers",
    "monitoring-server": "monitoring_server",
    "monitoring_servers": "monitoring_server",
    "monitoring_sever": "monitoring_server",
    "monitoringserver": "monitoring_server",
    "slurm_masters": None,
    "slurm": None,
    "monitoring": None,
    "monitored_servers": None,
    "file_servers": None,
}


@pytest.mark.parametrize(("group", "near"), NEARLY.items())
def test_a_misspelt_group_of_servers_is_refused_with_the_one_that_is_meant(group, near):
    said = check_hosts({"node1": {}}, {**GROUPS, group: ["head"]})
    found = [message for message in said if message.startswith("GPULAB-I046")]
    assert found == ([] if near is None else [found[0]])
    assert near is None or f"gpulab has no group {group}. Remedy: Did you mean {near}?" in found[0]


def test_a_group_beside_the_one_that_is_meant_is_its_owners():
    groups = {**GROUPS, "slurm_controllers": ["head"], "slurm_controllers_1": ["head"]}
    assert check_hosts({"node1": {}}, groups) == []


def test_a_role_that_is_used_alone_refuses_a_misspelt_group_too():
    said = [str(one) for one in unknown({"groups": {**GROUPS, "slurm_controler": ["head"]}}, options.load())]
    assert said == [str(refuse("I046", group="slurm_controler", near="slurm_controllers"))]


def test_the_group_of_the_network_has_to_be_there():
    (message,) = check_hosts({"node1": {"network_group": "rack_8"}})
    assert message.startswith("GPULAB-I006 network_group is rack_8, but must be one of ")
    assert "Did you mean rack_7?" in message
    assert check_hosts({"node1": {"network_group": "gpu-nodes"}}) == []


@pytest.mark.parametrize("address", ["10.0.0.1", "node1.lab", "fe80::1", "2001:db8::9:22", "user.example"])
def test_an_address_is_left_alone(address):
    assert check_hosts({"node1": {"ansible_host": address}, "node2": {}}) == []


@pytest.mark.parametrize(
    ("address", "settings"),
    [
        ("admin@10.0.0.1", "ansible_user: admin, ansible_host: 10.0.0.1"),
        ("10.0.0.1:2222", "ansible_host: 10.0.0.1, ansible_port: 2222"),
        ("admin@node1.lab:22", "ansible_user: admin, ansible_host: node1.lab, ansible_port: 22"),
    ],
)
def test_an_address_with_a_user_or_a_port_is_refused_with_the_settings_for_them(address, settings):
    (message,) = check_hosts({"node1": {"ansible_host": address}, "node2": {}})
    cause = f"node1: ansible_host is {address}, which is more than an address"
    assert message == f"GPULAB-I052 {cause}. Remedy: Write {settings}."
