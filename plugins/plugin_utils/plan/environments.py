# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python environments of the plan: framework release, CUDA build and Python that fit driver and GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import refuse
from ansible_collections.gpulab.node.plugins.module_utils.environments import jupyter
from ansible_collections.gpulab.node.plugins.plugin_utils import requirement_lines
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import newer
from ansible_collections.gpulab.node.plugins.plugin_utils.versions import newest, same_or_newer, version_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.gpus import Gpu

FRAMEWORKS = ("pytorch", "tensorflow", "jax")
PYTORCH_INDEX = "https://download.pytorch.org/whl/{index}"
PYTORCH_PACKAGES = ("torch", "torchvision", "torchaudio")  # what that index is asked for; all else is the general one's
CPU = "cpu"  # as an index: a build without CUDA, which every release has
# Set in every interpreter of an environment whose user has not: memory is taken as it is needed, not all at once.
VARIABLES = {
    "pytorch": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    "tensorflow": {"TF_FORCE_GPU_ALLOW_GROWTH": "true"},
    "jax": {},
}


def plan(case: Case, driver: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one part per wished environment. Raises Refusal for one that cannot work on the node."""
    return [_environment(case, driver, wish) for wish in case.wishes["gpulab_environments"] or ()]


def _environment(case: Case, driver: dict[str, Any], wish: dict[str, Any]) -> dict[str, Any]:
    name = wish["name"]
    framework = framework_of(wish)
    check_packages(wish)
    if case.wishes["nvidia_driver_state"] == "absent":
        check_driver(wish)
    release = _release(case, name, framework, wish[framework])
    on_cpu = wish.get("index") == CPU
    build = {"cuda": None, "index": CPU} if on_cpu else _build(case, driver, name, release, wish.get("index"))
    further = [*_of_sets(case, name, framework, wish.get("sets") or (), build), *wish.get("packages", ())]
    further += [jupyter.PACKAGE] if wish.get("jupyter") else []
    python = _python(case, name, release, wish.get("python"))
    if framework == "tensorflow" and any(_by_ptx(build, one) for gpu in case.gpus for one in gpu.compute_capabilities):
        case.warnings.append(f"{name}: TensorFlow has no compiled kernels for these GPUs, so its first run is slow.")
    for gpu in case.gpus:
        if not all(_runs_on(build, one) for one in gpu.compute_capabilities):
            case.warnings.append(
                f"{name}: the wheels of {framework} {release['version']} serve some {gpu.architecture} GPUs and not"
                f" others; which of them {gpu.name} is, the environment's first computation tells."
            )
    if case.architecture != "x86_64":
        case.warnings.append(f"{name}: the wheels of {framework} are confirmed for x86_64 only.")
    why = (
        f"{name}: {framework} {release['version']} without CUDA is requested; Python {python} has wheels of it."
        if on_cpu
        else f"{name}: {framework} {release['version']} built for CUDA {build['cuda']} runs on driver"
        f" {driver['newest_known']} and every GPU; Python {python} has wheels of it."
    )
    return {
        "name": name,
        "framework": framework,
        "version": release["version"],
        "python": python,
        "cuda": build["cuda"],
        "index_url": PYTORCH_INDEX.format(index=build["index"]) if framework == "pytorch" else None,
        "index_packages": list(PYTORCH_PACKAGES) if framework == "pytorch" else [],
        "requirements": [_requirement(framework, release["version"], build), *further],
        "lock": wish.get("lock"),
        "jupyter": bool(wish.get("jupyter")),
        "group": wish.get("group"),
        "variables": {**VARIABLES[framework], **_workers(case)},
        "because": [why],
    }


def framework_of(wish: dict[str, Any]) -> str:
    """Return the one framework of an environment. Raises Refusal P032 where it names none, or several."""
    named = [framework for framework in FRAMEWORKS if wish.get(framework)]
    if len(named) != 1:
        raise refuse("P032", name=wish["name"], named=" and ".join(named) or "none")
    return named[0]


def check_packages(wish: dict[str, Any]) -> None:
    """Refuse packages that uv could not install or lock, by the wish alone. Raises Refusal E018."""
    for line in wish.get("packages") or ():
        found = requirement_lines.fault(line, sources=False)
        if found:
            raise requirement_lines.refusal(wish["name"], None, line, found)


def check_driver(wish: dict[str, Any]) -> None:
    """Refuse an environment that is built for CUDA on a node that is to have no driver. Raises Refusal I012."""
    if any(wish.get(framework) for framework in FRAMEWORKS) and wish.get("index") != CPU:
        raise refuse(
            "I012",
            one="nvidia_driver_state: absent",
            other=f"the environment {wish['name']}",
            reason="its framework is built for CUDA, which needs a driver",
            way="Set index: cpu in the environment, or remove the environment",
        )


def _of_sets(case: Case, name: str, framework: str, sets: Sequence[str], build: dict[str, Any]) -> list[str]:
    """Return the packages of sets, for the framework's build."""
    known, found = case.catalog.package_sets, []
    for one in sets:
        if one not in known:
            raise refuse("P073", name=name, set=one, known=", ".join(known))
        record = known[one]
        if record.get("framework", framework) != framework:
            raise refuse("P074", name=name, set=one, needed=record["framework"], framework=framework)
        major = build["cuda"].partition(".")[0] if build["cuda"] else CPU
        found += [*record["packages"], *record.get("by_cuda", {}).get(major, ())]
    return found


def _workers(case: Case) -> dict[str, str]:
    """Return a hint how many processes shall load data for one GPU: its share of the CPU cores."""
    cores, gpus = case.facts["system"].get("cpu_cores"), len(case.facts["pci"]["gpus"])
    return {"GPULAB_NUM_WORKERS": str(max(1, cores // max(1, gpus)))} if cores else {}


def _requirement(framework: str, version: str, build: dict[str, Any]) -> str:
    names = {"pytorch": "torch", "tensorflow": "tensorflow[and-cuda]", "jax": f"jax[{build['index']}]"}
    if build["cuda"] is None:
        names = {"pytorch": "torch", "tensorflow": "tensorflow", "jax": "jax"}
    return f"{names[framework]}=={version}"


def _release(case: Case, name: str, framework: str, wished: str) -> dict[str, Any]:
    """Return the newest release that a version names: 2.9 is 2.9.1."""
    releases = case.catalog.frameworks[framework]
    length = len(version_key(wished))
    fitting = [version for version in releases if version_key(version)[:length] == version_key(wished)]
    if not fitting:
        raise newer.no_framework(releases, name, framework, wished)
    return releases[newest(fitting)]


def _build(case: Case, driver: dict[str, Any], name: str, release: dict[str, Any], index: str | None) -> dict[str, Any]:
    builds = [build for build in release["builds"] if index in (None, build["index"])]
    label = f"{release['framework']} {release['version']}"
    if not builds:
        right = ", ".join(build["index"] or "none" for build in release["builds"])
        raise refuse("P034", name=name, release=label, index=index, right=right)
    obstacles = {build["cuda"]: _obstacle(case, driver, build) for build in builds}
    fitting = [build for build in builds if obstacles[build["cuda"]] is None]
    if not fitting:
        why = "; ".join(f"CUDA {cuda}: {obstacle}" for cuda, obstacle in obstacles.items())
        raise refuse("P035", name=name, release=label, why=why, right=_alternative(case, driver, release["framework"]))
    level = case.catalog.branches[driver["branch"]]["cuda"]
    in_full = [build for build in fitting if same_or_newer(level, build["cuda"])]
    return max(in_full or fitting, key=lambda build: version_key(build["cuda"]))


def _obstacle(case: Case, driver: dict[str, Any], build: dict[str, Any]) -> str | None:
    floor = case.catalog.min_drivers[build["cuda"].partition(".")[0]]
    if not same_or_newer(driver["newest_known"], floor):
        return f"needs driver {floor}"
    for gpu in case.gpus:
        if not _covers(build, gpu):
            return f"has no kernels for {gpu.name}"
    return None


def _covers(build: dict[str, Any], gpu: Gpu) -> bool:
    return any(_runs_on(build, one) for one in gpu.compute_capabilities)


def _runs_on(build: dict[str, Any], compute_capability: str) -> bool:
    if not same_or_newer(compute_capability, build.get("min_compute_capability", "0")):
        return False
    if not same_or_newer(build.get("max_compute_capability", "99"), compute_capability):
        return False
    if "compute_capabilities" not in build:
        return True
    return _has_kernels(build, compute_capability) or _by_ptx(build, compute_capability)


def _has_kernels(build: dict[str, Any], compute_capability: str) -> bool:
    """Tell whether compiled kernels run: those of the same major and of no higher minor do."""
    major, minor = version_key(compute_capability)
    return any(
        version_key(known)[0] == major and version_key(known)[1] <= minor for known in build["compute_capabilities"]
    )


def _by_ptx(build: dict[str, Any], compute_capability: str) -> bool:
    """Tell whether a GPU runs the build only by compiling its PTX."""
    if "ptx" not in build:
        return False
    return not _has_kernels(build, compute_capability) and same_or_newer(compute_capability, build["ptx"])


def _alternative(case: Case, driver: dict[str, Any], framework: str) -> str:
    """Name the newest release of the framework that runs on this node."""
    for version, release in reversed(case.catalog.frameworks[framework].items()):
        for build in reversed(release["builds"]):
            if _obstacle(case, driver, build) is None:
                return f"{framework} {version} built for CUDA {build['cuda']}"
    return "another driver branch or framework"


def _python(case: Case, name: str, release: dict[str, Any], wished: str | None) -> str:
    lowest, highest = release["python"]["min"], release["python"]["max"]

    def fits(version: str) -> bool:
        return same_or_newer(version, lowest) and (highest is None or same_or_newer(highest, version))

    if wished is not None:
        if not fits(wished):
            label = f"{release['framework']} {release['version']}"
            raise refuse("P036", name=name, release=label, python=wished, right=f"{lowest} to {highest or 'newer'}")
        return wished
    own = case.platform["python"]
    if fits(own):
        return own
    return highest if highest and same_or_newer(own, highest) else lowest
