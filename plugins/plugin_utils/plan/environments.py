# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python environments of the plan: framework release, CUDA build and Python that fit driver and GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.environments import jupyter
from ansible_collections.gpulab.node.plugins.module_utils.environments.venv import ANY
from ansible_collections.gpulab.node.plugins.plugin_utils.core.versions import newest, same_or_newer, version_key
from ansible_collections.gpulab.node.plugins.plugin_utils.environment_files import reading, requirement_lines
from ansible_collections.gpulab.node.plugins.plugin_utils.environment_files.pypa import SpecifierSet
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import conda, environment_file, framework_builds, newer
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Driver, Environment

FRAMEWORKS = ("pytorch", "tensorflow", "jax")
PYTORCH_INDEX = "https://download.pytorch.org/whl/{index}"
PYTORCH_PACKAGES = ("torch", "torchvision", "torchaudio")  # what that index is asked for; all else is the general one's
# Set in every interpreter of an environment whose user has not: memory is taken as it is needed, not all at once.
VARIABLES = {
    "pytorch": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    "tensorflow": {"TF_FORCE_GPU_ALLOW_GROWTH": "true"},
    "jax": {},
}


def plan(case: Case, driver: Driver) -> list[Environment]:
    """Return one part per requested environment. Raises Refusal for one that cannot work on the node."""
    return [_environment(case, driver, wish) for wish in case.wishes["gpulab_environments"] or ()]


def mirrored(url: str | None, mirror: str | None) -> str | None:
    """Return an index of PyTorch in a mirror of them all, if there is one."""
    return f"{mirror.rstrip('/')}/{url.rpartition('/')[2]}" if url and mirror else url


def _environment(case: Case, driver: Driver, wish: dict[str, Any]) -> Environment:
    framework_of(wish)
    check_packages(wish)
    contents = reading.read(wish) if wish.get("file") else reading.Contents()
    wish = {**wish, **environment_file.of_file(case, driver, wish, contents)}
    name, index = wish["name"], wish.get("index")
    framework = framework_of(wish)
    if case.wishes["nvidia_driver_state"] == "absent":
        check_driver(wish)
    sets = _sets(case, name, framework, wish.get("sets") or ())
    release = _release(case, name, framework, wish[framework]) if framework else None
    build = _build(case, driver, name, release, index)
    further = [*_of_sets(name, release, build, sets), *_asked_for(wish, contents, release)]
    python = _python_for(case, wish, contents, release, _pythons(sets, build))
    lock_text = reading.lock(wish, contents, python, case.architecture)
    index_of_file = contents.build if release is None and index != framework_builds.PYPI else None
    of_index = index_of_file or (build["index"] if framework == "pytorch" and index != framework_builds.PYPI else None)
    tried = framework or _framework_of_file(wish, contents, lock_text)
    any_cuda = ANY if tried and framework_builds.CPU not in (index, index_of_file) else None
    if release:
        _warn(case, name, release, build)
    return {
        "name": name,
        "framework": tried,
        "version": release["version"] if release else None,
        "python": python,
        "cuda": build["cuda"] if release else any_cuda,
        "index_url": PYTORCH_INDEX.format(index=of_index) if of_index else None,
        "index_packages": list(PYTORCH_PACKAGES) if of_index else [],
        "requirements": requirements(release, build, further),
        "lock": wish.get("lock"),
        "lock_text": lock_text,
        "constraints": contents.constraints,
        "overrides": contents.overrides,
        "compile": list(wish.get("compile") or ()),
        "prereleases": contents.prereleases,
        "jupyter": bool(wish.get("jupyter")),
        "group": wish.get("group"),
        "variables": {**(VARIABLES[framework] if framework else {}), **_workers(case)},
        "because": [_why(name, driver, release, build, python)],
    }


def _asked_for(wish: dict[str, Any], contents: reading.Contents, release: dict[str, Any] | None) -> list[str]:
    """Return the requirements beside the framework and sets: of the environment itself, of its file, and Jupyter's."""
    of_jupyter = [jupyter.PACKAGE] if wish.get("jupyter") else []
    return [*wish.get("packages", ()), *environment_file.lines_of(contents, release), *of_jupyter]


def _framework_of_file(wish: dict[str, Any], contents: reading.Contents, lock_text: str | None) -> str | None:
    """Return the framework that is among the packages of an environment's file; None without a file."""
    return environment_file.framework_named(contents, lock_text) if wish.get("file") else None


def _python_for(
    case: Case,
    wish: dict[str, Any],
    contents: reading.Contents,
    release: dict[str, Any] | None,
    limits: dict[str, dict[str, Any]],
) -> str:
    """Return the Python of an environment. Raises Refusal E071 for one that its file does not take."""
    asked = wish.get("python") or environment_file.python_of(case, wish, contents, release, limits)
    python = _python(case, wish["name"], release, limits, asked)
    if not SpecifierSet(contents.python).contains(f"{python}.99"):
        raise refuse("E071", name=wish["name"], file=wish["file"], needed=contents.python, python=python)
    return python


def _warn(case: Case, name: str, release: dict[str, Any], build: dict[str, Any]) -> None:
    """Warn of what may be slow or may not work with the GPUs and the architecture of the node."""
    framework = release["framework"]
    if framework == "tensorflow" and any(
        framework_builds.by_ptx(build, one) for gpu in case.gpus for one in gpu.compute_capabilities
    ):
        case.warnings.append(f"{name}: TensorFlow has no compiled kernels for these GPUs, so its first run is slow.")
    for gpu in case.gpus:
        if not all(framework_builds.runs_on(build, one) for one in gpu.compute_capabilities):
            case.warnings.append(
                f"{name}: the wheels of {framework} {release['version']} serve some {gpu.architecture} GPUs and not"
                f" others; which of them {gpu.name} is, the environment's first computation tells."
            )
    if not framework_builds.is_seen(case, build):
        case.warnings.append(f"{name}: the wheels of {framework} are confirmed for x86_64 only.")


def _why(name: str, driver: Driver, release: dict[str, Any] | None, build: dict[str, Any], python: str) -> str:
    if release is None:
        return f"{name}: no framework is requested; Python {python} has wheels of its packages."
    label = f"{name}: {release['framework']} {release['version']}"
    if build["cuda"] is None:
        return f"{label} without CUDA is requested; Python {python} has wheels of it."
    return (
        f"{label} built for CUDA {build['cuda']} runs on driver {driver['newest_known']} and every GPU; Python {python}"
        " has wheels of it."
    )


def framework_of(wish: dict[str, Any]) -> str | None:
    """Return the framework of an environment, None where it asks for other packages alone.

    Raises Refusal P032 where it names several frameworks, or nothing at all.
    """
    named = [framework for framework in FRAMEWORKS if wish.get(framework)]
    others = any(wish.get(one) for one in ("packages", "sets", "lock", "jupyter", "file"))
    if len(named) > 1 or not (named or others):
        raise refuse("P032", name=wish["name"], named=" and ".join(named) or "none")
    return named[0] if named else None


def check_packages(wish: dict[str, Any]) -> None:
    """Refuse packages that uv could not install or lock, by the wish alone. Raises Refusal E018."""
    found = [(line, requirement_lines.fault(line, sources=False)) for line in wish.get("packages") or ()]
    faults = [(line, fault) for line, fault in found if fault]
    if faults:
        raise requirement_lines.refusal(wish["name"], None, faults)


def check_driver(wish: dict[str, Any]) -> None:
    """Refuse an environment that is built for CUDA on a node that is to have no driver. Raises Refusal I012."""
    if any(wish.get(framework) for framework in FRAMEWORKS) and wish.get("index") != framework_builds.CPU:
        raise refuse(
            "I012",
            one="nvidia_driver_state: absent",
            other=f"the environment {wish['name']}",
            reason="its framework is built for CUDA, which needs a driver",
            way="Set index: cpu in the environment, or remove the environment",
        )


def _sets(case: Case, name: str, framework: str | None, sets: Sequence[str]) -> list[dict[str, Any]]:
    """Return the records of sets. Raises Refusal P073, P074 or P098 for one that no such environment can have."""
    known = case.catalog.package_sets
    for one in sets:
        if one not in known:
            installable = ", ".join(known_name for known_name, record in known.items() if "refused" not in record)
            raise refuse("P073", name=name, set=one, known=installable)
        record = known[one]
        if "refused" in record:
            raise refuse("P098", name=name, set=one, **record["refused"])
        if record.get("framework", framework) != framework:
            raise refuse("P074", name=name, set=one, needed=record["framework"], framework=framework or "no framework")
    return [known[one] for one in sets]


def _of_sets(
    name: str, release: dict[str, Any] | None, build: dict[str, Any], sets: Sequence[dict[str, Any]]
) -> list[str]:
    """Return the packages of sets. Raises Refusal P098 for one that does not fit."""
    found: dict[str, None] = {}  # each once: sets may share a package
    for record in sets:
        obstacle = obstacle_of_set(record, release, build)
        if obstacle:
            raise refuse("P098", name=name, set=record["name"], why=obstacle[0], way=obstacle[1])
        found.update(dict.fromkeys(packages_of_set(record, release, build)))
    return list(found)


def obstacle_of_set(
    record: dict[str, Any], release: dict[str, Any] | None, build: dict[str, Any]
) -> tuple[str, str] | None:
    """Return why a set does not fit a release and its build, and what does; None where it fits."""
    releases, majors = record.get("by_release"), record.get("by_cuda")
    first = record.get("first_release")
    if first and release and not same_or_newer(release["version"], first):
        right = f"{record['framework']} {first} or newer"
        return f"it does not work with {release['framework']} {release['version']}", f"Request {right}"
    if releases and (release is None or release["version"] not in releases):
        label = f"{record['framework']} {release['version'] if release else ''}".strip()
        return f"it has no wheels for {label}", f"Request {record['framework']} {', '.join(releases)}"
    if majors and _major(build) not in majors:
        right = " or ".join("no CUDA (index: cpu)" if one == framework_builds.CPU else f"CUDA {one}" for one in majors)
        built_for = f"CUDA {build['cuda']}" if build["cuda"] else "a build without CUDA"
        return f"it has no wheels for {built_for}", f"Request a build for {right}"
    return None


def packages_of_set(record: dict[str, Any], release: dict[str, Any] | None, build: dict[str, Any]) -> list[str]:
    """Return the requirements of a set that fits a release and its build."""
    by_release = record.get("by_release", {}).get(release["version"], ()) if release else ()
    return [*record.get("packages", ()), *by_release, *record.get("by_cuda", {}).get(_major(build), ())]


def pythons_of_set(record: dict[str, Any], build: dict[str, Any]) -> dict[str, Any] | None:
    """Return the Pythons from min to max that a set has wheels for, None for all that the frameworks have."""
    limits: dict[str, Any] = record.get("python", {})
    return limits.get(_major(build))


def _pythons(sets: Sequence[dict[str, Any]], build: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the limits of those sets that have some, by their names."""
    limits = {record["name"]: pythons_of_set(record, build) for record in sets}
    return {name: limit for name, limit in limits.items() if limit}


def _major(build: dict[str, Any]) -> str:
    return build["cuda"].partition(".")[0] if build["cuda"] else framework_builds.CPU


def _workers(case: Case) -> dict[str, str]:
    """Return how many processes shall load data for one GPU: what was measured, else its share of the CPU cores."""
    measured = case.facts["data_loading"]
    if measured:
        return {"GPULAB_NUM_WORKERS": str(measured["workers"])}
    cores, gpus = case.facts["system"].get("cpu_cores"), len(case.facts["pci"]["gpus"])
    return {"GPULAB_NUM_WORKERS": str(max(1, cores // max(1, gpus)))} if cores else {}


def requirements(release: dict[str, Any] | None, build: dict[str, Any], further: Sequence[str]) -> list[str]:
    """Return what an environment is made of: the release's own requirement, then further ones.

    A torchaudio without a version becomes the one that fits the release.
    """
    if release is None:
        return list(further)
    names = {"pytorch": "torch", "tensorflow": "tensorflow[and-cuda]", "jax": f"jax[{build['index']}]"}
    if build["cuda"] is None:
        names = {"pytorch": "torch", "tensorflow": "tensorflow", "jax": "jax"}
    fitting = {"torchaudio": f"torchaudio=={release['torchaudio']}"} if "torchaudio" in release else {}
    own = f"{names[release['framework']]}=={release['version']}"
    return [own, *(fitting.get(one.strip(), one) for one in further)]


def _release(case: Case, name: str, framework: str, requested: str) -> dict[str, Any]:
    """Return the newest release that a version names: 2.9 is 2.9.1."""
    releases = case.catalog.frameworks[framework]
    length = len(version_key(requested))
    fitting = [version for version in releases if version_key(version)[:length] == version_key(requested)]
    if not fitting:
        raise newer.no_framework(releases, name, framework, requested)
    return releases[newest(fitting)]


def _build(case: Case, driver: Driver, name: str, release: dict[str, Any] | None, index: str | None) -> dict[str, Any]:
    if index == framework_builds.CPU:
        return {"cuda": None, "index": framework_builds.CPU}
    if release is None:
        if index is not None:
            raise refuse(
                "P034", name=name, release="an environment without a framework", index=index, right=framework_builds.CPU
            )
        return {"cuda": conda.newest_cuda(case, driver), "index": None}
    label = f"{release['framework']} {release['version']}"
    builds = _builds_of(name, label, release, index)
    obstacles = {build["cuda"]: framework_builds.obstacle(case, driver, build, index) for build in builds}
    fitting = [build for build in builds if obstacles[build["cuda"]] is None]
    if not fitting:
        why = "; ".join(f"CUDA {cuda}: {obstacle}" for cuda, obstacle in obstacles.items())
        raise refuse("P035", name=name, release=label, why=why, right=_alternative(case, driver, release["framework"]))
    level = case.catalog.branches[driver["branch"]]["cuda"]
    seen = [build for build in fitting if framework_builds.is_seen(case, build)] or fitting
    in_full = [build for build in seen if same_or_newer(level, build["cuda"])]
    return max(in_full or seen, key=lambda build: version_key(build["cuda"]))


def _builds_of(name: str, label: str, release: dict[str, Any], index: str | None) -> list[dict[str, Any]]:
    """Return the builds of a release in an index, None for any. Raises Refusal P034 where there are none."""
    builds = [build for build in release["builds"] if index in (None, *framework_builds.indexes(build))]
    if not builds:
        right = ", ".join(one for build in release["builds"] for one in framework_builds.indexes(build)) or "none"
        raise refuse("P034", name=name, release=label, index=index, right=right)
    return builds


def _alternative(case: Case, driver: Driver, framework: str) -> str:
    """Name the newest release of the framework that runs on this node."""
    for version, release in reversed(case.catalog.frameworks[framework].items()):
        for build in reversed(release["builds"]):
            if framework_builds.obstacle(case, driver, build) is None:
                return f"{framework} {version} built for CUDA {build['cuda']}"
    return "another driver branch or framework"


def _python(
    case: Case, name: str, release: dict[str, Any] | None, sets: dict[str, dict[str, Any]], requested: str | None
) -> str:
    """Return the requested Python, or the one nearest to the system's that the release and all sets have wheels for."""
    limits: list[tuple[str | None, dict[str, Any]]] = [(None, release["python"])] if release else []
    limits += sets.items()
    own = case.platform["python"]
    if requested is None:
        lowest = max((limit["min"] for _name, limit in limits), key=version_key, default=own)
        highest = min((limit["max"] for _name, limit in limits if limit["max"]), key=version_key, default=None)
        wanted = own if same_or_newer(own, lowest) else lowest
        requested = highest if highest and same_or_newer(wanted, highest) else wanted
    for of_set, limit in limits:
        if framework_builds.is_within(requested, limit):
            continue
        right = f"{limit['min']} to {limit['max'] or 'newer'}"
        if of_set is None and release:
            label = f"{release['framework']} {release['version']}"
            raise refuse("P036", name=name, release=label, python=requested, right=right)
        why, way = (
            f"it has no wheels for Python {requested}",
            f"Use Python {right}, or another release of the framework",
        )
        raise refuse("P098", name=name, set=of_set, why=why, way=way)
    return requested
