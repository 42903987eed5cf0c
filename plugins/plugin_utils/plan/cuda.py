# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CUDA part of the plan: toolkits side by side, and the default one."""

from __future__ import annotations

from collections import ChainMap
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from ansible_collections.gpulab.node.plugins.plugin_utils.core.versions import newest, same_or_newer, version_key
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import branch, compat, newer, packages, source
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case, Request
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.gpus import GpuKind
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Cuda, CudaToolkit, Driver, Repository

LINK = "/usr/local/cuda"  # what NVIDIA's packages let point to the default toolkit
PREFIX = LINK + "-{version}"
PACKAGE = "cuda-toolkit"
DISTRIBUTION_PREFIX = "/usr"
AUTO, PYPI = "auto", "pypi"
COMPILER, COMPILER_RPM = "g++", "gcc-c++"


def with_source(case: Case, driver: Driver) -> Case:
    """Return the case with the source of the toolkits that cuda_source: auto comes to: the driver's own.

    With the distribution's driver that is the distribution's toolkit where it serves every GPU, else NVIDIA's wheels
    where they do; a toolkit or library that is requested comes from NVIDIA's repository.
    """
    if case.wishes["cuda_source"] != AUTO:
        return case
    record = case.platform.get("cuda_toolkit")
    toolkit = case.catalog.toolkits[record["version"]] if record else None
    requested = [case.wishes["cuda_toolkits"], *(case.wishes[f"{library}_version"] for library in newer.LIBRARIES)]
    chosen, wheels = "nvidia", _with(case, PYPI)
    if driver["source"] == "distribution":
        if toolkit is not None and _serves_all(case, toolkit):
            chosen = "distribution"
        elif not any(requested) and _in_full(wheels, driver):
            chosen = PYPI
    return _with(case, chosen)


def _with(case: Case, cuda_source: str) -> Case:
    """Return the case with this source of the toolkits."""
    chosen = {"cuda_source": cuda_source}
    return replace(case, wishes=ChainMap(chosen, cast("MutableMapping[str, Any]", case.wishes)))


def plan(case: Case, driver: Driver) -> Cuda:
    """Return the CUDA part. Raises Refusal for a toolkit that cannot serve the node.

    {source, toolkits, default, home, compute_capabilities, apt_components, repository, retire_packages, because}: home
    is the CUDA_HOME of login sessions, compute_capabilities what nvcc has to compile for, retire_packages what an
    earlier plan may have brought and this one does not want.
    """
    origin = case.wishes["cuda_source"]
    own = origin == "distribution"
    versions, because = _versions(case, driver)
    for version in versions:
        _check(case, driver, version)
    if versions and own and driver["source"] != "distribution":
        served = branch.can_serve(case, "distribution")
        way = f"; or {branch.settings_of(case, 'distribution')}" if served else ""
        raise refuse("P039", system=case.platform["name"], source=driver["source"], way=way)
    default = default_of(case, versions)
    make = {"distribution": _of_distribution, PYPI: _of_wheels}.get(origin, _of_nvidia)
    toolkits = [make(case, driver, version) for version in versions]
    return {
        "source": origin,
        "toolkits": toolkits,
        "default": default,
        "home": (DISTRIBUTION_PREFIX if own else LINK) if versions else None,
        "compute_capabilities": _compute_capabilities(case),
        "apt_components": case.platform["cuda_toolkit"]["components"] if versions and own else [],
        "repository": _repository(case, driver) if versions and origin == "nvidia" else None,
        "retire_packages": _retired(case, {name for toolkit in toolkits for name in toolkit["packages"]}),
        "because": because + _forward(case, driver, toolkits),
    }


def default_of(request: Request, toolkits: list[str]) -> str | None:
    """Return the default one of the toolkits. Raises Refusal P026 where the requested one is not among them."""
    default: str | None = request.wishes["cuda_default"]
    if default and default not in toolkits and request.wishes["cuda_state"] == "present":
        raise refuse("P026", default=default, toolkits=", ".join(toolkits) or "none")
    return (default or newest(toolkits)) if toolkits else None


def check_driver(request: Request, driver: compat.DriverChoice, version: str) -> None:
    """Refuse a toolkit that a driver does not run, not even with cuda-compat. Raises Refusal P023 or P077."""
    floor = request.catalog.toolkits[version]["min_driver"]
    if not same_or_newer(driver["newest_known"], floor) and not compat.wanted(request, driver, version):
        way = compat.way(request, driver, version)
        raise refuse("P023", version=version, floor=floor, driver=driver["newest_known"], way=way)


def compiles_for(toolkit: dict[str, Any], gpu: GpuKind) -> bool:
    """Tell whether nvcc of a toolkit has a GPU among its targets, by architecture where no more is known."""
    if gpu.compute_capability is not None:
        return gpu.compute_capability in toolkit["nvcc_targets"]
    first_fits = same_or_newer(toolkit["cuda"], gpu.first_cuda)
    return first_fits and (gpu.last_cuda is None or same_or_newer(gpu.last_cuda, toolkit["cuda"]))


def _versions(case: Case, driver: Driver) -> tuple[list[str], list[str]]:
    toolkits = case.wishes["cuda_toolkits"]
    if case.wishes["cuda_state"] == "absent":
        return [], ["cuda_state is absent: no toolkit, and no libraries that need one."]
    if toolkits:
        return list(toolkits), ["The toolkits are requested."]
    if toolkits is not None:
        return [], ["cuda_toolkits is empty: no toolkit. Frameworks bring their own CUDA."]
    if case.wishes["cuda_source"] == "distribution":
        carried = _carried_by_distribution(case)
        return carried, [f"CUDA {version} is the version in {case.platform['name']} itself." for version in carried]
    return _default(case, driver)


def _default(case: Case, driver: Driver) -> tuple[list[str], list[str]]:
    wheels = case.wishes["cuda_source"] == PYPI
    if driver["source"] == "distribution" and not wheels:
        return [], ["The driver is the distribution's, and no toolkit is requested. Frameworks bring their own CUDA."]
    fitting = _in_full(case, driver)
    if fitting:
        version = newest(fitting)
        return [version], [f"CUDA {version} is the newest that driver branch {driver['branch']} fully supports."]
    if wheels:  # they are requested by name: the check says what does not fit
        return [next(iter(case.catalog.cuda_wheels))], ["It is the oldest CUDA of which NVIDIA has wheels."]
    return [], ["No toolkit in the repository supports the driver and every GPU."]


def _in_full(case: Case, driver: Driver) -> list[str]:
    """Return the toolkits of the source that the driver runs in full, and that compile for every GPU."""
    level = case.catalog.branches[driver["branch"]]["cuda"]
    return [
        version
        for version, toolkit in case.catalog.toolkits.items()
        if same_or_newer(level, version)
        and _carried(case, version)
        and _seen(case, version)
        and _serves_all(case, toolkit)
    ]


def _forward(case: Case, driver: Driver, toolkits: list[CudaToolkit]) -> list[str]:
    """Say which toolkits have NVIDIA's cuda-compat beside them, where it is requested."""
    if not case.wishes["cuda_compat"] or not toolkits:
        return []
    return [
        f"CUDA {toolkit['version']} is newer than driver {driver['newest_known']}: cuda-compat {toolkit['version']}"
        " PROGRAM runs a program with the libcuda of its cuda-compat package."
        for toolkit in toolkits
        if toolkit["compat"]
    ] or [f"cuda_compat is requested, but driver {driver['newest_known']} fully supports every toolkit without it."]


def _check(case: Case, driver: Driver, version: str) -> None:
    toolkit = newer.toolkit_record(case.catalog, version)
    for gpu in case.gpus:
        if not compiles_for(toolkit, gpu):
            fitting = fitting_toolkits(case)
            raise refuse("P024", version=version, gpu=gpu.name, way=_use(case, fitting))
    check_driver(case, driver, version)
    if not _carried(case, version):
        system = f"{case.platform['name']} on {case.architecture}"
        named = {"distribution": f"{case.platform['name']} itself", PYPI: "PyPI"}
        origin = named.get(case.wishes["cuda_source"], f"NVIDIA's repository for {system}")
        raise refuse("P025", source=origin, version=version, way=_use(case, fitting_toolkits(case)))


def fitting_toolkits(case: Case) -> list[str]:
    """Return the toolkits that the source carries and that compile for every GPU with the platform's compiler."""
    deb = packages.package_format(case) == "deb"
    return [
        version
        for version, toolkit in case.catalog.toolkits.items()
        if _carried(case, version)
        and _serves_all(case, toolkit)
        and (deb or case.platform["gcc"] <= toolkit["gcc"]["max"])
    ]


def usable_toolkits(request: Request) -> list[str]:
    """Return the toolkits that a remedy may name, the best last: before a node is read, that for the most GPUs."""
    if isinstance(request, Case):
        return fitting_toolkits(request)
    known = request.catalog.toolkits
    return sorted(known, key=lambda version: len(known[version]["nvcc_targets"]))


def _use(case: Case, fitting: list[str]) -> str:
    """Return the remedy where a toolkit cannot be installed."""
    libraries = [f"{library}_version" for library in newer.LIBRARIES if case.wishes[f"{library}_version"]]
    settings = ", ".join(["cuda_toolkits: []", *(f"{name}: null" for name in libraries)])
    none = f"install no toolkit ({settings}): the Python environments bring their own CUDA"
    if not fitting:
        return f"I{none[1:]}"
    return f"Use CUDA {', '.join(fitting)}" + ("" if libraries else f"; or {none}")


def _serves_all(case: Case, toolkit: dict[str, Any]) -> bool:
    return all(compiles_for(toolkit, gpu) for gpu in case.gpus)


def _compute_capabilities(case: Case) -> list[str]:
    return sorted({gpu.compute_capability for gpu in case.gpus if gpu.compute_capability}, key=version_key)


def _repository(case: Case, driver: Driver) -> Repository:
    """Return NVIDIA's repository; it may replace packages of the driver only where the driver comes from there."""
    name = case.platform["driver_sources"]["nvidia"]["repository"]
    return source.repository(case, name, driver=driver["source"] == "nvidia")


def _carried(case: Case, version: str) -> bool:
    if case.wishes["cuda_source"] == "distribution":
        return version in _carried_by_distribution(case)
    if case.wishes["cuda_source"] == PYPI:
        return version in case.catalog.cuda_wheels
    record = _of_platform(case)
    return case.architecture in record["architectures"] and same_or_newer(version, record.get("first_cuda", "0"))


def _seen(case: Case, version: str) -> bool:
    """Tell whether NVIDIA's repository is known to have a toolkit, and not only not known to lack it."""
    first = "0" if case.wishes["cuda_source"] == PYPI else _of_platform(case).get("first_cuda_seen", "0")
    return same_or_newer(version, first)


def _of_platform(case: Case) -> dict[str, Any]:
    """Return NVIDIA's repository for the platform, as the catalog has it."""
    return case.catalog.repositories[case.platform["driver_sources"]["nvidia"]["repository"]]


def _carried_by_distribution(case: Case) -> list[str]:
    record = case.platform.get("cuda_toolkit")
    if record is None:
        raise refuse("P041", system=case.platform["name"])
    return [record["version"]]


def _of_distribution(case: Case, driver: Driver, version: str) -> CudaToolkit:
    """Return the distribution's toolkit; host_compiler is None where its nvcc finds the one that came with it."""
    record = case.platform["cuda_toolkit"]
    return {
        "version": version,
        "packages": record["packages"],
        "prefix": DISTRIBUTION_PREFIX,
        "full_features": _full_features(case, driver, version),
        "compat": None,
        "host_compiler": record.get("host_compiler"),
        "wheels": [],
    }


def _of_wheels(case: Case, driver: Driver, version: str) -> CudaToolkit:
    """Return a toolkit that is made of NVIDIA's wheels; its packages are what compiles with it, and what fetches it."""
    found = _of_nvidia(case, driver, version)
    wheels = case.catalog.cuda_wheels[version]["wheels"]
    return {
        **found,
        "packages": [*found["packages"][1:], *case.catalog.read("cuda_wheels")["packages"]],
        "wheels": [
            {"name": one["name"], "version": one["version"], "sha256": one["sha256"][case.architecture]}
            for one in wheels
        ],
    }


def _of_nvidia(case: Case, driver: Driver, version: str) -> CudaToolkit:
    """Return a toolkit of NVIDIA's; host_compiler is None where the platform's own compiler fits.

    Raises Refusal P044 where it does not, and the platform has no other one.
    """
    record = case.catalog.toolkits[version]
    if record["max_glibc"] and not same_or_newer(record["max_glibc"], case.platform["glibc"]):
        case.warnings.append(
            f"nvcc {version} does not compile C++ against glibc {case.platform['glibc']} of {case.platform['name']}"
            " (cospi, sinpi): use CUDA 13 to compile."
        )
    if not _seen(case, version):
        case.warnings.append(
            f"No CUDA older than {_of_platform(case)['first_cuda_seen']} is known in NVIDIA's repository for"
            f" {case.platform['name']}: {version} may be missing there."
        )
    too_new = case.platform["gcc"] > record["gcc"]["max"]
    deb = packages.package_format(case) == "deb"
    if too_new and not deb:
        right = fitting_toolkits(case)
        raise refuse(
            "P044",
            version=version,
            newest=record["gcc"]["max"],
            system=case.platform["name"],
            has=case.platform["gcc"],
            way=_use(case, right),
        )
    host_compiler = f"{COMPILER}-{record['gcc']['max']}" if too_new else None
    prefix, forward = PREFIX.format(version=version), compat.wanted(case, driver, version)
    names = [packages.of_cuda(PACKAGE, version), (host_compiler or COMPILER) if deb else COMPILER_RPM]
    return {
        "version": version,
        "packages": [*names, packages.of_cuda(compat.PACKAGE, version)] if forward else names,
        "prefix": prefix,
        "full_features": forward or _full_features(case, driver, version),
        "compat": compat.DIRECTORY.format(prefix=prefix) if forward else None,
        "host_compiler": host_compiler,
        "wheels": [],
    }


def _full_features(case: Case, driver: Driver, version: str) -> bool:
    record = case.catalog.toolkits[version]
    full = compat.in_full(case, driver, record)
    if not full:
        way = ", or cuda_compat: true" if compat.helps(case, driver, version) else ""
        case.warnings.append(
            f"CUDA {version} on driver {driver['newest_known']} runs by minor-version compatibility: its PTX"
            f" needs driver {compat.driver_of(case, record)}{way}."
        )
    return full


def _retired(case: Case, wanted: set[str]) -> list[str]:
    """Return every package that a plan could name for CUDA on this platform, and this one does not.

    The distribution's toolkit depends on its host compiler, which goes with it. Were it named, APT would have to
    say each time that it is needed, which takes seconds.
    """
    compilers = {COMPILER_RPM}
    if packages.package_format(case) == "deb":
        compilers = {COMPILER, *(f"{COMPILER}-{record['gcc']['max']}" for record in case.catalog.toolkits.values())}
    own = set(case.platform.get("cuda_toolkit", {}).get("packages", []))
    if own and own <= wanted:
        compilers = set()
    named = {packages.of_cuda(name, version) for version in case.catalog.toolkits for name in (PACKAGE, compat.PACKAGE)}
    return sorted((named | compilers | own) - wanted)
