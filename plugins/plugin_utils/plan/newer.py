# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions that are newer than the catalog: which ones gpulab may treat like their predecessors, and which it refuses.

A driver branch, a minor release of a known CUDA major, a library release of a known major and a patch release of a
framework are compatible with what the catalog knows. With gpulab_trust_newer they join the catalog as copies of their
predecessors, so the rest of the plan sees ordinary records. Everything else that is unknown stays unknown.
"""

from __future__ import annotations

import copy
import re
from datetime import date
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.plugin_utils.core.versions import (
    branch_of,
    newest,
    same_or_newer,
    version_key,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
    from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog, Record
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Facts

TRUST = "gpulab_trust_newer"
DATED, MOST_DAYS = ("driver_branches", "cuda_toolkits"), 90
LIBRARIES = {"cudnn": "cuDNN", "nccl": "NCCL", "tensorrt": "TensorRT"}
FRAMEWORKS = {"pytorch": "PyTorch", "tensorflow": "TensorFlow", "jax": "JAX"}
_OF_A_DRIVER = re.compile(r"(?:\d+:)?(\d{3}(?:\.\d+)+)")


def on_node(facts: Facts) -> str | None:
    """Return the version of the driver that the node has, None without one."""
    driver = facts["driver"]
    found = [match.group(1) for package in driver["packages"] if (match := _OF_A_DRIVER.match(package["version"]))]
    version = driver["module_on_disk"] or driver["library"] or driver["runfile"]
    return version or (newest(found) if found else None)


def extended(catalog: Catalog, wishes: Mapping[str, Any], present: str | None = None) -> tuple[Catalog, list[str]]:
    """Return the catalog with the newer versions that are trusted, and a warning for each.

    present is the version of the driver on the node. A branch of which the catalog knows no release gets the release
    that is requested or installed, with or without gpulab_trust_newer.
    """
    known = copy.copy(catalog)
    warnings: list[str] = []
    for version in (wishes.get("nvidia_driver_version"), wishes.get("nvidia_driver_branch"), present):
        if version:
            warnings += _with_branch(known, version, trusted=bool(wishes.get(TRUST)))
    if wishes.get(TRUST):
        warnings += _with_toolkits(known, wishes)
        warnings += _with_libraries(known, wishes)
        warnings += _with_frameworks(known, wishes)
    return known, list(dict.fromkeys(warnings))


def aged(catalog: Catalog, today: date) -> list[str]:
    """Return what is to be said of data about drivers and CUDA that are old: nothing of younger ones."""
    dates = {name: date.fromisoformat(catalog.read(name)["as_of"]) for name in DATED}
    name = min(dates, key=lambda one: dates[one])
    if (today - dates[name]).days <= MOST_DAYS:
        return []
    told = (
        f"gpulab's data ({name}.yml) are of {dates[name]}, older than {MOST_DAYS} days: it may not know newer drivers"
    )
    return [f"{told}, CUDA and security fixes. Update gpulab."]


def with_sources(platform: Record, branches: Iterable[str]) -> Record:
    """Return a platform whose sources carry these branches, too, where they are newer than all that they have.

    A source that has one release of a branch only, as Debian, is left as it is.
    """
    sources = {}
    for name, source in platform["driver_sources"].items():
        last = source["package_sets"][-1]
        added = [] if "newest" in last else [one for one in branches if is_newer(one, source["branches"])]
        sets = [*source["package_sets"], {**last, "branches": added}] if added else source["package_sets"]
        sources[name] = {**source, "branches": [*source["branches"], *added], "package_sets": sets}
    return {**platform, "driver_sources": sources}


def is_newer(version: str, known: Any) -> bool:
    """Tell whether a version is newer than all that are known."""
    return version_key(version) > max(map(version_key, known))


def within(version: str, release: Record) -> bool:
    """Tell whether a version lies in the range of a release; a build number (9.10.2.21) does not take it out."""
    last = version_key(release["to"])
    return same_or_newer(version, release["from"]) and version_key(version)[: len(last)] <= last


def branch_record(catalog: Catalog, branch: str) -> Record:
    """Return what the catalog has of a branch. Raises Refusal P007 or P090 where that is nothing."""
    if branch in catalog.branches:
        return catalog.branches[branch]
    fixed = ", ".join(name for name, record in catalog.branches.items() if not record["ended"])
    if is_newer(branch, catalog.branches):
        lasting = [name for name, record in catalog.branches.items() if record["latest"] and record["eol"]]
        other = [name for name in lasting if not catalog.branches[name]["ended"]][-1]
        raise refuse("P090", branch=branch, newest=list(catalog.branches)[-1], other=other)
    raise refuse("P007", branch=branch, known=fixed)


def toolkit_record(catalog: Catalog, version: str) -> Record:
    """Return what the catalog has of a CUDA toolkit. Raises Refusal P022 or P091 where that is nothing."""
    if version in catalog.toolkits:
        return catalog.toolkits[version]
    last = _last_of_major(version, catalog.toolkits)
    known = ", ".join(catalog.toolkits)
    if last and is_newer(version, [last]):
        raise refuse("P091", what="CUDA", version=version, newest=last, way=f"use one of: {known}")
    raise refuse("P022", version=version, known=known)


def no_library(record: Record, library: str, version: str) -> Refusal:
    """Return the refusal of a library's release that the catalog does not have."""
    first, last = record["releases"][0]["from"], record["releases"][-1]["to"]
    if _same_major(version, last) and is_newer(version, [last]):
        return refuse("P091", what=LIBRARIES[library], version=version, newest=last, way=f"use {last} or older")
    return refuse("P028", library=library, version=version, first=first, last=last)


def no_framework(releases: Record, name: str, framework: str, version: str) -> Refusal:
    """Return the refusal of a framework's release that the catalog does not have."""
    last = _last_patch(version, releases)
    if last:
        way = f"use {last}"
        return refuse("P091", what=f"{FRAMEWORKS[framework]} of {name}", version=version, newest=last, way=way)
    return refuse("P033", name=name, framework=framework, version=version, known=", ".join(releases))


def _with_branch(catalog: Catalog, version: str, *, trusted: bool) -> Iterator[str]:
    """Add the branch of a version, or the release of a branch that has none in the catalog."""
    branch = branch_of(version)
    release = version if version != branch else None
    record = catalog.branches.get(branch)
    if record is None:
        if not trusted or not is_newer(branch, catalog.branches):
            return
        last = list(catalog.branches.values())[-1]
        yield f"Driver branch {branch} is newer than the catalog; gpulab treats it like {last['branch']} ({TRUST})."
        record = {**last, "branch": branch, "type": "newer", "latest": None, "eol": None}
    if record["latest"] is None and release:
        yield f"The catalog has no release of driver branch {branch}, so {release} has no security floor."
        record = {**record, "latest": release}
    _override(catalog, "branches", {**catalog.branches, branch: record})


def _with_toolkits(catalog: Catalog, wishes: Mapping[str, Any]) -> Iterator[str]:
    for version in wishes.get("cuda_toolkits") or ():
        last = _last_of_major(version, catalog.toolkits)
        if last is None or not is_newer(version, [last]):
            continue
        yield f"CUDA {version} is newer than the catalog; gpulab treats it like {last} ({TRUST})."
        record = {**catalog.toolkits[last], "cuda": version, "paired_driver": None, "compat_branches": None}
        toolkits = {**catalog.toolkits, version: record}
        _override(catalog, "toolkits", {name: toolkits[name] for name in sorted(toolkits, key=version_key)})


def _with_libraries(catalog: Catalog, wishes: Mapping[str, Any]) -> Iterator[str]:
    for library, label in LIBRARIES.items():
        version, record = wishes.get(f"{library}_version"), catalog.libraries[library]
        last = record["releases"][-1]
        if not version or not _same_major(version, last["to"]) or within(version, last):
            continue
        if is_newer(version, [last["to"]]):
            yield f"{label} {version} is newer than the catalog; gpulab treats it like {last['to']} ({TRUST})."
            added = {**record, "releases": [*record["releases"], {**last, "from": version, "to": version}]}
            _override(catalog, "libraries", {**catalog.libraries, library: added})


def _with_frameworks(catalog: Catalog, wishes: Mapping[str, Any]) -> Iterator[str]:
    for environment in wishes.get("gpulab_environments") or ():
        for framework, label in FRAMEWORKS.items():
            version = environment.get(framework)
            last = _last_patch(version, catalog.frameworks[framework]) if version else None
            if last:
                yield f"{label} {version} is newer than the catalog; gpulab treats it like {last} ({TRUST})."
                releases = {**catalog.frameworks[framework]}
                releases[version] = {**releases[last], "version": version}
                ordered = {name: releases[name] for name in sorted(releases, key=version_key)}
                _override(catalog, "frameworks", {**catalog.frameworks, framework: ordered})


def _override(catalog: Catalog, name: str, value: Any) -> None:
    vars(catalog)[name] = value  # in place of the cached property


def _last_of_major(version: str, known: Any) -> str | None:
    return _last([one for one in known if _same_major(version, one)])


def _last_patch(version: str, known: Any) -> str | None:
    """Return the newest release with the same major and minor, where the version is newer than that."""
    minor = version_key(version)[:2]
    last = _last([one for one in known if version_key(one)[:2] == minor and len(version_key(version)) > len(minor)])
    return last if last and is_newer(version, [last]) else None


def _last(versions: list[str]) -> str | None:
    return newest(versions) if versions else None


def _same_major(one: str, other: str) -> bool:
    return version_key(one)[:1] == version_key(other)[:1]
