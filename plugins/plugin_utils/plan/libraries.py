# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The libraries part of the plan: cuDNN, NCCL and TensorRT, each tied to the default CUDA toolkit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.plugin_utils.core.versions import same_or_newer, version_key
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import cuda, newer, packages
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case, Request
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.gpus import GpuKind
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Cuda, Libraries, Library

LIBRARIES = ("cudnn", "nccl", "tensorrt")
NUMBERS = 4  # of a whole version, with its build: 9.10.2.21


def plan(case: Case, toolkits: Cuda) -> Libraries:
    """Return {cudnn, nccl, tensorrt, retire_packages, because}, None for one not requested.

    retire_packages is what an earlier plan may have brought and this one does not want. Raises Refusal for a version
    that is unknown, or serves neither the toolkit nor a GPU.
    """
    chosen = {library: _library(case, library, toolkits) for library in LIBRARIES}
    because = [
        f"{library} {part['version']} is built for CUDA {part['cuda']}." for library, part in chosen.items() if part
    ]
    return {
        "cudnn": chosen["cudnn"],
        "nccl": chosen["nccl"],
        "tensorrt": chosen["tensorrt"],
        "retire_packages": _retired(case, chosen),
        "because": because or ["None is requested. Frameworks bring their own cuDNN and NCCL."],
    }


def _library(case: Case, library: str, toolkits: Cuda) -> Library | None:
    default = toolkits["default"]
    version = requested(case, library, [toolkit["version"] for toolkit in toolkits["toolkits"]])
    if version is None or default is None:
        return None
    if toolkits["source"] == "distribution":
        raise refuse("P040", library=library, version=version, system=case.platform["name"])
    if toolkits["source"] == cuda.PYPI:
        raise refuse("P099", library=library, version=version)
    record = case.catalog.libraries[library]
    release = next((known for known in record["releases"] if newer.within(version, known)), None)
    if release is None:
        raise newer.no_library(record, library, version)
    major = _major(default)
    if int(major) not in release.get("cuda_majors", [int(major)]):
        right = ", ".join(_ranges(record, lambda known: int(major) in known.get("cuda_majors", ())))
        raise refuse("P029", library=library, version=version, target=f"CUDA {default}", right=right)
    for gpu in case.gpus:
        if not _serves(release, gpu):
            right = ", ".join(_ranges(record, lambda known, gpu=gpu: _serves(known, gpu)))
            raise refuse("P029", library=library, version=version, target=gpu.name, right=right or "none")
    if case.platform["id"] in record["doubts"]:
        case.warnings.append(f"{library}: {record['doubts'][case.platform['id']]}.")
    build = ".*" if len(version_key(version)) < NUMBERS else "*"  # 9.1 is no 9.10
    pin = record["pin"].format(version=version, build=build, cuda=default, major=major)
    names = _names(case, record, major, _major(version))
    return {"version": version, "cuda": default, "packages": [f"{name}={pin}" for name in names]}


def requested(request: Request, library: str, toolkits: list[str]) -> str | None:
    """Return the version of a library that is requested, None for none.

    Raises Refusal P027 where none of the toolkits is there that it could be tied to.
    """
    version: str | None = request.wishes[f"{library}_version"]
    if version is None or request.wishes["cuda_state"] == "absent":
        return None
    if not toolkits:
        label, example = newer.LIBRARIES[library], _example(request, library, version)
        raise refuse("P027", library=label, version=version, example=example)
    return version


def _example(request: Request, library: str, version: str) -> str:
    """Return a toolkit that a library's version can be tied to, for a remedy."""
    releases = request.catalog.libraries[library]["releases"]
    majors = next((one.get("cuda_majors") for one in releases if newer.within(version, one)), None)
    known = [one for one in cuda.usable_toolkits(request) if majors is None or int(_major(one)) in majors]
    return known[-1] if known else list(request.catalog.toolkits)[-1]


def _names(case: Case, record: dict[str, Any], major: str, library_major: str) -> list[str]:
    patterns = record["packages"][packages.package_format(case)]
    return [name.format(major=major, library_major=library_major) for name in patterns]


def _retired(case: Case, chosen: dict[str, Library | None]) -> list[str]:
    """Return every package that a plan could name for a library, whatever its majors, and this one does not."""
    names = {
        name
        for record in case.catalog.libraries.values()
        for release in record["releases"]
        for library_major in (_major(release["from"]), _major(release["to"]))
        for major in case.catalog.min_drivers
        for name in _names(case, record, major, library_major)
    }
    wanted = {
        name
        for library, part in chosen.items()
        if part
        for name in _names(case, case.catalog.libraries[library], _major(part["cuda"]), _major(part["version"]))
    }
    return sorted(names - wanted)


def _major(version: str) -> str:
    return version.partition(".")[0]


def _serves(release: dict[str, Any], gpu: GpuKind) -> bool:
    lowest, highest = release.get("min_compute_capability", "0"), release.get("max_compute_capability", "99")
    return any(same_or_newer(one, lowest) and same_or_newer(highest, one) for one in gpu.compute_capabilities)


def _ranges(record: dict[str, Any], fits: Any) -> list[str]:
    return [f"{known['from']} to {known['to']}" for known in record["releases"] if fits(known)]
