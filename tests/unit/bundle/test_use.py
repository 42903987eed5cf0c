"""What a host takes from a bundle, and what is said of one that is not for it."""

from __future__ import annotations

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle import use

SYSTEM = {"id": "debian", "version": "13", "architecture": "x86_64"}
HELD = {
    "system": "debian 13 x86_64",
    "wishes": ["driver=580.*", "nvidia-container-toolkit=1.20.0-1"],
    "environments": {"vision": {"python": "3.13", "requirements": ["click"]}},
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


def plan(**parts):
    due = {"nvidia_driver": [], "cuda": [], "container_toolkit": [], "environments": []}
    packages = {"driver": {"packages": ["driver=580.*"]}, "container_toolkit": {"packages": [], "engine_packages": []}}
    packages["cuda"] = {"toolkits": []}
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
        ({"environments": [{**ENVIRONMENT, "name": "other"}]}, "the environment other"),
        ({"environments": [{**ENVIRONMENT, "requirements": ["numpy"]}]}, "the environment vision as it is now"),
        ({"environments": [{**ENVIRONMENT, "python": "3.12"}]}, "the environment vision as it is now"),
    ],
)
def test_what_a_bundle_lacks_is_named(part, lacking):
    use.check(HELD | BUNDLE, "node1", plan())
    with pytest.raises(Refusal, match=f"B007 .*it lacks {lacking}"):
        use.check(HELD | BUNDLE, "node1", plan(**part))
    use.check(HELD | BUNDLE, "node1", plan(**part, due={}))  # a role that has nothing to do needs none of it


def test_a_repository_is_the_bundles():
    given = {"name": "v", "url": "https://v.example/apt", "suite": "/", "fingerprint": "F"}
    assert use.repository(HELD | BUNDLE, "node1", given) == {**given, "release": "o=V"}
    assert use.repository(HELD | BUNDLE, "node1", {"name": "x", "state": "absent"}) == {"name": "x", "state": "absent"}
    with pytest.raises(Refusal, match=r"B007 .*the repository v, https://other\.example"):
        use.repository(HELD | BUNDLE, "node1", {**given, "url": "https://other.example/"})
