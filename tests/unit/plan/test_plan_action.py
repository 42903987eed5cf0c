"""The action plan: facts and wishes of a host in, plan or refusal out; nothing is run on the node."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.template import Templar, trust_as_template
from ansible_collections.gpulab.node.plugins.action.plan import ActionModule

from . import make


def run(variables, *, check_mode=False, **arguments):
    task = Task()
    task.check_mode, task.args = check_mode, arguments
    templar = Templar(loader=DataLoader(), variables=variables)
    # it can tell no more than its temporary directory: an attempt to reach the node would fail
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="unused"))
    action = ActionModule(task, connection, PlayContext(), DataLoader(), templar, None)
    return action.run(task_vars=variables)


def of(node, **variables):
    return {"ansible_facts": {"gpulab": node}, **variables}


@pytest.mark.parametrize("check_mode", [False, True])
def test_the_plan_is_a_fact_of_the_host(check_mode):
    result = run(of(make.facts()), check_mode=check_mode)
    assert result["changed"] is False
    assert result["plan"] == result["ansible_facts"]["gpulab_plan"]
    assert result["because"][0] == "NVIDIA's repository has the branches with fixes."


def test_wishes_are_templated_and_other_variables_left_alone():
    branch = trust_as_template("{{ lab_branch }}")
    broken = trust_as_template("{{ nothing }}")
    result = run(of(make.facts(), nvidia_driver_branch=branch, lab_branch="580", broken=broken))
    assert result["plan"]["driver"]["branch"] == "580"


def test_an_option_that_the_plan_does_not_ask_for_is_not_templated():
    """It may be made of facts that are read later."""
    later = trust_as_template("{{ ansible_facts.nothing }}")
    assert "plan" in run(of(make.facts(), network_address=later))


def test_a_refusal_is_data_and_text():
    result = run(of(make.facts(), nvidia_driver_branch="535"))
    assert result["failed"] is True
    assert result["refusal"]["code"] == "P008"
    assert result["msg"].startswith("GPULAB-P008 ")
    assert result["refusal"]["remedy"] in result["msg"]
    assert "ansible_facts" not in result


@pytest.mark.parametrize(("nodes", "pinned"), [(["one"], False), (["one", "two"], True)])
def test_a_node_is_alone_where_the_inventory_has_no_other_of_its_type(nodes, pinned):
    node = make.facts()
    node["network"] = [{"name": "eno1", "kind": "physical", "up": True, "speed_gbps": 1.0, "default_route": True}]
    groups = {"gpu-nodes": ["one", "two", "three"], "workstations": nodes}
    result = run(of(node, groups=groups, group_names=["gpu-nodes", "workstations"]))
    names = [setting["name"] for setting in result["plan"]["nccl"]["settings"]]
    assert ("NCCL_SOCKET_IFNAME" in names) == pinned


def test_facts_have_to_be_read_first():
    with pytest.raises(AnsibleActionFail, match=r"gpulab\.node\.gpu_facts"):
        run({"ansible_facts": {}})
