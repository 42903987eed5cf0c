"""Debian's own CUDA toolkit, seen from the node: its real nvcc compiles and links."""

import json
import re

import pytest

NVCC = {"debian12": "11.8.89", "debian13": "12.4.131"}
HOST_COMPILER = {"debian12": "g++-11", "debian13": None}  # that nvcc has to be told
GNU_MAJOR = {"debian12": "11", "debian13": "13"}  # Debian 12's own is 12, Debian 13's 14
SOURCE = "#include <vector>\n__global__ void nothing() {}\nint main() { nothing<<<1, 1>>>(); }\n"
COMPILE = "nvcc -gencode=arch=compute_80,code=sm_80 -o /tmp/nothing /tmp/nothing.cu"
LOGIN = "env --ignore-environment bash --login -c %s"


@pytest.fixture
def nvcc(host):
    return NVCC[host.backend.host]


@pytest.fixture
def toolkit(host, nvcc):
    return {"version": nvcc.rpartition(".")[0], "prefix": "/usr", "host_compiler": HOST_COMPILER[host.backend.host]}


def problem(host, toolkit, *capabilities):
    options = json.dumps({"toolkits": [toolkit], "compute_capabilities": capabilities})
    facts = host.ansible("gpulab.node.software_proof", options, check=False, become=True)["ansible_facts"]
    return facts["gpulab_cuda_compiled"][0]["problem"]


def test_the_toolkit_is_debians(host, nvcc):
    assert host.package("nvidia-cuda-toolkit").version.startswith(nvcc)
    assert f"V{nvcc}" in host.check_output("nvcc --version")


def test_it_came_while_the_modules_of_the_driver_were_built(host):
    """The build beside the role cuda has ended well, and nothing of the way there is left."""
    if host.backend.host == "debian12":
        assert host.check_output("dkms status").endswith(": installed")
    assert host.run("ls /var/lib/gpulab/steps/*/programs").rc != 0


def test_nvcc_compiles_for_the_nodes_gpus_and_for_others(host, toolkit):
    assert problem(host, toolkit, "8.0", "8.9", "9.0") is None


def test_nvcc_says_which_gpu_it_does_not_know(host, toolkit):
    assert "compute_120" in problem(host, toolkit, "12.0")


@pytest.mark.parametrize("shell", [LOGIN, "env --ignore-environment PATH=/usr/bin:/bin sh -c %s"])
def test_whoever_calls_nvcc_gets_a_program_with_code_for_the_gpu(host, shell):
    host.check_output("printf %s > /tmp/nothing.cu", SOURCE)
    host.check_output(f"rm -f /tmp/nothing && {shell}", COMPILE)
    assert "sm_80" in host.check_output("cuobjdump --list-elf /tmp/nothing")


def test_a_session_compiles_with_a_host_compiler_that_fits(host):
    host.check_output("printf %s > /tmp/nothing.cu", SOURCE)
    planned = host.run(LOGIN, f"{COMPILE} --dryrun").stderr
    assert set(re.findall(r"--gnu_version=(\d\d)", planned)) == {GNU_MAJOR[host.backend.host]}


def test_sessions_find_it_without_a_library_path(host):
    found = host.check_output(LOGIN, "echo $CUDA_HOME:$LD_LIBRARY_PATH")
    assert found == "/usr:"


def test_no_repository_of_nvidia_is_declared(host):
    assert host.run("ls /etc/apt/*/*nvidia-cuda*").rc != 0


def test_the_facts_have_it(host, toolkit):
    facts = host.ansible("gpulab.node.gpu_facts", "timeout=5", check=False, become=True)["ansible_facts"]["gpulab"]
    found = [{"prefix": "/usr", "version": toolkit["version"]}]
    assert facts["cuda"] == {"toolkits": found, "default": None, "compat": []}


@pytest.mark.parametrize("name", ["xserver-xorg-core", "nvidia-visual-profiler", "nsight-systems", "default-jre"])
def test_no_desktop_came_along(host, name):
    assert not host.package(name).is_installed
