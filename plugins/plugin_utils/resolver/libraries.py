# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The libraries part of the plan: cuDNN, NCCL and TensorRT, each tied to the default CUDA toolkit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.refusal import refuse
from ansible_collections.gpulab.node.plugins.plugin_utils.resolver import packages
from ansible_collections.gpulab.node.plugins.plugin_utils.versions import same_or_newer, version_key

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.resolver.case import Case

LIBRARIES = ("cudnn", "nccl", "tensorrt")


def plan(case: Case, cuda: dict[str, Any]) -> dict[str, Any]:
    """Return {cudnn, nccl, tensorrt, because}, None for one not wished for.

    Raises Refusal for a version that is unknown or serves neither the toolkit nor a GPU.
    """
    chosen = {library: _library(case, library, cuda["default"]) for library in LIBRARIES}
    because = [
        f"{library} {part['version']} is built for CUDA {part['cuda']}." for library, part in chosen.items() if part
    ]
    return {**chosen, "because": because or ["None is wished for: frameworks bring their own cuDNN and NCCL."]}


def _library(case: Case, library: str, cuda: str | None) -> dict[str, Any] | None:
    version = case.wishes[f"{library}_version"]
    if version is None:
        return None
    if cuda is None:
        raise refuse("P027", library=library, version=version)
    record = case.catalog.libraries[library]
    release = next((known for known in record["releases"] if _within(version, known)), None)
    if release is None:
        first, last = record["releases"][0]["from"], record["releases"][-1]["to"]
        raise refuse("P028", library=library, version=version, first=first, last=last)
    major = cuda.partition(".")[0]
    if int(major) not in release.get("cuda_majors", [int(major)]):
        right = ", ".join(_ranges(record, lambda known: int(major) in known.get("cuda_majors", ())))
        raise refuse("P029", library=library, version=version, target=f"CUDA {cuda}", right=right)
    for gpu in case.gpus:
        if not _serves(release, gpu.compute_capability):
            right = ", ".join(_ranges(record, lambda known, gpu=gpu: _serves(known, gpu.compute_capability)))
            raise refuse("P029", library=library, version=version, target=gpu.name, right=right or "none")
    if case.platform["id"] in record["doubts"]:
        case.warnings.append(f"{library}: {record['doubts'][case.platform['id']]}.")
    values = {"version": version, "cuda": cuda, "major": major, "library_major": version.partition(".")[0]}
    pin = record["pin"].format(**values)
    names = [name.format(**values) for name in record["packages"][packages.package_format(case)]]
    return {"version": version, "cuda": cuda, "packages": [packages.pinned(case, name, pin) for name in names]}


def _within(version: str, release: dict[str, Any]) -> bool:
    """Tell whether a version lies in the range of a release; a build number (9.10.2.21) does not take it out."""
    last = version_key(release["to"])
    return same_or_newer(version, release["from"]) and version_key(version)[: len(last)] <= last


def _serves(release: dict[str, Any], compute_capability: str | None) -> bool:
    lowest, highest = release.get("min_compute_capability"), release.get("max_compute_capability")
    if compute_capability is None:
        return True
    return (lowest is None or same_or_newer(compute_capability, lowest)) and (
        highest is None or same_or_newer(highest, compute_capability)
    )


def _ranges(record: dict[str, Any], fits: Any) -> list[str]:
    return [f"{known['from']} to {known['to']}" for known in record["releases"] if fits(known)]
