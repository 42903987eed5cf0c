# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the CUDA toolkits: those of the plan, and whether they compile for the node's GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import check, fail, inapplicable, ok, skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Node, Result

NVCC_GUIDE = "https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/"

COMPAT = "https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html"


@check(
    "cuda-plan",
    proves="the planned CUDA toolkits are installed, and the node's default is the planned one",
    source="the plan",
)
def cuda_plan(node: Node) -> Iterator[Result]:
    """Look for the prefix of each planned toolkit, and compare where /usr/local/cuda leads."""
    planned = node.planned("cuda")
    if not planned["toolkits"]:
        yield inapplicable("no CUDA toolkit is planned")
        return
    found = {toolkit["prefix"]: toolkit.get("version") for toolkit in node.facts["cuda.toolkits"]}
    missing = [toolkit for toolkit in planned["toolkits"] if toolkit["prefix"] not in found]
    for toolkit in missing:
        yield fail(f"CUDA {toolkit['version']} is not installed", "install_software", expected=toolkit["prefix"])
    home, default = planned["home"], node.facts.optional("cuda.default")
    (wanted,) = [tool for tool in planned["toolkits"] if tool["version"] == planned["default"]]
    if home != wanted["prefix"] and default != wanted["prefix"] and wanted not in missing:
        yield fail(f"{home} points to another toolkit", "configure", observed=default, expected=wanted["prefix"])
    elif not missing:
        yield ok(f"CUDA {', '.join(str(version) for version in found.values())}", default)


@check(
    "cuda-compat",
    proves="the planned cuda-compat packages are installed, for toolkits newer than the driver",
    source=COMPAT,
)
def cuda_compat(node: Node) -> Iterator[Result]:
    """Look for the directory of each planned package."""
    planned = [tool for tool in node.planned("cuda")["toolkits"] if tool.get("compat")]
    if not planned:
        yield inapplicable("no cuda-compat package is planned")
        return
    missing = [toolkit for toolkit in planned if toolkit["compat"] not in node.facts["cuda.compat"]]
    for toolkit in missing:
        summary = f"cuda-compat of CUDA {toolkit['version']} is not installed"
        yield fail(summary, "install_software", expected=toolkit["compat"])
    if not missing:
        yield ok(f"cuda-compat of CUDA {', '.join(toolkit['version'] for toolkit in planned)}", len(planned))


@check("cuda-compiler", proves="each CUDA toolkit compiles and links for the node's GPUs", source=NVCC_GUIDE)
def cuda_compiler(node: Node) -> Iterator[Result]:
    """Judge what nvcc made of a small program; it ran when the role cuda, or this proof, asked it to."""
    compiled = node.facts.optional("cuda_compiled")
    if not compiled:
        there = node.facts.get("cuda.toolkits")
        yield skipped("no CUDA toolkit was tested") if there else inapplicable("no CUDA toolkit is installed")
        return
    for toolkit in compiled:
        targets = ", ".join(toolkit["compute_capabilities"]) or "nvcc's default"
        if toolkit.optional("problem"):
            yield fail(
                f"nvcc of CUDA {toolkit['version']} does not compile for {targets}",
                "configure",
                observed=toolkit["problem"],
                reason=toolkit["problem"],
            )
        else:
            compiles = f"nvcc of CUDA {toolkit['version']} compiles for {targets}{node.when_tried}"
            yield ok(compiles, toolkit["seconds"], unit="s")
