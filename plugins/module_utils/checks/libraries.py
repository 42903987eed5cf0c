# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the CUDA libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts, check, fail, inapplicable, ok
from ansible_collections.gpulab.node.plugins.module_utils.checks.software import release

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Node, Result

LINUX_GUIDE = "https://docs.nvidia.com/cuda/cuda-installation-guide-linux/"
NAMES = {"cudnn": "cuDNN", "nccl": "NCCL", "tensorrt": "TensorRT"}


@check("cuda-libraries", proves="cuDNN, NCCL and TensorRT are installed in their planned versions", source=LINUX_GUIDE)
def cuda_libraries(node: Node) -> Iterator[Result]:
    """Compare versions with what the linker finds."""
    present = {library: node.facts[f"libraries.{library}"] for library in NAMES}
    plan = node.plan or Facts({})
    planned = {library: plan.get(f"libraries.{library}.version") for library in NAMES}
    found = False
    for library, version in planned.items():
        if version and not any(_same(version, each) for each in present[library]):
            found = True
            there = ", ".join(present[library])
            yield fail(
                f"{NAMES[library]} {there} is installed, but {version} is planned"
                if there
                else f"the planned {NAMES[library]} {version} is not installed",
                "install_software",
                observed=there or None,
                expected=version,
            )
    listed = [f"{NAMES[library]} {version}" for library, versions in present.items() for version in versions]
    if listed and not found:
        yield ok(", ".join(listed), len(listed))
    elif not found:
        node.planned("libraries")
        yield inapplicable("no such library is planned or installed")


def _same(planned: str, installed: str) -> bool:
    """Compare as far as both go: the library of cuDNN 9.10.2.21 is called 9.10.2."""
    wanted, there = release(planned), release(installed)
    length = min(len(wanted), len(there))
    return wanted[:length] == there[:length]
