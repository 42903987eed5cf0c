"""What a host takes from a bundle, and what is said of one that is not for it."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle import use
from ansible_collections.gpulab.node.plugins.plugin_utils.core import only_asks

SYSTEM = {"id": "debian", "version": "13", "architecture": "x86_64"}
HELD = {
    "system": "debian 13 x86_64",
    "wishes": ["driver=580.*", "nvidia-container-toolkit=1.20.0-1"],
    "environments": {"vision": {"python": "3.13", "requirements": ["click"]}},
    "models": {f"models--acme--tiny/{'a' * 40}": {"patterns": ["*.json"], "files": {}}},
    "sources": [
        {
            "uri": "https://v.example/apt/",
            "suite": "/",
            "place": "apt/v.example/apt",
            "release": "o=V",
            "components": [],
        }
    ],
}
BUNDLE = {
    "address": "file:///b",
    "digest": "00",
    "made_at": "2026-11-28T00:00:00Z",
    "key": "key",
    "hosts": {"node1": HELD},
}
ENVIRONMENT = {"name": "vision", "python": "3.13", "requirements": ["click"]}
NO_MODELS = {"model_store_folder": None, "model_store_state": "present", "model_store_repositories": []}


def plan(**parts):
    due = {"nvidia_driver": [], "cuda": [], "container_toolkit": [], "environments": [], "model_store": [], "nccl": []}
    packages = {"driver": {"packages": ["driver=580.*"]}, "container_toolkit": {"packages": [], "engine_packages": []}}
    packages |= {"cuda": {"toolkits": []}, "nccl": {"packages": []}}
    return {**packages, "environments": [ENVIRONMENT], "due": due, **parts}


def test_a_host_gets_its_own_part_or_that_of_its_like():
    other = {**HELD, "system": "debian 12 x86_64"}
    bundle = {**BUNDLE, "hosts": {"node0": other, "node1": HELD}}
    assert use.of_host(bundle, "node1", SYSTEM)["wishes"] == HELD["wishes"]
    assert use.of_host(bundle, "new", SYSTEM)["address"] == "file:///b"
    assert use.of_host(bundle, "node0", SYSTEM)["system"] == "debian 13 x86_64"  # it was reinstalled since


def test_a_bundle_of_another_release_is_refused():
    with pytest.raises(Refusal, match=r"B007 .*file:///b .* node1: it has debian 12 x86_64, .* for debian 13 x86_64"):
        use.of_host(BUNDLE, "node1", {**SYSTEM, "version": "12"})


@pytest.mark.parametrize(
    ("part", "lacking"),
    [
        ({"driver": {"packages": ["driver=590.*"]}}, "the package driver=590"),
        ({"container_toolkit": {"packages": ["ctk=2"], "engine_packages": []}}, "the package ctk=2"),
        ({"container_toolkit": {"packages": [], "engine_packages": ["podman"]}}, "the package podman"),
        ({"cuda": {"toolkits": [{"packages": ["cuda-toolkit-13-2"]}]}}, "the package cuda-toolkit-13-2"),
        ({"nccl": {"packages": ["perftest"]}}, "the package perftest"),
        ({"environments": [{**ENVIRONMENT, "name": "other"}]}, "the environment other"),
        ({"environments": [{**ENVIRONMENT, "requirements": ["numpy"]}]}, "the environment vision as it is now"),
        ({"environments": [{**ENVIRONMENT, "python": "3.12"}]}, "the environment vision as it is now"),
    ],
)
def test_what_a_bundle_lacks_is_named(part, lacking):
    use.check(HELD | BUNDLE, "node1", plan(), NO_MODELS)
    with pytest.raises(Refusal, match=f"B007 .*it lacks {lacking}"):
        use.check(HELD | BUNDLE, "node1", plan(**part), NO_MODELS)
    use.check(HELD | BUNDLE, "node1", plan(**part, due={}), NO_MODELS)  # a role that has nothing to do needs none of it


@pytest.mark.parametrize(
    ("change", "lacking"),
    [
        ({"revision": "b" * 40}, "the model acme/tiny@bbbbbbbb"),
        ({"files": []}, "the model acme/tiny@aaaaaaaa with these files"),
        ({"name": "datasets/acme/tiny"}, "the model datasets/acme/tiny@aaaaaaaa"),
    ],
)
def test_a_model_that_a_bundle_lacks_is_named_unless_a_folder_may_have_it(change, lacking):
    model = {"name": "acme/tiny", "revision": "a" * 40, "files": ["*.json"]}
    use.check(HELD | BUNDLE, "node1", plan(), {**NO_MODELS, "model_store_repositories": [model]})
    other = {**NO_MODELS, "model_store_repositories": [{**model, **change}]}
    with pytest.raises(Refusal, match=f"B007 .*it lacks {lacking}"):
        use.check(HELD | BUNDLE, "node1", plan(), other)
    use.check(HELD | BUNDLE, "node1", plan(), {**other, "model_store_folder": "/mnt/stick"})
    use.check(HELD | BUNDLE, "node1", plan(), {**other, "model_store_state": "absent"})


def test_a_repository_is_the_bundles():
    given = {"name": "v", "url": "https://v.example/apt", "suite": "/", "fingerprint": "F"}
    assert use.repository(HELD | BUNDLE, "node1", given) == {**given, "release": "o=V"}
    assert use.repository(HELD | BUNDLE, "node1", {"name": "x", "state": "absent"}) == {"name": "x", "state": "absent"}
    with pytest.raises(Refusal, match=r"B007 .*the repository v, https://other\.example"):
        use.repository(HELD | BUNDLE, "node1", {**given, "url": "https://other.example/"})


@pytest.mark.parametrize("name", ["packages", "venv_environments", "repository"])
def test_a_play_that_only_keeps_what_is_asked_does_not_ask_the_node(name):
    action = importlib.import_module(f"ansible_collections.gpulab.node.plugins.action.{name}").ActionModule
    task = SimpleNamespace(args={"present": ["driver"]}, check_mode=True, async_val=0, diff=False)
    shell = SimpleNamespace(tmpdir="")  # there is no connection to ask by
    asked = action(task, SimpleNamespace(_shell=shell), None, None, None, None)
    result = asked.run(task_vars={only_asks.VARIABLE: True, "inventory_hostname": "node1"})
    assert result["changed"] is False
