"""What must pass: the lab's inventory, each variable as it is documented, and whatever is not gpulab's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.plugin_utils import inventory_check, options
from ansible_collections.gpulab.node.plugins.plugin_utils.options import known

from .make import check_variables

ROOT = Path(__file__).parents[3]
DEFAULTS = sorted(ROOT.glob("roles/*/defaults/main.yml"))

GOOD = {
    "all-wishes": {
        "nvidia_driver_source": "nvidia",
        "nvidia_driver_branch": "580",
        "nvidia_driver_version": "580.178.04",
        "nvidia_driver_kernel_modules": "open",
        "nvidia_driver_kernels": ["6.1.0-56-amd64"],
        "gpulab_allow_branches": ["535", "550"],
        "gpulab_without_gpu": True,
        "cuda_toolkits": ["12.9", "13.0"],
        "cuda_default": "12.9",
        "cudnn_version": "9.10.2",
        "nccl_version": "2.27.5",
        "tensorrt_version": "10.13.3",
        "container_toolkit_version": "1.19.1",
        "container_toolkit_engines": ["docker", "containerd"],
        "gpulab_environments": [
            {"name": "train", "pytorch": "2.9", "python": "3.12", "index": "cu128", "packages": ["numpy"]},
            {"name": "jax", "jax": "0.9"},
            {"name": "again", "pytorch": "2.9", "index": "cpu", "lock": "locks/node1/train.lock"},
        ],
    },
    "newer-than-the-catalog-and-trusted": {
        "gpulab_trust_newer": True,
        "nvidia_driver_version": "990.10.01",
        "cuda_toolkits": ["13.9"],
    },
    "framework-without-cuda-nor-driver": {
        "nvidia_driver_state": "absent",
        "cuda_state": "absent",
        "cudnn_version": None,
        "gpulab_environments": [{"name": "cpu", "pytorch": "2.9", "index": "cpu"}],
    },
    "branch-without-a-known-release": {"nvidia_driver_branch": "620", "cuda_toolkits": ["13.0"]},
    "null-leaves-unset": {"nvidia_driver_branch": None, "cuda_toolkits": None, "reboot_force": None},
    "empty-lists": {"cuda_toolkits": [], "container_toolkit_engines": [], "gpulab_environments": []},
    "two-revisions-of-a-model": {
        "model_store_repositories": [{"name": "acme/tiny", "revision": digit * 40} for digit in "ab"]
    },
    "token-for-no-hub": {"model_store_token": "hf_secret"},
    "cuda-without-default": {"cuda_default": "12.9"},
    "never-reboot": {"reboot_policy": "never"},
    "forced-here": {"reboot_force": "node1"},
    "command-line-gives-text": {"reboot_timeout": "600", "verify_expected_gpus": "8"},
    "verify": {
        "verify_hosts": "training_servers",
        "verify_fail_on": "warn",
        "verify_report_directory": "/tmp/report",  # noqa: S108  a name only
        "verify_baseline": "report.json",
        "verify_profile": {"pcie_width": 8, "floors": {"memory_gbs": 2800, "all_reduce_gbs": None}},
        "verify_mig": True,
        "verify_power_budget_watts": 4000,
        "verify_level": "burn-in",
        "verify_burn_in_minutes": 90,
        "verify_python": "/opt/environments/train/bin/python",
        "verify_container_image": "pytorch:25.09-py3",
        "verify_mounts": [{"path": "/data", "least_mbs": 800, "most_ms": 20}, {"path": "/scratch"}],
    },
    "hosts-as-a-list": {"verify_hosts": ["node1", "node2"]},
    "names-and-paths-like-outdated-recipes": {
        "gpulab_environments": [
            {"name": "cuda", "pytorch": "2.9", "group": "cuda"},
            {"name": "quantised", "pytorch": "2.9", "packages": ["gptq @ https://mirror.example/cu122/gptq-0.7.1.whl"]},
        ],
        "conda_environments": [{"name": "cuda", "packages": ["cuda", "tensorflow-gpu"]}],
        "storage_tiers": [{"name": "cuda", "purpose": "scratch", "mount": "/cuda", "devices": ["S7KGNX0W100001"]}],
        "base_ca_certificates": ["files/apt-key.pem"],
        "container_toolkit_docker_data_root": "/data/nvidia-docker",
        "verify_container_image": "lmsysorg/sglang:v0.4.7-cu125",
        "verify_python": "/opt/envs/cu122/bin/python",
    },
    "of-ansible": {"ansible_host": "10.0.0.1", "ansible_user": "admin", "ansible_ssh_common_args": "-o X=y"},
    "of-others": {
        "ntp_server": "10.0.0.1",
        "nvcc_home": "/usr/local/cuda",
        "nvidia_dcgm_port": 9400,
        "docker_version": 28.1,
        "users": ["ann"],
        "__ntp_internal": 1,
    },
    "of-others-with-a-general-word": {
        "base_packages": ["vim"],
        "network_domain": "lab.example",
        "storage_class": "fast",
        "plan_name": "summer",
        "monitoring_url": "http://192.0.2.1",
        "__network_provider": "nm",
    },
    "registered-by-tasks": {
        "gpulab_reading": {"changed": False, "failed": False},
        "__plan_facts": {"changed": False, "skipped": True},
    },
}


@pytest.mark.parametrize("variables", GOOD.values(), ids=GOOD)
def test_good_input_passes(variables):
    assert check_variables(**variables) == []


@pytest.mark.parametrize(
    "python", ["python3", "~/venv/bin/python", "/opt/my env/bin/python3.12", "/opt/c++/bin/python"]
)
def test_an_interpreter_may_be_named_in_every_way_that_a_path_can(python):
    assert check_variables(verify_python=python) == []


@pytest.mark.parametrize("path", DEFAULTS, ids=lambda path: path.parents[1].name)
def test_every_default_may_be_set(path):
    defaults = yaml.safe_load(path.read_text(encoding="utf-8"))
    described = options.load().options
    assert check_variables(**{name: described[name].default for name in defaults}) == []


def test_every_variable_that_a_playbook_documents_is_known():
    documented = set()
    for path in ROOT.glob("playbooks/*.yml"):
        head, _start, plays = path.read_text(encoding="utf-8").partition("\n- name:")
        short = re.findall(r"^    \w+: \"\{\{ (\w+) \| default\(", plays, re.MULTILINE)  # in the play's own vars
        documented |= set(re.findall(r" -e (\w+)=", head)) - set(short)
    assert len(documented) >= 5
    assert documented <= set(options.load().options)


def test_a_variable_of_the_playbook_has_the_type_of_the_argument_it_reaches():
    assert options.load().options["verify_expected_gpus"].type == "int"
    assert options.load().options["verify_fail_on"].choices == ("warn", "fail")


def test_general_words_are_names_of_roles_or_playbooks():
    assert {f"{word}_" for word in known.GENERAL} < set(options.load().prefixes)


def test_every_role_has_its_prefix():
    assert {f"{path.name}_" for path in (ROOT / "roles").iterdir()} <= set(options.load().prefixes)


def test_whatever_a_role_defines_for_itself_is_no_input():
    """They are all there when the role begins, and Ansible tells them from input by nothing."""
    names = set()
    for path in (*ROOT.glob("roles/*/vars/*.yml"), *DEFAULTS):
        names |= set(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    assert {"__network_group", "__monitoring_target"} <= names
    assert inventory_check.unknown(dict.fromkeys(names, ""), options.load()) == []
    assert [one.code for one in inventory_check.unknown({"nvidia_driver_brnach": ""}, options.load())] == ["I001"]
