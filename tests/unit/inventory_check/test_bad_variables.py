"""Bad variables, each with its exact message."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog
from ansible_collections.gpulab.node.plugins.plugin_utils.options import load

from .make import check_hosts, check_variables

BAD = yaml.safe_load(Path(__file__).with_name("bad_variables.yml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", BAD, ids=lambda case: case["id"])
def test_bad_input_is_refused_with_its_message(case):
    assert check_variables(**case["variables"]) == [case["message"]]


@pytest.mark.parametrize(
    ("variables", "code", "starts"),
    [
        ({"nvidia_driver_branch": "581"}, "P007", "node1: driver branch 581 is unknown to the catalog."),
        ({"cuda_toolkits": ["12.7"]}, "P022", "node1: CUDA toolkit 12.7 is unknown to the catalog."),
    ],
    ids=["branch-unknown-to-the-catalog", "toolkit-unknown-to-the-catalog"],
)
def test_what_the_catalog_does_not_know_is_refused_with_what_it_knows(variables, code, starts):
    (message,) = check_variables(**variables)
    assert message.startswith(f"GPULAB-{code} {starts} Remedy: Use one of: ")


@pytest.mark.parametrize(
    ("variables", "code"),
    [
        ({"nvidia_driver_branch": "990"}, "P090"),
        ({"cuda_toolkits": ["13.9"]}, "P091"),
        ({"cuda_toolkits": ["13.9"], "gpulab_trust_newer": "no"}, "P091"),
    ],
)
def test_what_is_newer_than_the_catalog_is_refused_with_the_setting_that_takes_it(variables, code):
    (message,) = check_variables(**variables)
    assert message.startswith(f"GPULAB-{code} ")
    assert "gpulab_trust_newer: true" in message


def test_the_remedies_hold_in_an_ini_inventory_too(tmp_path):
    """Its host lines take quotes away and make numbers of digits."""

    def wrong(line):
        inventory = tmp_path / "hosts.ini"
        inventory.write_text(f"[workstations]\nnode1 {line}\n", encoding="utf-8")
        host = InventoryManager(DataLoader(), sources=[str(inventory)]).get_host("node1")
        return check_variables(nvidia_driver_branch=host.vars["nvidia_driver_branch"])

    (number,) = wrong('nvidia_driver_branch="580"')
    assert """INI inventory, which drops quotes: '"580"'.""" in number
    assert wrong("""nvidia_driver_branch='"580"'""") == []


BOOLEANS = [option.name for option in load().options.values() if option.type == "bool"]


@pytest.mark.parametrize("name", BOOLEANS)
@pytest.mark.parametrize("word", ["true", "True", "no", "off", "1"])
def test_a_boolean_may_be_a_word_as_the_command_line_gives_it(name, word):
    assert check_variables(**{name: word}) == []


def test_a_boolean_may_be_given_where_its_word_is_a_choice():
    assert check_variables(nvidia_driver_display=True) == check_variables(nvidia_driver_display="false") == []
    (refused,) = check_variables(nvidia_driver_display="never")
    assert refused.startswith("GPULAB-I006 ")
    assert "auto, true, false" in refused
    assert [text.split()[0] for text in check_variables(nvidia_driver_source=True)] == ["GPULAB-I005"]


def test_a_conflict_reads_the_word_as_the_roles_do():
    wishes = {"nvidia_driver_branch": "535", "cuda_toolkits": ["13.0"]}
    refused = check_variables(**wishes)
    assert [message.split()[0] for message in refused] == ["GPULAB-P023"]
    assert check_variables(**wishes, cuda_compat="false") == refused
    assert check_variables(**wishes, cuda_compat="true") == []


def test_all_errors_come_at_once_in_the_order_of_the_variables():
    assert [message.split()[0] for message in check_variables(reboot_timeout=0, gpulab_x=1, cuda_toolkits="12.9")] == [
        "GPULAB-I008",
        "GPULAB-I001",
        "GPULAB-I005",
    ]


def test_a_wrong_value_is_not_compared_with_others():
    assert [message.split()[0] for message in check_variables(cuda_toolkits=[12.9], cuda_default="13.0")] == [
        "GPULAB-I003"
    ]


@pytest.mark.parametrize(
    ("bad", "label"),
    [
        (["node2"], "node2"),
        (["node2", "node3"], "group training_servers"),
        (["node1", "node2", "node3"], "group gpu-nodes"),
        (["node1", "node3"], "node1, node3"),
    ],
)
def test_an_error_is_told_once_with_the_hosts_or_the_group_that_have_it(bad, label):
    hosts = {host: {"gpulab_x": 1} if host in bad else {} for host in ("node1", "node2", "node3")}
    (message,) = check_hosts(hosts)
    assert message.startswith(f"GPULAB-I001 {label}: gpulab_x is an unknown variable.")


def test_of_many_hosts_the_first_are_named():
    hosts = {f"node{number}": {"gpulab_x": 1} for number in range(64)}
    groups = {"gpu-nodes": [*hosts, "other"], "workstations": [*hosts, "other"]}
    (message,) = check_hosts({**hosts, "other": {}}, groups)
    assert message.startswith("GPULAB-I001 node0, node1, node2 and 61 more: gpulab_x")


def test_a_lock_that_pins_nothing_is_refused_and_one_that_is_not_there_yet_is_not(tmp_path):
    environment = {"name": "lab", "pytorch": "2.9", "lock": str(tmp_path / "lab.lock")}
    assert check_variables(gpulab_environments=[environment]) == []
    (tmp_path / "lab.lock").write_text("torch\n")
    (message,) = check_variables(gpulab_environments=[environment])
    assert message.startswith("GPULAB-E007 node1: a line of a lock does not pin its package: torch.")


def test_what_takes_the_place_of_others_variables_is_there_and_they_are_not():
    known = load()
    for role in catalog.load().read("foreign_names")["roles"]:
        for pattern, answer in role["variables"].items():
            assert not fnmatch.filter(known.options, pattern), pattern
            named = set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", answer))
            assert named <= set(known.options), answer
            assert named or answer.startswith(("Leave", "gpulab")), answer
