"""Debian's own CUDA toolkit, seen from the node: its real nvcc compiles and links."""

import json

import pytest

BOTH = {"toolkits": [{"version": "12.4", "prefix": "/usr"}]}


def compiled(host, *capabilities):
    options = json.dumps({**BOTH, "compute_capabilities": capabilities})
    facts = host.ansible("gpulab.node.cuda_compile", options, check=False, become=True)["ansible_facts"]
    return facts["gpulab_cuda_compiled"][0]


def test_the_toolkit_is_debians(host):
    assert host.package("nvidia-cuda-toolkit").version.startswith("12.4.131")
    assert "V12.4.131" in host.check_output("nvcc --version")


def test_nvcc_compiles_for_the_nodes_gpus_and_for_others(host):
    assert compiled(host, "8.0", "9.0")["problem"] is None


def test_nvcc_says_which_gpu_it_does_not_know(host):
    assert "compute_120" in compiled(host, "12.0")["problem"]


def test_the_program_has_code_for_the_gpu(host):
    source = "#include <vector>\n__global__ void nothing() {}\nint main() { nothing<<<1, 1>>>(); }\n"
    host.check_output("printf %s > /tmp/nothing.cu", source)
    host.check_output("nvcc -gencode=arch=compute_80,code=sm_80 -o /tmp/nothing /tmp/nothing.cu")
    assert "sm_80" in host.check_output("cuobjdump --list-elf /tmp/nothing")


def test_sessions_find_it_without_a_library_path(host):
    found = host.check_output("env --ignore-environment bash --login -c %s", "echo $CUDA_HOME:$LD_LIBRARY_PATH")
    assert found == "/usr:"


def test_no_repository_of_nvidia_is_declared(host):
    assert host.run("ls /etc/apt/*/*nvidia-cuda*").rc != 0


def test_the_facts_have_it(host):
    facts = host.ansible("gpulab.node.gpu_facts", "timeout=5", check=False, become=True)["ansible_facts"]["gpulab"]
    assert facts["cuda"] == {"toolkits": [{"prefix": "/usr", "version": "12.4"}], "default": None}


@pytest.mark.parametrize("name", ["xserver-xorg-core", "nvidia-visual-profiler", "nsight-systems", "default-jre"])
def test_no_desktop_came_along(host, name):
    assert not host.package(name).is_installed
