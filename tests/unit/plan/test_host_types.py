"""What a host type sets: where the inventory does not, where the node takes it, and seen by every reader."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleLookupError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.inventory_check import values
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import by_subject, host_types, resolve
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.host_types import Default, TypesOfHost
from ansible_collections.gpulab.node.plugins.plugin_utils.preview import text
from ansible_collections.gpulab.node.plugins.plugin_utils.report.document import build
from ansible_collections.gpulab.node.plugins.plugin_utils.report.html import html

from unit.preview import hosts
from unit.report import runs

from .make import SYSTEMS, TODAY, facts
from .test_plan_action import of, run

ROOT = Path(__file__).parents[3]
KNOWN = catalog.load()
RECORDS = [
    pytest.param(record["option"], record["value"], id=f"{name}-{record['option']}-{record.get('family', 'all')}")
    for name, host_type in KNOWN.host_types.items()
    for record in host_type["options"]
]


def typed(node, host_type, **variables):
    """Return the variables of a host of a type."""
    return of(
        node, group_names=["gpu-nodes", host_type], groups={host_type: ["one"], "gpu-nodes": ["one"]}, **variables
    )


def taken(result):
    return {one["option"]: one["value"] for one in result["plan"]["host_types"]["options"]}


def looked_up(name, **variables):
    """Return what the default of a role comes to."""
    text = host_types.EXPRESSION.format(name=name)
    return Templar(loader=DataLoader(), variables=variables).template(trust_as_template(text))


@pytest.mark.parametrize(("name", "value"), RECORDS)
def test_a_type_sets_known_options_to_values_that_an_inventory_may_have(name, value):
    assert list(values.faults(options.load().options[name], value)) == []


@pytest.mark.parametrize("name", KNOWN.host_types)
def test_a_type_sets_each_option_once_for_a_family(name):
    for family in ("debian", "redhat"):
        set_there = [one["option"] for one in KNOWN.host_types[name]["options"] if one.get("family", family) == family]
        assert len(set_there) == len(set(set_there))


def test_the_plan_takes_what_the_type_sets_and_says_why():
    result = run(typed(facts("debian-13"), "training_servers"))
    plan = result["plan"]
    assert [one["name"] for one in plan["environments"]] == ["pytorch"]
    assert plan["container_toolkit"]["engines"] == ["docker"]
    assert plan["monitoring"]["address"] == "10.1.2.3"
    assert plan["gpu_settings"]["settings"]["all"] == {"persistence": True}
    assert plan["host_types"]["names"] == ["training_servers"]
    assert (
        "training_servers sets container_toolkit_engines: [docker]. NVIDIA's images are published with commands for"
        " Docker, which the distribution has."
    ) in result["because"]


def test_a_host_without_a_type_gets_what_the_options_say():
    plan = run(of(facts(), group_names=["gpu-nodes"], groups={"gpu-nodes": ["one", "two"]}))["plan"]
    assert plan["host_types"] == {"names": [], "options": [], "because": []}
    assert (plan["environments"], plan["container_toolkit"]["engines"]) == ([], [])


def test_a_value_of_the_inventory_counts_first():
    result = run(typed(facts(), "training_servers", container_toolkit_engines=["containerd"]))
    assert result["plan"]["container_toolkit"]["engines"] == ["containerd"]
    assert "container_toolkit_engines" not in taken(result)


DEFAULTS = [
    (name, one["option"])
    for name, record in KNOWN.host_types.items()
    for one in record["options"]
    if one.get("family", "debian") == "debian"
]
DEBIANS_DRIVER = {"nvidia_driver_source": "distribution"}
# What is in a plan without an option that has a part there
NOT_PLANNED = {
    "gpulab_environments": lambda plan: plan["environments"] == [],
    "container_toolkit_engines": lambda plan: plan["container_toolkit"]["engines"] == [],
    "cuda_source": lambda plan: plan["cuda"]["toolkits"] == [],
    "monitoring_state": lambda plan: plan["monitoring"]["address"] is None,
    "gpu_settings_values": lambda plan: plan["gpu_settings"]["settings"] == {},
}


@pytest.mark.parametrize(("host_type", "name"), DEFAULTS)
def test_null_takes_each_default_away_and_leaves_the_others(host_type, name):
    with_all = run(typed(facts(), host_type, **DEBIANS_DRIVER))
    result = run(typed(facts(), host_type, **DEBIANS_DRIVER, **{name: None}))
    expected = dict(taken(with_all))
    del expected[name]
    assert taken(result) == expected
    gone = NOT_PLANNED.get(name)
    assert gone is None or (gone(result["plan"]) and not gone(with_all["plan"]))


def test_null_is_an_options_own_default_for_the_roles_too():
    """Ansible's validation of a role's arguments takes no null for an option that has a default."""
    result = run(typed(facts(), "training_servers", monitoring_state=None, cuda_toolkits=None, network_state="present"))
    assert result["nulls"] == {"monitoring_state": "absent"}


def test_the_default_of_a_role_that_is_in_scope_is_no_value_of_the_inventory():
    """A role that depends on the plan has its defaults among the variables of the plan's task."""
    asks = trust_as_template(host_types.EXPRESSION.format(name="monitoring_state"))
    result = run(typed(facts(), "workstations", monitoring_state=asks))
    assert taken(result)["monitoring_state"] == "present"


def test_what_does_not_work_on_a_node_is_left_out_and_said():
    result = run(typed(facts("rhel-9"), "training_servers"))
    assert "monitoring_state" not in taken(result)
    assert taken(result)["container_toolkit_engines"] == ["podman"]
    (left_out,) = [line for line in result["because"] if "left out" in line]
    assert left_out.startswith("training_servers would set monitoring_state: present, but ")
    assert left_out.endswith(", so it is left out.")


def test_what_the_inventory_asks_for_is_refused_for_its_own_sake():
    result = run(typed(facts("rhel-9"), "training_servers", nvidia_driver_branch="535"))
    assert result["refusal"]["code"] == "P008"


@pytest.mark.parametrize("host_type", KNOWN.host_types)
@pytest.mark.parametrize("platform", SYSTEMS)
@pytest.mark.parametrize("pci_id", ["10de:1db4", "10de:1eb8", "10de:2330", "10de:2684", "10de:2b85"])
def test_no_default_refuses_a_node(pci_id, platform, host_type):
    node = facts(platform, [pci_id])
    try:
        resolve(node, options.complete({}), KNOWN, TODAY)
    except Refusal:
        return
    assert "plan" in run(typed(node, host_type))


def test_a_node_without_a_driver_gets_what_needs_none():
    """Its inventory may want no driver: what is built for CUDA is left out."""
    result = run(typed(facts(), "training_servers", nvidia_driver_state="absent"))
    assert "gpulab_environments" not in taken(result)
    assert taken(result)["network_state"] == "present"


def test_the_toolkit_is_the_drivers_own():
    debian = {"nvidia_driver_source": "distribution"}
    plan = run(typed(facts("debian-12", ["10de:20f1"]), "training_servers", **debian))["plan"]
    assert (plan["cuda"]["source"], plan["cuda"]["default"]) == ("distribution", "11.8")
    plan = run(typed(facts("debian-12", ["10de:20f1"]), "training_servers"))["plan"]
    assert (plan["driver"]["source"], plan["cuda"]["source"]) == ("nvidia", "nvidia")
    assert plan["cuda"]["default"]


def test_a_toolkit_of_the_distribution_that_does_not_know_a_gpu_is_not_taken():
    known = catalog.Catalog()
    given = {"nvidia_driver_source": "distribution", "cuda_source": "auto"}
    node = facts("debian-12", ["10de:20f1"])
    assert resolve(node, options.complete(given), known, TODAY)["cuda"]["default"] == "11.8"
    known.toolkits["11.8"]["nvcc_targets"] = ["5.0"]
    cuda = resolve(node, options.complete(given), known, TODAY)["cuda"]
    assert (cuda["source"], cuda["default"]) == ("nvidia", None)


def test_a_role_sees_what_its_hosts_type_sets():
    assert looked_up("monitoring_state", group_names=["gpu-nodes", "workstations"]) == "present"
    assert looked_up("preflight_vram_min_gib", group_names=["training_servers"]) == 24
    assert looked_up("preflight_vram_min_gib", group_names=["workstations"]) == 16
    assert looked_up("monitoring_state", group_names=["gpu-nodes"]) == "absent"
    assert looked_up("cuda_toolkits", group_names=["gpu-nodes"]) is None


def test_a_role_does_not_see_a_default_that_the_plan_left_out():
    node = facts("rhel-9")
    plan = run(typed(node, "training_servers"))["plan"]
    known = {"group_names": ["training_servers"], "ansible_facts": {"gpulab": node, "gpulab_plan": plan}}
    assert looked_up("monitoring_state", **known) == "absent"
    assert looked_up("network_state", **known) == "present"


def test_an_option_that_there_is_not_is_an_error():
    with pytest.raises(AnsibleLookupError, match="gpulab has no option monitoring_stat"):
        looked_up("monitoring_stat", group_names=[])


def made(tmp_path, tuning=(), **types):
    """Return a catalog of these types, each with {option: value}, and of these records of tuning."""
    records = [
        {
            "name": name,
            "options": [
                {"option": one, "value": value, "because": "So.", "source": ["x"]} for one, value in set_.items()
            ],
        }
        for name, set_ in types.items()
    ]
    (tmp_path / "host_types.yml").write_text(yaml.safe_dump({"host_types": records}))
    (tmp_path / "tuning.yml").write_text(yaml.safe_dump({"settings": list(tuning)}))
    return catalog.Catalog(tmp_path)


def test_two_types_that_agree_set_what_either_of_them_sets(tmp_path):
    known = made(tmp_path, ones={"a": 1, "b": 2}, others={"b": 2, "c": 3}, left={"b": 4})
    assert list(host_types.disagreements(["ones", "others"], {}, known)) == []
    found = host_types.defaults(host_types.of({"others", "ones", "gpu-nodes"}, known), known)
    assert {name: (one.value, one.host_type) for name, one in found.items()} == {
        "a": (1, "ones"),
        "b": (2, "ones"),
        "c": (3, "others"),
    }


def test_two_types_disagree_about_what_the_inventory_does_not_set(tmp_path):
    known = made(tmp_path, ones={"a": 1, "b": 2}, others={"a": 5, "b": 2})
    assert list(host_types.disagreements(["ones", "others"], {}, known)) == ["a"]
    assert list(host_types.disagreements(["ones", "others"], {"a": None}, known)) == []
    assert list(host_types.disagreements(["ones"], {}, known)) == []


def test_two_types_disagree_about_what_they_are_tuned_to(tmp_path):
    tuning = [{"name": "x.y", "value": value, "hosts": [name]} for name, value in (("ones", "1"), ("others", "2"))]
    known = made(tmp_path, tuning, ones={}, others={})
    assert list(host_types.disagreements(["ones", "others"], {}, known)) == ["x.y"]
    assert list(host_types.disagreements(["ones", "others"], {"tuning_overrides": {"x.y": 3}}, known)) == []


def test_each_family_has_its_value(tmp_path):
    known = made(tmp_path, ones={"a": 1}, others={"a": 2})
    known.host_types["ones"]["options"][0]["family"] = "debian"
    known.host_types["others"]["options"][0]["family"] = "redhat"
    assert list(host_types.disagreements(["ones", "others"], {}, known)) == []
    assert host_types.defaults(["ones"], known, "redhat") == {}
    assert host_types.defaults(["ones"], known, "debian")["a"].value == 1
    assert host_types.defaults(["ones"], known) == {}


def test_one_default_that_does_not_fit_does_not_take_the_others_along():
    unset = {name: Default(name, 1, "ones", "So.", ("x",)) for name in ("a", "b", "c")}
    seen = []

    def plan_with(chosen: TypesOfHost):
        names = [one.option for one in chosen.taken]
        seen.append(names)
        if "b" in names:
            raise Refusal("P001", "b does not work", "None.")
        return {"options": names, "left_out": chosen.left_out}

    plan = host_types.fit(unset, ("ones",), plan_with)
    assert plan == {
        "options": ["a", "c"],
        "left_out": ("ones would set b: 1, but b does not work, so it is left out.",),
    }
    assert len(seen) == 6


def test_preview_and_report_say_what_came_from_the_type():
    planned = run(typed(facts(), "inference_servers"))
    of_type = {"groups": ["gpu-nodes", "inference_servers"], "plan": planned["plan"]}
    host = {**hosts.NOTHING, **of_type, "facts": hosts.virgin()["facts"], "ended": False}
    preview = hosts.preview(host)
    assert preview["host_types"] == ["inference_servers"]
    assert taken(planned) == {one["option"]: one["value"] for one in preview["defaults"]}
    lines = text.lines({"hosts": [preview]}, {preview["name"]: by_subject(planned["plan"])}, whole=True)
    assert (
        "  type      inference_servers, by default: gpulab_environments, container_toolkit_engines, monitoring_state,"
        " gpu_settings_values, preflight_memory_ecc, preflight_cpu_min_mhz, preflight_system_disk_min_gb"
    ) in lines
    assert any("inference_servers sets monitoring_state: present. What a request" in line for line in lines)
    report = build({"node": {**runs.NOTHING, **of_type}}, runs.CREATED)
    assert report["hosts"][0]["host_types"] == ["inference_servers"]
    assert report["hosts"][0]["defaults"] == preview["defaults"]
    assert "<code>container_toolkit_engines: [docker]</code> Servers of models" in html(report)


def test_a_host_that_has_no_plan_has_its_type():
    groups = {"groups": ["gpu-nodes", "workstations"]}
    report = build({"node": {**runs.UNREACHABLE, **groups}}, runs.CREATED)
    assert (report["hosts"][0]["host_types"], report["hosts"][0]["defaults"]) == (["workstations"], [])
    preview = hosts.preview({**hosts.NOTHING, **groups})
    assert (preview["host_types"], preview["defaults"]) == (["workstations"], [])


def test_preview_and_report_of_a_host_without_a_type_name_none():
    preview = hosts.preview(hosts.virgin())
    assert (preview["host_types"], preview["defaults"]) == ([], [])
    assert not [line for line in text.lines({"hosts": [preview]}) if line.startswith("  type")]
    assert "Host types" not in html(runs.mixed())


LOCAL = {
    "ansible_connection": "local",
    "ansible_python_interpreter": sys.executable,
    "gpulab_without_gpu": True,
    "nvidia_driver_kernels": ["6.12.1-amd64"],
}
SEEN = ["monitoring_state", "preflight_vram_min_gib", "preflight_vram_advised_gib"]


@pytest.mark.slow
def test_roles_have_the_types_defaults_the_inventorys_values_and_none_for_null(tmp_path):
    """In a real run, whose order of variables decides: the validation of a role's arguments has to take them, too."""
    hosts = {
        "typed": {},
        "own": {"preflight_vram_min_gib": 12},
        "without": {"monitoring_state": None, "preflight_vram_min_gib": None},
    }
    groups = {"training_servers": {"hosts": {name: {**LOCAL, **own} for name, own in hosts.items()}}}
    inventory, playbook = tmp_path / "hosts.yml", tmp_path / "play.yml"
    inventory.write_text(yaml.safe_dump({"gpu-nodes": {"children": groups}}))
    roles = [
        {"ansible.builtin.import_role": {"name": f"gpulab.node.{name}"}} for name in ("plan", "preflight", "monitoring")
    ]
    for role in roles[1:]:  # which may fail on this machine: it may not reach NVIDIA's servers
        role["ignore_errors"] = True
    (tmp_path / "seen").mkdir()
    copy = {
        "ansible.builtin.copy": {
            "content": "{{ {" + ", ".join(f"'{name}': {name}" for name in SEEN) + "} | to_json }}",
            "dest": f"{tmp_path}/seen/{{{{ inventory_hostname }}}}",
        },
        "check_mode": False,
    }
    play = {"hosts": "gpu-nodes", "gather_facts": False, "check_mode": True, "tasks": [*roles, copy]}
    playbook.write_text(yaml.safe_dump([play]))
    done = subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), "-i", inventory, playbook],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    seen = {path.name: json.loads(path.read_text()) for path in (tmp_path / "seen").iterdir()}
    assert seen == {
        "typed": dict(zip(SEEN, ["present", 24, 80])),
        "own": dict(zip(SEEN, ["present", 12, 80])),
        "without": dict(zip(SEEN, ["absent", 16, 80])),
    }, done.stdout
