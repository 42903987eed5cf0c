"""Tags that no task has, and files of variables that nothing reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.plugin_utils.inventory_check import unread

ROOT = Path(__file__).parents[3]
GROUPS = {"all": ["n1", "n2"], "ungrouped": [], "gpu-nodes": ["n1", "n2"], "workstations": ["n1", "n2"]}


def tagged(value):
    """Yield all tags in a playbook, or in tasks."""
    if isinstance(value, list):
        for one in value:
            yield from tagged(one)
    elif isinstance(value, dict):
        given = value.get("tags", [])
        yield from [given] if isinstance(given, str) else given
        for one in value.values():
            yield from tagged(one)


def test_the_tags_are_those_of_the_playbooks():
    files = [*(ROOT / "playbooks").glob("**/*.yml"), *(ROOT / "roles").glob("*/tasks/*.yml"), ROOT / "site.yml"]
    there = {tag for file in files for tag in tagged(yaml.safe_load(file.read_text(encoding="utf-8")))}
    assert there - set(unread.OF_ANSIBLE) == set(unread.TAGS)


@pytest.mark.parametrize(
    ("tag", "advice"),
    [
        ("driver", "Did you mean nvidia_driver?"),
        ("nvidia-driver", "Did you mean nvidia_driver?"),
        ("Cuda", "Did you mean cuda?"),
        ("toolkit", "Did you mean container_toolkit?"),
        ("xyz", f"The tags are: {', '.join(unread.TAGS)}."),
    ],
)
def test_a_tag_that_no_task_has_is_refused(tag, advice):
    for playbook in (str(ROOT / "site.yml"), str(ROOT / "playbooks/plan.yml"), "gpulab.node.provision"):
        (refusal,) = unread.tags([playbook], [tag, "all", "cuda", "never"])
        does_not = f"no task of gpulab has the tag {tag}, so a run with it does not do what it says"
        assert str(refusal) == f"GPULAB-I047 {does_not}. Remedy: {advice}"


def test_a_tag_to_be_skipped_is_refused_where_it_is_nearly_one():
    site = [str(ROOT / "site.yml")]
    assert list(unread.tags(site, ["all"], ["molecule-notest", "notest"])) == []
    assert [refusal.code for refusal in unread.tags(site, ["all"], ["driver"])] == ["I047"]


def test_a_playbook_of_the_sites_own_may_have_tags_of_its_own(tmp_path):
    others = str(tmp_path / "site.yml")
    for playbooks in ([others], [str(ROOT / "site.yml"), others], []):
        assert list(unread.tags(playbooks, ["driver"])) == []


def test_null_by_e_is_refused_where_an_option_has_a_default():
    refusals = list(
        unread.nulls({"network_state": None, "cuda_state": "present", "verify_reports_kept": 3, "mine": None})
    )
    assert [refusal.code for refusal in refusals] == ["I049"]
    assert "network_state is null by -e" in str(refusals[0])
    assert 'give it its default ("absent")' in str(refusals[0])


@pytest.fixture
def inventory(tmp_path):
    """Return a function that makes files of variables, and the directory that they are below."""

    def made(*paths):
        for path in paths:
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        return tmp_path

    return made


@pytest.mark.parametrize(
    ("path", "group", "near"),
    [
        ("group_vars/gpu_nodes.yml", "gpu_nodes", "gpu-nodes"),
        ("group_vars/gpu_nodes/driver.yml", "gpu_nodes", "gpu-nodes"),
        ("group_vars/workstation.yaml", "workstation", "workstations"),
        ("group_vars/workstation", "workstation", "workstations"),
    ],
)
def test_a_file_of_a_group_that_is_nearly_there_is_refused(inventory, path, group, near):
    top = inventory(path, "group_vars/all.yml", "group_vars/.gitkeep", "group_vars/workstations.yml~")
    (refusal,) = unread.groups([top], GROUPS)
    named = "/".join(path.split("/")[:2])
    assert re.sub(r"\s+", " ", str(refusal)) == (
        f"GPULAB-I048 nothing reads {top}/{named}: the inventory has no group {group}."
        f" Remedy: Did you mean {near}? Rename the file, or keep it beside the inventory that has the group."
    )


@pytest.mark.parametrize(
    "paths",
    [
        ["group_vars/gpu-nodes.yml", "group_vars/workstations/a.yml"],
        ["group_vars/gpu-nodes.yml", "group_vars/gpu_nodes.yml"],  # for another inventory, which writes it so
        ["group_vars/staging.yml"],
        [],
    ],
)
def test_files_of_groups_that_are_there_or_of_another_inventory_are_not(inventory, paths):
    assert list(unread.groups([inventory(*paths)], GROUPS)) == []


def test_files_of_hosts_that_are_not_there_are_named(inventory):
    top = inventory("host_vars/n1.yml", "host_vars/n01.yml", "host_vars/old/a.yml")
    assert unread.hosts([top], GROUPS["all"]) == (
        f"the inventory has no hosts for {top}/host_vars/n01.yml, {top}/host_vars/old, so nothing reads them"
    )
    assert unread.hosts([top], ["n1", "n01", "old"]) is None


@pytest.mark.parametrize(
    "limit", [[], ["n1"], ["!n2"], ["&gpu-nodes"], ["gpu-nodes[0]"], ["n*"], ["~n[12]"], ["@x.retry"], ["all"]]
)
def test_nodes_that_are_there_may_be_named(limit):
    assert list(unread.limits(limit, GROUPS)) == []


@pytest.mark.parametrize(
    ("limit", "advice"),
    [
        ("gpu_nodes", "Did you mean gpu-nodes?"),
        ("!workstation", "Did you mean workstations?"),
        ("xyz", "The hosts are n1, n2; groups: gpu-nodes, workstations."),
    ],
)
def test_a_node_that_is_not_there_is_refused_also_where_others_are(limit, advice):
    (refusal,) = unread.limits(["n1", limit], GROUPS)
    name = limit.lstrip("!")
    assert str(refusal) == f"GPULAB-I051 the inventory has no host or group {name}, which -l names. Remedy: {advice}"
