"""The plan of a node before its reinstall is the one that it will get afterwards, whatever is installed on it now."""

from __future__ import annotations

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import load
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.reinstalled import reinstalled

from unit import machines

from . import make
from .test_plan_action import of, run

SYSTEMS = list(load().installers)
LIVED_IN = {
    "system": {"kernel": "6.9.1-custom", "package_state": "broken", "packages_unfinished": ["nvidia-driver"]},
    "kernels": [make.kernel("6.9.1-custom", headers=False)],
    "modules": {"nvidia": {"loaded": True, "version": "470.1"}},
    "driver": {"runfile": "470.1", "library": "470.1", "holds_foreign": ["nvidia-driver"]},
    "cuda": {"toolkits": [{"version": "11.0", "prefix": "/usr/local/cuda-11.0", "packages": []}]},
    "engines": {"docker": "1.13", "docker_rivals": ["podman-docker"]},
    "own_files": ["/etc/modprobe.d/gpulab-nvidia.conf"],
    "gpu_settings": {"0000:01:00.0": {"power_limit": 1}},
}


def lived_in(gpus=("10de:2330",)):
    return machines.changed(make.facts("ubuntu-22.04", gpus), LIVED_IN)


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("settings", [{}, {"nvidia_driver_branch": "595"}, {"gpulab_environments": []}])
def test_the_plan_is_that_of_a_fresh_node(system, settings):
    kernel = load().installers[system]["architectures"]["x86_64"]["kernel"]
    fresh = make.facts(system, kernels=[make.kernel(kernel, headers=False)], running=kernel)
    expected = run(of(fresh, **settings))["plan"]
    planned = run(of(lived_in(), **settings), reinstalled_as=system)["plan"]
    assert planned == {name: part for name, part in expected.items() if name not in ("due", "drift")}


def test_the_kernel_is_one_of_the_nodes_processor():
    there = make.facts("debian-12", [], architecture="aarch64")
    assert reinstalled(there, load(), "debian-13")["system"]["kernel"].endswith("-arm64")


def test_what_the_new_system_refuses_is_a_refusal_now():
    result = run(of(lived_in(), nvidia_driver_branch="535"), reinstalled_as="debian-13")
    assert result["refusal"]["code"] == "P008"


def test_what_only_the_old_system_refuses_is_none():
    assert "refusal" in run(of(lived_in()))
    assert "plan" in run(of(lived_in()), reinstalled_as="debian-13")


def test_such_a_plan_is_no_fact_of_the_host():
    assert "ansible_facts" not in run(of(lived_in()), reinstalled_as="debian-12")


def test_the_facts_stay_as_they_were():
    facts = lived_in()
    before = machines.unshared(facts)
    reinstalled(facts, load(), "debian-13")
    assert facts == before
