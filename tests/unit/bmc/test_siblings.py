"""Firmware of machines of one kind is compared over a run, and no machine is the measure of the others."""

import pytest
from ansible_collections.gpulab.node.plugins.action import bmc_fleet as action
from ansible_collections.gpulab.node.plugins.plugin_utils.bmc.siblings import apart


def document(host, version, part="900-1", component="NIC", **further):
    firmware = [{"name": component, "version": version}]
    known = {"host": host, "part_number": part, "manufacturer": "Stand-in", "model": "Node 8", "firmware": firmware}
    return {**known, **further}


def run(*versions, **further):
    return [document(f"n{number}", version, **further) for number, version in enumerate(versions)]


def test_machines_that_are_alike_differ_in_nothing():
    assert apart(run("1", "1", "1")) == []
    assert apart([]) == []


def test_the_one_that_differs_from_a_majority_of_three_is_named():
    (found,) = apart(run("1", "2", "1"))
    assert found["hosts"] == {"n1": "2"}
    assert found["usual"] == "1"
    assert found["text"] == "NIC of 900-1 differs: n1 2; 2 of 3 machines have 1"


@pytest.mark.parametrize("versions", [("1", "2"), ("1", "1", "2", "2"), ("1", "2", "3"), ("1", "1", "2", "3")])
def test_without_a_majority_of_three_nobody_knows_which_is_right(versions):
    (found,) = apart(run(*versions))
    assert found["usual"] is None
    assert set(found["hosts"].values()) == set(versions)
    assert found["text"].endswith("nobody knows which is right")


def test_the_first_machine_is_no_measure():
    (found,) = apart(run("2", "1", "1"))
    assert found["hosts"] == {"n0": "2"}


def test_machines_of_different_kinds_are_not_compared():
    assert apart([*run("1", "1", "1"), document("x", "2", part="900-2")]) == []
    assert apart([*run("1", "1", part=""), document("x", "2", part="", model="Node 4")]) == []


def test_a_machine_without_a_kind_and_a_version_that_was_not_told_are_left_out():
    assert apart(run("1", "2", part="", manufacturer="", model="")) == []
    assert apart(run("1", "", "1", "1")) == []


def test_a_component_that_is_there_several_times_is_compared_as_a_whole():
    twice = [{"name": "GPU", "version": "1"}, {"name": "GPU", "version": "2"}]
    once = [{"name": "GPU", "version": "1"}]
    (found,) = apart([*run("", "", firmware=once), document("x", "", firmware=twice)])
    assert found["hosts"] == {"x": "1, 2"}


def test_the_action_leaves_out_hosts_without_a_bmc_and_those_that_left(tmp_path):
    task = action.ActionModule.__new__(action.ActionModule)
    documents = {one["host"]: {"read": {"document": one}} for one in run("1", "2", "1")}
    hosts = {**documents, "none": {"read": {"document": None}}, "other": {}}
    given = {"register": "read", "path": str(tmp_path / "all.json")}
    variables = {"ansible_play_hosts": ["n0", "n1", "none", "other"], "hostvars": hosts}
    found = task.for_hosts(given, variables)
    assert found["siblings"][0]["hosts"] == {"n0": "1", "n1": "2"}
    assert found["lines"][-1] == f"page: {tmp_path}/all.json"
