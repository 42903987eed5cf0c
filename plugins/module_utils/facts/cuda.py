# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CUDA toolkits on a node: those of NVIDIA side by side, the distribution's own, and the default."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.driver import Cuda, CudaToolkit

PARENT = "/usr/local"
LINK = "/usr/local/cuda"
DISTRIBUTION = "/usr"
COMPAT, LIBCUDA = "compat", "libcuda.so.1"
HEADER = "/usr/include/cuda.h"
_NAME = re.compile(r"cuda-(\d+\.\d+)")
_HEADER_VERSION = re.compile(r"^#define CUDA_VERSION (\d+)(\d\d)\d$", re.MULTILINE)  # 12040 is 12.4


def read(node: Node) -> Cuda:
    """Return the facts ``cuda``.

    default is the prefix that /usr/local/cuda leads to, compat the directories of NVIDIA's cuda-compat packages.
    """
    prefixes = [f"{PARENT}/{name}" for name in node.names(PARENT) if _NAME.fullmatch(name)]
    own = (prefix for prefix in prefixes if _has_nvcc(node, prefix))
    toolkits: list[CudaToolkit] = [{"prefix": prefix, "version": _version(node, prefix)} for prefix in own]
    if _has_nvcc(node, DISTRIBUTION):
        found = _HEADER_VERSION.search(node.text(HEADER))
        version = f"{found.group(1)}.{int(found.group(2))}" if found else None
        toolkits.append({"prefix": DISTRIBUTION, "version": version})
    default = node.resolve(LINK)
    places = [f"{prefix}/{COMPAT}" for prefix in prefixes]
    return {
        "toolkits": toolkits,
        "default": default if default != LINK and node.is_dir(default) else None,
        "compat": [place for place in places if node.exists(f"{place}/{LIBCUDA}")],
    }


def _has_nvcc(node: Node, prefix: str) -> bool:
    return node.exists(f"{prefix}/bin/nvcc")


def _version(node: Node, prefix: str) -> str | None:
    """Return the version that version.json names, down to the update: 12.9.1; else that of the directory."""
    try:
        return str(json.loads(node.text(f"{prefix}/version.json"))["cuda"]["version"])
    except (ValueError, KeyError, TypeError):
        return prefix.rpartition("-")[2]
