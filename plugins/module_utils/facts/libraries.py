# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The libraries that the linker gives to programs: the driver's NVML, and CUDA's cuDNN, NCCL and TensorRT."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.driver import Libraries

LIBRARIES = ("libcudnn", "libnccl", "libnvinfer")  # the last is TensorRT's
_DRIVER_VERSION = re.compile(r"\.so\.(\d{2,4}\.\d{1,4}(?:\.\d{1,4})?)\Z")
_FILE_VERSION = re.compile(r"\.so\.(\d{1,4}(?:\.\d{1,4}){1,3})\Z")


def paths(linked: str, name: str) -> list[str]:
    """List the paths that ``ldconfig -p`` gives for a library (libnccl), one for each version of its interface."""
    return re.findall(rf"^\s*{name}\.so\.\d{{1,4}} \(libc6,[^)]*64[^)]*\) => (\S+)$", linked, re.MULTILINE)


def linked_path(linked: str, name: str) -> str | None:
    """Return the path of a library (libnvidia-ml.so.1) that programs are given, from what ``ldconfig -p`` printed."""
    match = re.search(rf"^\s*{re.escape(name)} \(libc6,[^)]*64[^)]*\) => (\S+)$", linked, re.MULTILINE)
    return match.group(1) if match else None


def nvml(linked: str) -> str | None:
    """Return the path of the NVML that programs are given; linked is what ``ldconfig -p`` printed."""
    return linked_path(linked, "libnvidia-ml.so.1")


def driver_version(path: str) -> str | None:
    """Return the driver's version, read off the real name of its library's file."""
    match = _DRIVER_VERSION.search(posixpath.basename(path))
    return match.group(1) if match else None


def read(node: Node, linked: str) -> Libraries:
    """Return the facts ``libraries``: the versions of each that are there; linked is what ``ldconfig -p`` printed."""
    cudnn, nccl, tensorrt = (sorted(_versions(node, paths(linked, name))) for name in LIBRARIES)
    return {"cudnn": cudnn, "nccl": nccl, "tensorrt": tensorrt}


def _versions(node: Node, found: list[str]) -> set[str]:
    """Read the versions off the real files' names."""
    names = (posixpath.basename(node.resolve(path)) for path in found)
    return {match.group(1) for match in map(_FILE_VERSION.search, names) if match}
