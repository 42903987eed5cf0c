"""CUDA toolkits side by side, changed and taken away, seen from the node. The tests of a node run in this order."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
EPHEMERAL = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])
REPOSITORY = ["/etc/apt/keyrings/gpulab-nvidia-cuda.asc", "/etc/apt/sources.list.d/gpulab-nvidia-cuda.sources"]
PREFERENCES = "/etc/apt/preferences.d/zz-gpulab-nvidia-cuda.pref"
PROFILE = "/etc/profile.d/gpulab-cuda.sh"
ONE_TOOLKIT = {"cuda_toolkits": ["13.2"], "cuda_default": None, "cudnn_version": None, "tensorrt_version": None}


@pytest.fixture
def play(host):
    """Return a function that applies the role to this node with other wishes; it returns the number of changes."""

    def run(*arguments, **wishes):
        argv = ["ansible-playbook", f"--limit={host.backend.get_hostname()}", f"--extra-vars={json.dumps(wishes)}"]
        inventories = [f"--inventory={EPHEMERAL / name}" for name in ("inventory", "lab/inventory")]
        done = subprocess.run(
            [*argv, *inventories, *arguments, ROOT / "molecule/resources/converge.yml"],
            cwd=ROOT,
            env={**os.environ, "ANSIBLE_STDOUT_CALLBACK": "default", "ANSIBLE_FORCE_COLOR": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
        return int(re.search(r"changed=(\d+)", done.stdout)[1])

    return run


@pytest.fixture
def state(host):
    """Return a function that returns what the role is about, as the node has it."""

    def look():
        packages = host.check_output("dpkg-query --show --showformat='${Package} ${Version} ${Status}\n'")
        files = host.run("cat /etc/apt/*/*gpulab* /etc/profile.d/gpulab* /etc/ld.so.conf.d/*").stdout
        link = host.run("update-alternatives --query cuda").stdout
        return {line for line in packages.splitlines() if line.endswith(" installed")}, files, link

    return look


def login(host, command):
    return host.check_output("env --ignore-environment bash --login -c %s", command)


def compiled(host):
    """Return what the module that the role ends with finds of the node's toolkits."""
    toolkits = [{"version": version, "prefix": f"/usr/local/cuda-{version}"} for version in ("13.1", "13.2")]
    options = json.dumps({"toolkits": toolkits, "compute_capabilities": ["8.9"]})
    facts = host.ansible("gpulab.node.cuda_compile", options, check=False, become=True)["ansible_facts"]
    return [record["problem"] for record in facts["gpulab_cuda_compiled"]]


def linked_to(host, version):
    """Tell whether sessions and the dynamic linker find this toolkit, and no other."""
    cached = re.findall(r"libstandin\.so\.(\S+) .*=> /usr/local/cuda/", host.check_output("ldconfig -p"))
    nvcc = login(host, "readlink --canonicalize $(command -v nvcc)")
    return (cached, nvcc, login(host, "echo $CUDA_HOME:$LD_LIBRARY_PATH")) == (
        [version],
        f"/usr/local/cuda-{version}/bin/nvcc",
        "/usr/local/cuda:",
    )


def test_toolkits_are_side_by_side_and_one_is_the_default(host):
    assert host.package("cuda-toolkit-13-1").is_installed
    assert host.package("cuda-toolkit-13-2").is_installed
    assert linked_to(host, "13.1")


def test_libraries_are_those_of_the_default_toolkit(host):
    assert host.package("libnccl2").version == "2.32.3-1+cuda13.1"
    assert host.package("libnccl-dev").version == "2.32.3-1+cuda13.1"
    assert host.package("libcudnn9-cuda-13").version == "9.20.0.48-1"
    assert "+cuda13." in host.package("libnvinfer10").version  # built once for a major


def test_every_toolkit_compiles(host):
    assert compiled(host) == [None, None]


def test_an_nvcc_that_does_not_know_the_gpu_is_found(host):
    nvcc = "/usr/local/cuda-13.2/bin/nvcc"
    host.check_output("sed --in-place=.whole 's/sm_89/sm_00/' %s", nvcc)
    first, second = compiled(host)
    host.check_output("mv %s.whole %s", nvcc, nvcc)
    assert first is None
    assert "Unsupported gpu architecture" in second


def test_the_repository_may_bring_the_driver_where_it_is_planned_from_there(host):
    assert "libcuda1" in host.file(PREFERENCES).content_string


def test_check_mode_tells_what_would_change_and_changes_nothing(play, state):
    before = state()
    assert play("--check", cuda_default="13.2") == 2  # NCCL of the other toolkit, and the link
    assert state() == before


def test_the_default_is_switched(host, play):
    assert play(cuda_default="13.2") > 0
    assert linked_to(host, "13.2")
    assert host.package("libnccl2").version == "2.32.3-1+cuda13.2"
    assert play(cuda_default="13.2") == 0


def test_what_is_no_longer_wished_goes_with_what_came_along(host, play):
    host.check_output("apt-get install --yes cuda-toolkit-13-0")  # somebody's own, which is not gpulab's to take
    assert play(**ONE_TOOLKIT) > 0
    for name in ("cuda-toolkit-13-1", "cuda-nvcc-13-1", "cuda-cudart-13-1", "libcudnn9-cuda-13", "libnvinfer10"):
        assert not host.package(name).is_installed
    assert not host.file("/usr/local/cuda-13.1").exists
    for name in ("cuda-toolkit-13-0", "cuda-toolkit-13-2", "cuda-nvcc-13-2", "cuda-toolkit-config-common", "libnccl2"):
        assert host.package(name).is_installed
    assert linked_to(host, "13.2")
    assert play(**ONE_TOOLKIT) == 0


def test_the_distributions_driver_cannot_be_replaced_by_nvidias(host, play):
    own = {"nvidia_driver_source": "distribution", "gpulab_allow_branches": ["535", "550"], "cuda_toolkits": []}
    play(**own, cuda_default=None, cudnn_version=None, nccl_version=None, tensorrt_version=None)
    assert not [path for path in (*REPOSITORY, PREFERENCES, PROFILE) if host.file(path).exists]


def test_absent_leaves_the_node_as_it_was(host, play, state):
    play()
    host.check_output("apt-get purge --yes --auto-remove cuda-toolkit-13-0")
    play(cuda_state="absent")
    before = set(host.file("/var/lib/packages-before").content_string.splitlines())
    assert {line.split()[0] for line in state()[0]} == before
    assert not host.file(PROFILE).exists
    assert not host.file("/usr/local/cuda").exists
    assert not host.file("/etc/ld.so.conf.d/000_cuda.conf").exists
    assert play(cuda_state="absent") == 0


def test_check_mode_on_a_bare_node_changes_nothing(play, state):
    before = state()
    assert play("--check") > 0
    assert state() == before
