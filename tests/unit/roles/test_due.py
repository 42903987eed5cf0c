"""A role is left out only where its receipt holds: whatever it works from, and whatever it leaves, makes it due."""

from __future__ import annotations

import copy
import re
from datetime import date
from functools import partial
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.module_utils.checks.software import drifted
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import resolve
from ansible_collections.gpulab.node.plugins.plugin_utils.roles import due, known

from unit import machines

ROOT = Path(__file__).parents[3]
HOST = "node1"
VARIABLES = {"inventory_hostname": HOST, "groups": {"gpu-nodes": [HOST]}, "hostvars": {HOST: {}}, "group_names": []}
# What a role decides by at the time when it runs: it does not make the role due.
OF_THE_MOMENT = {"users_of_gpus", "own_files", "reboot", "long_steps", "collector", "dcgm_exporter", "exporter"}


@pytest.fixture
def facts():
    return copy.deepcopy(machines.machine())


def planned(facts, **given):
    values = options.complete(given)
    return resolve(facts, values, catalog.load(), date(2026, 11, 1), alone=True), values


def receipts(plan, facts, values, variables):
    """Return the receipts of a run that brought the node to its plan."""
    return {
        role: {"inputs": due.inputs(role, plan, facts, values, variables), "problem": "", "differs": [], "drift": []}
        for role in known.with_receipt()
    }


def found(facts, left=None, variables=None, **given):
    """Return what is due after a run with the defaults; left is what that run left, if not all of it."""
    plan, values = planned(facts)
    left = receipts(plan, facts, values, VARIABLES) if left is None else left
    plan, values = planned(facts, **given)
    return due.roles(left, plan, facts, values, variables or VARIABLES)


def test_nothing_is_due_after_a_run(facts):
    assert found(facts) == {}


def test_everything_is_due_on_a_bare_node_and_where_it_is_asked_for(facts):
    assert list(found(facts, left={})) == list(known.with_receipt())
    assert list(found(facts, gpulab_due="all")) == list(known.with_receipt())


@pytest.mark.parametrize("role", known.with_receipt())
def test_every_setting_of_a_role_makes_it_due(role, facts):
    """Also those that change no plan: roles read them themselves."""
    plan, values = planned(facts)
    left = receipts(plan, facts, values, VARIABLES)
    for name in due.settings(role):
        changed = {**{one: values[one] for one in values}, name: "something else"}
        assert due.inputs(role, plan, facts, changed, VARIABLES)["settings"] != left[role]["inputs"]["settings"], name


@pytest.mark.parametrize("role", known.with_receipt())
def test_every_part_of_the_plan_that_a_role_carries_out_makes_it_due(role, facts):
    plan, values = planned(facts)
    left = receipts(plan, facts, values, VARIABLES)
    for part in known.load()[role].plan:
        more = {**plan[part], "more": 1} if isinstance(plan[part], dict) else [*plan[part], {"more": 1}]
        assert due.WHY["plan"] in due.roles(left, {**plan, part: more}, facts, values, VARIABLES)[role], part


def test_what_the_plan_says_of_the_node_as_it_is_makes_no_role_due(facts):
    plan, values = planned(facts)
    of_now = {
        "because": ["another"],
        "change": {"from": "a", "to": "b"},
        "remove_packages": ["nvidia-driver-pinning-1"],
    }
    changed = {**plan, "driver": {**plan["driver"], **of_now, "conflicting_packages": ["nvidia-driver"]}}
    assert due.roles(receipts(plan, facts, values, VARIABLES), changed, facts, values, VARIABLES) == {}


def test_another_gpu_makes_every_role_due(facts):
    plan, values = planned(facts)
    left = receipts(plan, facts, values, VARIABLES)
    facts["pci"]["gpus"][0]["device"] = "10de:2684"
    assert list(due.roles(left, plan, facts, values, VARIABLES)) == list(known.with_receipt())


def test_a_new_kernel_makes_the_driver_due(facts):
    plan, values = planned(facts)
    left = receipts(plan, facts, values, VARIABLES)
    facts["kernels"].append({**facts["kernels"][0], "version": "6.99.0-1-amd64", "running": False})
    plan, values = planned(facts)
    assert due.WHY["plan"] in due.roles(left, plan, facts, values, VARIABLES)["nvidia_driver"]


@pytest.mark.parametrize("role", known.with_receipt())
def test_other_code_of_a_role_makes_it_due_alone(role, facts, monkeypatch):
    plan, values = planned(facts)
    left = receipts(plan, facts, values, VARIABLES)
    monkeypatch.setattr(due, "code", partial(dict, due.code(), **{role: "another"}))
    found = due.roles(left, plan, facts, values, VARIABLES)
    assert found.pop(role) == [due.WHY["gpulab"]]
    assert all({role, *found} & set(known.load()[name].due_with) for name in found)


def test_a_new_peer_makes_its_group_due(facts):
    settings = {"network_state": "present"}
    two = {
        **VARIABLES,
        "groups": {"gpu-nodes": [HOST, "node2"]},
        "hostvars": {HOST: {}, "node2": {"ansible_host": "10.0.0.2"}},
    }
    plan, values = planned(facts, **settings)
    left = receipts(plan, facts, values, VARIABLES)
    assert due.roles(left, plan, facts, values, two) == {"network": [due.WHY["nodes"]]}


def test_a_changed_file_on_the_controller_makes_its_role_due(facts, tmp_path):
    authority = tmp_path / "authority.pem"
    authority.write_text("one", encoding="utf-8")
    plan, values = planned(facts, base_ca_certificates=[str(authority)])
    left = receipts(plan, facts, values, VARIABLES)
    authority.write_text("two", encoding="utf-8")
    assert due.roles(left, plan, facts, values, VARIABLES) == {
        role: [due.WHY["files"]] for role in ("base", "directory", "container_toolkit")
    }


def test_a_host_s_file_in_a_directory_on_the_controller_counts(facts, tmp_path):
    given = {"monitoring_state": "present", "monitoring_targets": str(tmp_path)}
    plan, values = planned(facts, **given)
    (tmp_path / f"{HOST}.yml").write_text("- targets: []\n", encoding="utf-8")
    left = receipts(plan, facts, values, VARIABLES)
    (tmp_path / "node2.yml").write_text("- targets: []\n", encoding="utf-8")
    assert due.roles(left, plan, facts, values, VARIABLES) == {}
    (tmp_path / f"{HOST}.yml").unlink()
    assert due.roles(left, plan, facts, values, VARIABLES) == {"monitoring": [due.WHY["files"]]}


@pytest.mark.parametrize(
    ("receipt", "why"),
    [
        ({"problem": "its receipt is damaged"}, ["its receipt is damaged"]),
        ({"differs": ["/etc/x was removed"]}, ["/etc/x was removed"]),
    ],
)
def test_a_receipt_that_does_not_hold_makes_its_role_due(facts, receipt, why):
    plan, values = planned(facts)
    left = receipts(plan, facts, values, VARIABLES)
    left["nouveau"] = {**left["nouveau"], **receipt}
    assert due.roles(left, plan, facts, values, VARIABLES) == {"nouveau": why}


def test_what_depends_on_the_driver_is_due_with_it(facts):
    plan, values = planned(facts)
    left = receipts(plan, facts, values, VARIABLES)
    left["nvidia_driver"]["differs"] = ["libnvidia-ml1 was removed"]
    assert [*due.roles(left, plan, facts, values, VARIABLES)] == [
        "nvidia_driver",
        "cuda",
        "nccl",
        "gpu_settings",
        "container_toolkit",
        "monitoring",
    ]


@pytest.mark.parametrize(
    ("changes", "role"),
    [
        ({"reboot": {"reasons": ["the driver on disk is another"], "loadable": False}}, "reboot"),
        ({"reboot": {"reasons": [], "loadable": True}}, "reboot"),
    ],
)
def test_a_reboot_that_is_due_is_due(facts, changes, role):
    assert role in found({**facts, **changes})


def test_a_driver_that_is_not_confirmed_is_due(facts):
    facts["driver"]["former"] = {"nvidia-driver": "535"}
    assert "nvidia_driver" in found(facts)


def test_a_run_that_takes_newer_drivers_asks_for_them(facts):
    plan, values = planned(facts)
    left = receipts(plan, facts, values, VARIABLES)
    plan = {**plan, "driver": {**plan["driver"], "upgrade": True}}
    assert (
        "the distribution may have a newer driver" in due.roles(left, plan, facts, values, VARIABLES)["nvidia_driver"]
    )


def test_drift_is_said_once():
    receipt = {"drift": ["/etc/x was removed"]}
    assert drifted({"base": receipt, "cuda": receipt, "nccl": {"drift": []}}) == ["/etc/x was removed"]


def sources(role):
    files = [path for path in (ROOT / "roles" / role).rglob("*") if path.suffix in (".yml", ".j2")]
    return "\n".join(path.read_text(encoding="utf-8") for path in files if "meta" not in path.parts)


@pytest.mark.parametrize("role", known.with_receipt())
def test_a_role_reads_no_other_part_of_the_plan_and_no_other_setting(role):
    text = sources(role)
    parts = set(re.findall(r"gpulab_plan'\]\.(\w+)", text)) - {"due", "drift"}
    assert parts <= set(known.load()[role].plan)
    read = set(re.findall(r"\b[a-z][a-z0-9_]+\b(?!:)", text)) & options.load().options.keys()  # not what it sets
    assert read - due.HOW_IT_IS_BUILT <= set(due.settings(role))


@pytest.mark.parametrize("role", known.with_receipt())
def test_a_role_s_receipt_names_the_facts_that_it_decides_by(role):
    name = "built" if known.load()[role].ends_before else "main"
    tasks = yaml.safe_load((ROOT / f"roles/{role}/tasks/{name}.yml").read_text(encoding="utf-8"))
    last = tasks[-1]["gpulab.node.receipt"]
    text = sources(role).replace(".kernels | selectattr('initramfs')", ".initramfs")
    read = set(re.findall(r"ansible_facts\['gpulab'\]\.(\w+)", text)) | set(re.findall(r"__\w+_facts\.(\w+)", text))
    assert last["role"] == role
    assert read - OF_THE_MOMENT <= set(last.get("facts", []))
