"""The filters that put a cluster together, from the inventory and from what the role read of its hosts."""

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.node.plugins.filter.slurm_cluster import slurm_cluster
from ansible_collections.gpulab.node.plugins.filter.slurm_files import slurm_files
from ansible_collections.gpulab.node.plugins.filter.slurm_node import slurm_node
from ansible_collections.gpulab.node.plugins.module_utils.slurm import cluster, joining

from unit import machines

GROUPS = {"gpu-nodes": ["a", "b", "c"], "slurm_controllers": ["head", "b"]}
ABOUT = {"name": "lab", "controller": "head", "address": "10.0.0.1", "accounting": False, "further": {}}


def variables(**of):
    return {name: of.get(name, {}) for name in ("a", "b", "c", "head")}


def member(name, version="24.11.5"):
    """Return the variables of a node that the role looked at."""
    facts = machines.machine({"system": {"hostname": name}, "pci": {"gpus": []}})
    read = {"__slurm_next": version, "__slurm_cpuinfo": "", "__slurm_reserve": 5}
    found = {"head": {"__slurm_next": "24.11.5"}, name: read}
    return {**read, "__slurm_node": slurm_node(facts, name, "head", found, ["training_servers"], None)}


def test_nodes_belong_to_the_first_controller_or_to_the_one_that_is_named():
    given = variables(a={"slurm_state": "present"}, b={"slurm_state": "present", "slurm_controller": "b"})
    assert slurm_cluster(GROUPS, given, "a") == {"controller": "head", "controls": False, "members": []}
    assert slurm_cluster(GROUPS, given, "b") == {"controller": "b", "controls": True, "members": ["b"]}
    assert slurm_cluster(GROUPS, given, "head") == {"controller": "head", "controls": True, "members": ["a"]}
    assert slurm_cluster(GROUPS, given, "c")["controller"] is None


def test_a_node_that_is_to_leave_is_in_the_files_until_no_job_is_on_it():
    given = variables(a={"slurm_state": "present"}, c={"slurm_state": "absent"})
    assert slurm_cluster(GROUPS, given, "head")["members"] == ["a", "c"]
    given["c"]["__slurm_leaves"] = True
    assert slurm_cluster(GROUPS, given, "head")["members"] == ["a"]
    assert slurm_cluster(GROUPS, given, "c") == {"controller": None, "controls": False, "members": []}


def test_the_controller_of_a_node_that_leaves_takes_it_out():
    given = variables(a={"slurm_state": "absent", "slurm_controller": "b", "__slurm_leaves": True})
    assert slurm_cluster(GROUPS, given, "b") == {"controller": "b", "controls": True, "members": []}


def test_a_controller_that_nobody_names_stays_as_it_is():
    assert not slurm_cluster(GROUPS, variables(a={"slurm_state": "present"}), "b")["controls"]


@pytest.mark.parametrize("named", [None, "c"])
def test_a_node_without_a_controller_is_refused(named):
    given = variables(a={"slurm_state": "present", "slurm_controller": named})
    groups = {**GROUPS, "slurm_controllers": []} if named is None else GROUPS
    with pytest.raises(AnsibleFilterError, match="GPULAB-F037"):
        slurm_cluster(groups, given, "a")


def test_a_node_whose_controller_takes_no_part_is_refused():
    with pytest.raises(AnsibleFilterError, match="GPULAB-F036"):
        slurm_node(machines.machine(), "a", "head", {"a": {}, "head": {}}, [], None)


def test_a_node_of_another_time_is_refused():
    with pytest.raises(AnsibleFilterError, match="GPULAB-F035"):
        member("a", "22.05.8")


def test_a_node_that_calls_itself_otherwise_is_refused_until_the_inventory_knows_the_name():
    facts = machines.machine({"system": {"hostname": "gpu7"}, "pci": {"gpus": []}})
    read = {"__slurm_next": "24.11.5", "__slurm_cpuinfo": "", "__slurm_reserve": 5}
    found = {"head": {"__slurm_next": "24.11.5"}, "a": read}
    with pytest.raises(AnsibleFilterError, match=r"GPULAB-F045 a calls itself gpu7.*set-hostname a\)"):
        slurm_node(facts, "a", "head", found, [], None)
    read["gpulab_host_names"] = ["gpu7.lab"]
    assert slurm_node(facts, "a", "head", found, [], None)["line"].startswith("NodeName=gpu7 ")


def test_the_nodes_of_the_run_and_those_of_earlier_ones_are_in_the_files():
    own = {"__slurm_now": "", "__slurm_next": "24.11.5"}
    first = slurm_files(["a", "b"], variables(head=own, a=member("a"), b=member("b")), "head", ABOUT, {})
    assert (first["nodes"], first["join"]) == (["a", "b"], False)
    again = slurm_files(
        ["a", "b"],
        variables(head=own, a=member("a")),
        "head",
        ABOUT,
        first["files"] | {cluster.CONFIGURATION: f"# Written by gpulab\n{first['files'][cluster.CONFIGURATION]}"},
    )
    assert again == first


def test_a_node_that_was_refused_is_not_in_the_files():
    own = {"__slurm_now": "", "__slurm_next": "24.11.5"}
    refused = {**member("b"), "__slurm_node": None}
    found = slurm_files(["a", "b"], variables(head=own, a=member("a"), b=refused), "head", ABOUT, {})
    assert found["nodes"] == ["a"]


def test_an_upgrade_that_loses_the_jobs_is_refused():
    own = {"__slurm_now": "22.05.8", "__slurm_next": "24.11.5"}
    with pytest.raises(AnsibleFilterError, match="GPULAB-F038"):
        slurm_files([], variables(head=own), "head", ABOUT, {})


def test_gpulabs_own_block_is_no_part_of_somebody_elses_file():
    own = {"__slurm_now": "24.11.5", "__slurm_next": "24.11.5"}
    theirs = "ClusterName=x\nGresTypes=gpu\nSlurmctldParameters=enable_configless\n"
    former = {cluster.CONFIGURATION: theirs}
    found = slurm_files(["a"], variables(head=own, a=member("a")), "head", ABOUT, former, join=True)
    assert found["join"]
    assert set(found["files"]) == {joining.JOINED, joining.JOINED_GRES}
    with pytest.raises(AnsibleFilterError, match="GPULAB-F030"):
        slurm_files(["a"], variables(head=own), "head", ABOUT, former)
