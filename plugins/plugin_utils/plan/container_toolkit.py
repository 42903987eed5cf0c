# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NVIDIA Container Toolkit, the container engines of the node, and how each of them gives GPUs to containers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, cast

from ansible_collections.gpulab.node.plugins.module_utils.containers import docker_settings
from ansible_collections.gpulab.node.plugins.plugin_utils.core.versions import same_or_newer
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import source
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import (
        ContainerToolkit,
        Docker,
        EngineRepository,
    )

ENGINES = ("docker", "podman", "containerd")
NAMES = {"docker": "Docker", "podman": "Podman", "containerd": "containerd"}
CDI = {"features": {"cdi": True}}
RUNTIME = {"runtimes": {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}}


class _Missing(TypedDict):
    """What brings the engines that are not on the node."""

    engine_packages: list[str]
    engine_repository: EngineRepository | None


def plan(case: Case) -> ContainerToolkit:
    """Return the part for the container toolkit.

    Raises Refusal for a version below the floor, and for an engine that cannot be had or does not read what gpulab
    writes.
    """
    record = case.catalog.container_toolkit
    floor = record["security_floors"][-1]
    version = case.wishes["container_toolkit_version"] or record["newest"]
    nothing: ContainerToolkit = {
        "engines": [],
        "version": None,
        "packages": [],
        "retire_packages": [],
        "packages_change": False,
        "engine_packages": [],
        "engine_repository": None,
        "docker": None,
        "floor": floor["version"],
        "repository": source.repository(case, record["repositories"][case.platform["family"]]),
        "because": [],
    }
    present = case.facts["engines"].get("nvidia_container_toolkit")
    if case.wishes["container_toolkit_state"] == "absent":
        return {
            **nothing,
            "retire_packages": record["packages"],
            "packages_change": present is not None,
            "because": ["The container toolkit is not requested (container_toolkit_state)."],
        }
    if not same_or_newer(version, floor["version"]):
        raise refuse("P030", version=version, floor=floor["version"], cves=", ".join(floor["cves"]))
    requested = case.wishes["container_toolkit_engines"]
    engines = _found(case) if requested is None else _requested(case, requested)
    if not engines:
        return {
            **nothing,
            "because": ["No container engine is requested or installed, so no container toolkit either."],
        }
    versions, missing, why_engines = _engines(case, engines)
    docker, why_docker = _docker(case, versions["docker"]) if "docker" in engines else (None, [])
    case.warnings += _without_cdi(case, versions)
    return {
        **nothing,
        "engines": engines,
        "version": version,
        "packages": [f"{name}={version}-1" for name in record["packages"]],
        "packages_change": present != version,
        **missing,
        "docker": docker,
        "because": [
            f"For {', '.join(engines)}; the floor is {floor['version']} ({', '.join(floor['cves'])}).",
            *why_engines,
            *why_docker,
        ],
    }


def _found(case: Case) -> list[str]:
    """Return the engines on the node; a Docker that does not read what gpulab writes is left alone, and named."""
    foreign = _foreign_docker(case)
    if foreign:
        case.warnings.append(
            f"Docker reads its settings from {foreign} and not from {docker_settings.PATH}{_whose(foreign)}. So gpulab"
            " does not give it the GPUs. Install a Docker of packages in its place."
        )
    return [engine for engine in ENGINES if case.facts["engines"].get(engine) and not (foreign and engine == "docker")]


def _requested(case: Case, engines: list[str]) -> list[str]:
    """Return them. Raises Refusal P127 for a Docker that does not read what gpulab writes."""
    foreign = _foreign_docker(case)
    if foreign and "docker" in engines:
        raise refuse("P127", file=foreign, path=docker_settings.PATH, whose=_whose(foreign))
    return list(engines)


def _foreign_docker(case: Case) -> str | None:
    """Return the settings file of the node's Docker, where it is another one than gpulab writes."""
    docker = case.facts["containers"]["docker"]
    file = docker.get("file", docker_settings.PATH) if docker and case.facts["engines"].get("docker") else None
    return file if file != docker_settings.PATH else None


def _whose(file: str) -> str:
    return ", as Docker of a snap does" if file.startswith("/var/snap/") else ""


def _engines(case: Case, engines: list[str]) -> tuple[dict[str, str | None], _Missing, list[str]]:
    """Return each engine's version, {engine_packages, engine_repository} of those that are missing, and why.

    The version is the one on the node, else the one that will come; None where nobody knows. Raises Refusal P078.
    """
    found = cast("Mapping[str, str | None]", case.facts["engines"])
    versions = {engine: found[engine] for engine in engines}
    missing: _Missing = {"engine_packages": [], "engine_repository": None}
    because = []
    for engine in (engine for engine in engines if not versions[engine]):
        vendor = engine == "docker" and case.wishes["container_toolkit_docker_source"] == "docker"
        origin = _vendor(case) if vendor else _distribution(case, engine)
        if origin is None:
            system = case.platform["name"]
            case.warnings.append(f"{NAMES[engine]} is not installed, and gpulab has no packages of it for {system}.")
            continue
        versions[engine] = origin["version"]
        missing["engine_packages"] += origin["packages"]
        if vendor:
            missing["engine_repository"] = origin["repository"]
        whose = "docker.com's" if vendor else "the distribution's"
        because.append(f"{NAMES[engine]} is not installed; {whose} packages have {origin['version']} or newer.")
    return versions, missing, because


def _docker(case: Case, version: str | None) -> tuple[Docker, list[str]]:
    """Return which keys of daemon.json give GPUs to containers, whether Docker is to be started, and why these keys."""
    start = case.wishes["container_toolkit_docker_source"] == "docker" and case.platform["family"] == "redhat"
    since = case.catalog.container_toolkit["engines"]["docker"]["cdi_since"]
    if version and same_or_newer(version, since):
        why = f"Docker {version} assigns GPUs by CDI: docker run --device nvidia.com/gpu=all."
        return {"required": CDI, "settings": {}, "start": start}, [why]
    known = f"Docker {version} is" if version else "A Docker of unknown version may be"
    why = (
        f"{known} older than {since} and has no CDI; use the runtime nvidia instead (--runtime nvidia, or --gpus all)."
    )
    return {"required": {}, "settings": RUNTIME, "start": start}, [why]


def _without_cdi(case: Case, versions: Mapping[str, str | None]) -> list[str]:
    """Return a warning for each engine that has no other way to GPUs, and whose version has no CDI or has it off."""
    warnings = []
    for engine in ("podman", "containerd"):
        version, record = versions.get(engine), case.catalog.container_toolkit["engines"][engine]
        since, by_default = record["cdi_since"], record["cdi_default_since"]
        if version and not same_or_newer(version, since):
            told = f"has no CDI, so its containers cannot use GPUs; {NAMES[engine]} {since} can"
            warnings.append(f"{NAMES[engine]} {version} {told}.")
        elif version and not same_or_newer(version, by_default) and not _takes_cdi(case):
            told = f"has CDI off. Set enable_cdi = true in /etc/containerd/config.toml, or use {by_default} or newer"
            warnings.append(f"{NAMES[engine]} {version} {told}.")
    return warnings


def _takes_cdi(case: Case) -> bool:
    """Tell whether the settings of the node's containerd have CDI on, or another way to the GPUs."""
    settings = case.facts["containers"]["containerd"]
    return bool(settings and (settings["cdi"] or settings["nvidia_runtime"]))


def _distribution(case: Case, engine: str) -> dict[str, Any] | None:
    """Return {version, packages} of an engine in the distribution; None where the catalog knows none."""
    record: dict[str, Any] | None
    record = case.catalog.container_toolkit["engines"][engine]["distribution"].get(case.platform["id"])
    return record


def _vendor(case: Case) -> dict[str, Any]:
    """Return {version, packages, repository} of docker.com's Docker. Raises Refusal P078 for others in its way."""
    record, platform = case.catalog.container_toolkit["docker_vendor"], case.platform
    rivals = case.facts["engines"]["docker_rivals"]
    if rivals:
        raise refuse("P078", rivals=", ".join(rivals))
    repository = record["repositories"][platform["family"]]
    names = {key: platform[key] for key in ("distribution", "version")}
    return {
        "version": record["version"],
        "packages": record["packages"],
        "repository": {
            "url": repository["url"].format(architecture=case.architecture, **names),
            "suite": platform["codename"],
            "components": ["stable"],
            "key_url": repository["key_url"].format(**names),
            "key_fingerprint": repository["key_fingerprint"],
        },
    }
