"""What gpulab keeps under its name, as the facts tell it."""

from __future__ import annotations

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.environments import jupyter
from ansible_collections.gpulab.node.plugins.module_utils.facts import own_files
from ansible_collections.gpulab.node.plugins.module_utils.system.hosts_file import SET_ASIDE, merged


@pytest.mark.parametrize(
    "path",
    [
        "/etc/apt/sources.list.d/gpulab-nvidia-cuda.sources",
        "/etc/apt/preferences.d/zz-gpulab-nvidia-cuda.pref",
        "/etc/systemd/system/docker.service.d/gpulab-storage.conf",
        "/etc/gpulab/gpu-settings.conf",
        "/var/lib/gpulab/docker-settings.json",
        "/opt/gpulab-nccl-tests",
        "/usr/local/cuda-13.2/gpulab.json",
        "/usr/local/.gpulab-cuda",
    ],
)
def test_tells_what_is_there(tree, path):
    """A role that requested something before has to look again, whatever it left."""
    tree.file(path, "x")
    assert own_files.read(tree.node()) == [path]


@pytest.mark.parametrize("path", ["/etc/fstab", "/etc/hosts", "/etc/cloud/templates/hosts.debian.tmpl"])
def test_tells_whose_file_holds_something_of_gpulabs(tree, path):
    """A block with one node that only the loopback leads to is one; so is a line that was set aside."""
    block = merged("", [{"name": "alone", "address": "127.0.0.1", "names": ["alone"]}], "alone").text
    for text in (block, f"{SET_ASIDE}127.0.1.1 node1\n"):
        tree.file(path, text)
        assert own_files.read(tree.node()) == [path]


def test_tells_which_kernels_of_jupyter_are_gpulabs(tree):
    """Their names are those of the environments."""
    path = "/usr/local/share/jupyter/kernels/venv-vision/kernel.json"
    tree.file(path, jupyter.text("venv", "/opt/venvs/vision"))
    tree.file("/usr/local/share/jupyter/kernels/mine/kernel.json", "{}")
    assert own_files.read(tree.node()) == [path]


def test_tells_nothing_of_others(tree):
    """Neither somebody else's files nor the steps of former runs, which no role takes away."""
    tree.file("/etc/hosts", "127.0.0.1 localhost\n")
    tree.file("/etc/motd", "Set up by gpulab.\n")
    tree.file("/opt/venvs/vision/bin/python", "x")
    tree.file("/usr/local/cuda-13.2/version.json", "{}")
    tree.file("/etc/fstab", "x")
    tree.file("/etc/exports.d/mine.exports", "x")
    tree.file("/var/lib/gpulab/steps/nvidia-driver/log", "x")
    assert own_files.read(tree.node()) == []


def test_tells_nothing_of_a_virgin_node(tree):
    """Where there is no such directory, there is nothing."""
    assert own_files.read(tree.node()) == []


def test_tells_what_is_missing_and_could_be_made(tree):
    tree.file("/etc/gpulab/torchrun.sh", "x").link("/etc/nccl.conf", "/nowhere").file("/etc/modprobe.d", "no directory")
    could = ["/etc/apt/apt.conf.d/90gpulab-proxy", "/usr/local/lib/gpulab-monitoring"]
    there = ["/etc/gpulab", "/etc/gpulab/torchrun.sh", "/etc/nccl.conf", "/etc/modprobe.d/gpulab-nouveau.conf"]
    assert own_files.missing(tree.node(), [*could, *there]) == could
