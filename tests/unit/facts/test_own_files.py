"""What gpulab keeps under its name, as the facts tell it."""

from __future__ import annotations

import pytest
from ansible_collections.gpulab.node.plugins.module_utils import facts_own_files


@pytest.mark.parametrize(
    "path",
    [
        "/etc/apt/sources.list.d/gpulab-nvidia-cuda.sources",
        "/etc/apt/preferences.d/zz-gpulab-nvidia-cuda.pref",
        "/etc/systemd/system/docker.service.d/gpulab-storage.conf",
        "/etc/gpulab/gpu-settings.conf",
        "/var/lib/gpulab/docker-settings.json",
    ],
)
def test_tells_what_is_there(tree, path):
    """A role that wished something before has to look again, whatever it left."""
    tree.file(path, "x")
    assert facts_own_files.read(tree.node()) == [path]


def test_tells_nothing_of_others(tree):
    """Neither somebody else's files nor the steps of former runs, which no role takes away."""
    tree.file("/etc/fstab", "x")
    tree.file("/etc/exports.d/mine.exports", "x")
    tree.file("/var/lib/gpulab/steps/nvidia-driver/log", "x")
    assert facts_own_files.read(tree.node()) == []


def test_tells_nothing_of_a_virgin_node(tree):
    """Where there is no such directory, there is nothing."""
    assert facts_own_files.read(tree.node()) == []
