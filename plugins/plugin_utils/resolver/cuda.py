# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CUDA part of the plan: toolkits side by side, and the default one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.refusal import refuse
from ansible_collections.gpulab.node.plugins.plugin_utils.resolver import source
from ansible_collections.gpulab.node.plugins.plugin_utils.versions import newest, same_or_newer

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.resolver.case import Case
    from ansible_collections.gpulab.node.plugins.plugin_utils.resolver.gpus import Gpu

NONE: dict[str, Any] = {"toolkits": [], "default": None, "repository": None}


def plan(case: Case, driver: dict[str, Any]) -> dict[str, Any]:
    """Return {toolkits, default, repository, because}. Raises Refusal for a toolkit that cannot serve the node."""
    wished = case.wishes["cuda_toolkits"]
    versions, because = (list(wished), ["The toolkits are wished for."]) if wished else _default(case, driver)
    if wished is not None and not wished:
        versions, because = [], ["cuda_toolkits is empty: no toolkit; frameworks bring their own CUDA."]
    for version in versions:
        _check(case, driver, version)
    default = case.wishes["cuda_default"] or (newest(versions) if versions else None)
    if default and default not in versions:
        raise refuse("P026", default=default, toolkits=", ".join(versions) or "none")
    if not versions:
        return {**NONE, "because": because}
    repository = source.repository(case, _repository_name(case), driver=driver["source"] == "nvidia")
    toolkits = [_toolkit(case, driver, version) for version in versions]
    return {"toolkits": toolkits, "default": default, "repository": repository, "because": because}


def compiles_for(toolkit: dict[str, Any], gpu: Gpu) -> bool:
    """Tell whether nvcc of a toolkit has a GPU among its targets, by architecture where no more is known."""
    if gpu.compute_capability is not None:
        return gpu.compute_capability in toolkit["nvcc_targets"]
    first_fits = same_or_newer(toolkit["cuda"], gpu.first_cuda)
    return first_fits and (gpu.last_cuda is None or same_or_newer(gpu.last_cuda, toolkit["cuda"]))


def _default(case: Case, driver: dict[str, Any]) -> tuple[list[str], list[str]]:
    if driver["source"] == "distribution":
        return [], ["The driver is the distribution's and no toolkit is wished for: frameworks bring their own CUDA."]
    level = case.catalog.branches[driver["branch"]]["cuda"]
    fitting = [
        version
        for version, toolkit in case.catalog.toolkits.items()
        if same_or_newer(level, version) and _carried(case, version) and _serves_all(case, toolkit)
    ]
    if not fitting:
        return [], ["No toolkit that the repository carries serves the driver and every GPU."]
    version = newest(fitting)
    return [version], [f"CUDA {version} is the newest that driver branch {driver['branch']} runs in full."]


def _check(case: Case, driver: dict[str, Any], version: str) -> None:
    toolkit = case.catalog.toolkits.get(version)
    if toolkit is None:
        raise refuse("P022", version=version, known=", ".join(case.catalog.toolkits))
    for gpu in case.gpus:
        if not compiles_for(toolkit, gpu):
            fitting = [name for name, known in case.catalog.toolkits.items() if compiles_for(known, gpu)]
            right = f"{fitting[0]} to {fitting[-1]}" if fitting else "none of the catalog"
            raise refuse("P024", version=version, gpu=gpu.name, right=right)
    if not same_or_newer(driver["newest_known"], toolkit["min_driver"]):
        raise refuse("P023", version=version, floor=toolkit["min_driver"], driver=driver["newest_known"])
    if not _carried(case, version):
        raise refuse("P025", version=version, system=f"{case.platform['name']} on {case.architecture}")


def _serves_all(case: Case, toolkit: dict[str, Any]) -> bool:
    return all(compiles_for(toolkit, gpu) for gpu in case.gpus)


def _repository_name(case: Case) -> str:
    return case.platform["driver_sources"]["nvidia"]["repository"]


def _carried(case: Case, version: str) -> bool:
    record = case.catalog.repositories[_repository_name(case)]
    return case.architecture in record["architectures"] and same_or_newer(version, record.get("first_cuda", "0"))


def _toolkit(case: Case, driver: dict[str, Any], version: str) -> dict[str, Any]:
    record = case.catalog.toolkits[version]
    full = same_or_newer(driver["newest_known"], record["paired_driver"])
    if not full:
        case.warnings.append(
            f"CUDA {version} on driver {driver['newest_known']} runs by minor-version compatibility: its PTX"
            f" needs driver {record['paired_driver']}."
        )
    if record["max_glibc"] and not same_or_newer(record["max_glibc"], case.platform["glibc"]):
        case.warnings.append(
            f"nvcc {version} does not compile C++ against glibc {case.platform['glibc']} of {case.platform['name']}"
            " (cospi, sinpi): take CUDA 13 to compile."
        )
    too_new = case.platform["gcc"] > record["gcc"]["max"]
    return {
        "version": version,
        "packages": [f"cuda-toolkit-{version.replace('.', '-')}"],
        "prefix": f"/usr/local/cuda-{version}",
        "full_features": full,
        "host_compiler": f"g++-{record['gcc']['max']}" if too_new else "g++",
    }
