# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which PyTorch an environment has, where it does not fit the driver or the GPU, and what goes before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.libraries import directories
from ansible_collections.gpulab.node.plugins.plugin_utils.core.versions import version_key
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.mismatch import (
    COMPATIBILITY,
    commented,
    major,
    views,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import MISMATCH, MOST, STOPS, Finding, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.shapes import PythonEnvironment
    from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import Case

SITE = "https://docs.python.org/3/library/site.html"
GET_STARTED = "https://pytorch.org/get-started/locally/"
WHEELS = "https://download.pytorch.org/whl"
FRAMEWORKS = ("torch", "tensorflow", "jaxlib")
TWICE = ("nvidia-cudnn", "nvidia-nccl", "nvidia-cublas", "nvidia-cuda-runtime")


def _pip(environment: PythonEnvironment) -> str:
    return f"{environment.prefix}/bin/python -m pip"


@rule("mismatch-driver", MISMATCH, COMPATIBILITY)
def driver(case: Case) -> Iterator[Finding]:
    """Find an environment whose PyTorch was built for a CUDA that the driver does not have yet."""
    known = case.facts.get("nvml.cuda_version")
    for environment in case.evidence.environments:
        wanted = environment.torch_cuda
        if known and wanted and wanted != "None" and int(major(wanted)) > int(major(known)):
            fitting = _index(case, environment.packages.get("torch", ""), major(known))
            yield Finding(
                f"PyTorch in {environment.prefix} was built for CUDA {wanted}; the driver runs up to CUDA {known}",
                f"{_pip(environment)} install --force-reinstall torch --index-url {WHEELS}/{fitting}"
                if fitting
                else "Install a newer driver: ansible-playbook gpulab.node.provision --tags nvidia_driver",
                STOPS,
                (f"torch {environment.packages.get('torch')}, CUDA {wanted}",),
            )


def _index(case: Case, version: str, cuda: str) -> str | None:
    """Return the index of PyTorch's wheels that has this version, or the newest, for a CUDA major."""
    releases = case.catalog.frameworks["pytorch"]
    public = version.partition("+")[0]
    for name in [public, *reversed(list(releases))]:
        for build in releases.get(name, {"builds": []})["builds"]:
            if major(str(build["cuda"])) == cuda:
                return str(build["index"])
    return None


@rule("mismatch-cpu-build", MISMATCH, GET_STARTED)
def cpu_build(case: Case) -> Iterator[Finding]:
    """Find a PyTorch without CUDA on a node with GPUs."""
    cuda = case.facts.get("nvml.cuda_version")
    for environment in case.evidence.environments:
        version = environment.packages.get("torch", "")
        if cuda and (version.endswith("+cpu") or (version and environment.torch_cuda == "None")):
            index = _index(case, version, major(cuda)) or _index(case, version, "12")
            yield Finding(
                f"PyTorch {version} in {environment.prefix} was built without CUDA: it sees no GPU",
                f"{_pip(environment)} install --force-reinstall torch --index-url {WHEELS}/{index}",
                STOPS,
                (f"torch {version}",),
            )


@rule("mismatch-architecture", MISMATCH, GET_STARTED)
def architecture(case: Case) -> Iterator[Finding]:
    """Find a PyTorch without kernels for this node's GPUs, by the catalog's list of each build."""
    capabilities = sorted({gpu.get("compute_capability") for gpu in case.facts.get("nvml.gpus", [])} - {None})
    for environment in case.evidence.environments:
        version, cuda = environment.packages.get("torch", ""), environment.torch_cuda
        record = case.catalog.frameworks["pytorch"].get(version.partition("+")[0])
        build = next((one for one in (record or {"builds": []})["builds"] if str(one["cuda"]) == cuda), None)
        if not build or "compute_capabilities" not in build:
            continue
        unfit = [one for one in capabilities if not _runs_on(one, build["compute_capabilities"], build.get("ptx"))]
        newer = _for_capability(case, unfit[0]) if unfit else None
        if unfit:
            yield Finding(
                f"PyTorch {version} in {environment.prefix} has no kernels for compute capability {unfit[0]}",
                f"{_pip(environment)} install --force-reinstall torch=={newer[0]} --index-url {WHEELS}/{newer[1]}"
                if newer
                else "No release of PyTorch in the catalog has kernels for this GPU",
                STOPS,
                (f"built for {', '.join(build['compute_capabilities'])}",),
            )


def _runs_on(capability: str, compiled: list[str], ptx: str | None) -> bool:
    """Tell whether kernels run on a GPU: those of its major up to its minor, and PTX of any older one."""
    major, minor = version_key(capability)[:2]
    fits = any(version_key(one)[0] == major and version_key(one)[1] <= minor for one in compiled)
    return fits or (ptx is not None and version_key(ptx)[:2] <= (major, minor))


def _for_capability(case: Case, capability: str) -> tuple[str, str] | None:
    known = case.facts.get("nvml.cuda_version")
    for version, record in reversed(list(case.catalog.frameworks["pytorch"].items())):
        for build in record["builds"]:
            fits = _runs_on(capability, build.get("compute_capabilities", []), build.get("ptx"))
            if fits and (not known or int(major(str(build["cuda"]))) <= int(major(known))):
                return version, str(build["index"])
    return None


@rule("mismatch-twice-installed", MISMATCH, WHEELS)
def twice(case: Case) -> Iterator[Finding]:
    """Find one library of NVIDIA's wheels for two CUDA majors in one environment, which overwrite each other."""
    for environment in case.evidence.environments:
        majors = _majors(environment)
        base = next((name for name in TWICE if len(majors.get(name, ())) > 1), None)
        if base:
            yield _installed_twice(environment, base, sorted(majors[base]))


def _majors(environment: PythonEnvironment) -> dict[str, list[str]]:
    """Return for which CUDA majors, such as cu12, each of NVIDIA's wheels is there."""
    majors: dict[str, list[str]] = {}
    for name in environment.packages:
        base, _dash, suffix = name.rpartition("-")
        if name.startswith("nvidia-") and suffix.startswith("cu") and suffix[2:].isdigit():
            majors.setdefault(base, []).append(suffix)
    return majors


def _installed_twice(environment: PythonEnvironment, base: str, majors: list[str]) -> Finding:
    packages, built = environment.packages, f"cu{major(environment.torch_cuda)}"
    keep = built if built in majors else majors[-1]
    unwanted = [
        name
        for name in packages
        if name.startswith("nvidia-") and name.rpartition("-")[2] in majors and not name.endswith(f"-{keep}")
    ]
    return Finding(
        f"{environment.prefix} has {base} for {' and '.join(majors)}: they overwrite each other's files",
        f"{_pip(environment)} uninstall -y {' '.join(sorted(unwanted))} && "
        f"{_pip(environment)} install --force-reinstall --no-deps {base}-{keep}=={packages[f'{base}-{keep}']}",
        MOST,
        tuple(f"{base}-{one} {packages[f'{base}-{one}']}" for one in majors),
    )


@rule("mismatch-user-site", MISMATCH, SITE)
def user_site(case: Case) -> Iterator[Finding]:
    """Find a framework in a user's own directory that goes before the environment's."""
    for environment in case.evidence.environments:
        for name in FRAMEWORKS:
            own, theirs = environment.packages.get(name), environment.user_packages.get(name)
            isolated = any(one.name == "PYTHONNOUSERSITE" and one.value for one in case.evidence.settings)
            if theirs and own and own != theirs and not isolated:
                yield Finding(
                    f"{environment.prefix} has {name} {own}, but {environment.user_site} has {theirs}, which goes"
                    " before it",
                    "export PYTHONNOUSERSITE=1",
                    MOST,
                    (f"{name} {theirs} in {environment.user_site}",),
                )


@rule("mismatch-python-path", MISMATCH, SITE)
def python_path(case: Case) -> Iterator[Finding]:
    """Find a PYTHONPATH that leads one Python to the packages of another."""
    told = set()
    for view in views(case):
        path = view.variables.get("PYTHONPATH", "")
        python = view.environment.python if view.environment else None
        for part in directories(path):
            other = part.rpartition("/lib/python")[2].partition("/")[0] if "-packages" in part else ""
            if other and python and f"python{other}" != python and part not in told:
                told.add(part)
                yield Finding(
                    f"PYTHONPATH gives {view.who} packages of Python {other}, but its Python is {python[6:]}",
                    "unset PYTHONPATH" + commented(case, "PYTHONPATH", part),
                    MOST,
                    (f"PYTHONPATH={path}",),
                )
