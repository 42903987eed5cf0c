"""The action: facts, plan and limits of a host in; failure, warnings and advice out. And the role that calls it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.template import Templar
from ansible_collections.gpulab.node.plugins.action.preflight import ARGUMENTS, ActionModule
from ansible_collections.gpulab.node.plugins.modules.preflight import DOCUMENTATION
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import resolve

from unit.plan import make as planned

from .make import GIB, PLAN, answering, node

ROLE = Path(__file__).parents[3] / "roles/preflight"


def run(facts, plan=PLAN, inventory=None, **arguments):
    task = Task()
    task.args = arguments
    # it can tell no more than its temporary directory: an attempt to reach the node would fail
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="unused"))
    action = ActionModule(task, connection, PlayContext(), DataLoader(), Templar(DataLoader(), {}), None)
    known = {"gpulab": facts, "gpulab_plan": plan} if plan else {"gpulab": facts}
    return action.run(task_vars={"inventory_hostname": "node1", "ansible_facts": known, **(inventory or {})})


def test_a_good_node_passes():
    assert run(node()) == {
        "changed": False,
        "failed": False,
        "msg": "node1 meets the requirements of its plan",
        "warnings": [],
        "advice": [],
    }


def test_a_node_of_the_planner_passes():
    facts = planned.facts()
    plan = resolve(facts, options.complete({}), catalog.load(), planned.TODAY)
    assert run(facts, plan)["failed"] is False


def test_failures_are_lines_and_warnings_name_their_host():
    result = run(answering(node(root={"free_mib": 1, "read_only": True}, cpu_cores=4), total=16 * GIB))
    assert result["failed"] is True
    assert "refusal" not in result
    assert [line.split()[0] for line in result["msg"].splitlines()] == ["GPULAB-H081", "GPULAB-H082"]
    assert [warning.split()[:2] for warning in result["warnings"]] == [["node1:", "GPULAB-H071"]]
    assert [advice.split()[0] for advice in result["advice"]] == ["GPULAB-H070"]


def test_bounds_are_arguments_and_a_single_failure_is_data_too():
    result = run(node(), psu_watts="1000", required="power")
    assert result["refusal"]["code"] == "H077"
    assert result["msg"].startswith("GPULAB-H077 ")


def test_a_plan_has_to_be_there():
    with pytest.raises(AnsibleActionFail, match=r"run gpulab\.node\.gpu_facts and gpulab\.node\.plan"):
        run(node(), plan=None)


def test_the_documentation_and_the_role_have_the_arguments():
    documented = yaml.safe_load(DOCUMENTATION)["options"]
    options = yaml.safe_load((ROLE / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    passed = yaml.safe_load((ROLE / "tasks/main.yml").read_text())[0]["gpulab.node.preflight"]
    of_tiers = {"dataset_mounts": "{{ __preflight_dataset_mounts }}"}  # with those of storage_tiers
    assert passed == {name: f"{{{{ preflight_{name} }}}}" for name in ARGUMENTS} | of_tiers
    for name, spec in ARGUMENTS.items():
        for described in (documented[name], options[f"preflight_{name}"]):
            assert {key: described.get(key) for key in ("type", "default", "elements", "choices")} == {
                key: spec.get(key) for key in ("type", "default", "elements", "choices")
            }


@pytest.mark.parametrize(
    ("hostname", "listed", "severity"),
    [
        ("node1", [], None),
        ("NODE1.lab", [], None),
        ("localhost", [], None),
        ("gpu7", [], "warnings"),
        ("gpu7", ["gpu7.lab"], None),
        ("nas01", [], "failed"),
        ("node2.lab", [], "failed"),
    ],
)
def test_what_a_node_calls_itself_is_compared_with_the_inventory(hostname, listed, severity):
    inventory = {
        "groups": {"all": ["node1", "node2", "nas01"]},
        "hostvars": {"node1": {"gpulab_host_names": listed}},
    }
    result = run(node(hostname=hostname), inventory=inventory)
    told = [line for line in [result["msg"], *result["warnings"]] if "GPULAB-H148" in line]
    assert len(told) == (severity is not None)
    assert result["failed"] is (severity == "failed")
    assert any("GPULAB-H148" in line for line in result["warnings"]) is (severity == "warnings")
