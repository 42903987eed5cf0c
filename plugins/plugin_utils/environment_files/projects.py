# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dependencies of a pyproject.toml: its project's, extras and dependency groups, and where uv gets them from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.environment_packages import normalized
from ansible_collections.gpulab.node.plugins.plugin_utils.environment_files import requirements
from ansible_collections.gpulab.node.plugins.plugin_utils.environment_files.locks import BUILD, environment, holds
from ansible_collections.gpulab.node.plugins.plugin_utils.environment_files.pypa import (
    InvalidRequirement,
    Requirement,
    resolve_dependency_groups,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.environment_files.requirement_lines import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


LINUX = environment("3.12", "x86_64")  # sources differ by system, hardly by Python


@dataclass
class Project(requirements.FileLines):
    """What a pyproject.toml says beside its lines."""

    overrides: list[str] = field(default_factory=list)
    build: str | None = None
    python: str = ""
    prereleases: bool = False


def of_project(content: Mapping[str, Any], path: Path, extras: Sequence[str], groups: Sequence[str]) -> Project:
    """Return what a pyproject.toml asks for. Raises ValueError where it has no form that is known."""
    project, tools = content.get("project"), content.get("tool", {})
    if project is None:
        poetry = "poetry" in tools
        way = "poetry export writes a requirements.txt of it" if poetry else "name its requirements.txt instead"
        message = f"it has no section [project]; {way}"
        raise ValueError(message)
    found = Project()
    found.python = project.get("requires-python", "")
    dynamic = tools.get("setuptools", {}).get("dynamic", {})
    texts = [*project.get("dependencies", ()), *_of_files(dynamic.get("dependencies"), path, project, found)]
    optional = {normalized(name): given for name, given in project.get("optional-dependencies", {}).items()}
    texts += _of_extras(project, optional, extras)
    if groups and resolve_dependency_groups is None:
        message = "dependency groups need the Python package packaging 26 or newer on the controller"
        raise ValueError(message)
    texts += resolve_dependency_groups(content.get("dependency-groups", {}), *groups) if groups else []
    uv = tools.get("uv", {})
    found.constraints += uv.get("constraint-dependencies", ())
    found.overrides += uv.get("override-dependencies", ())
    found.prereleases = uv.get("prerelease") == "allow"
    sources = {normalized(name): given for name, given in uv.get("sources", {}).items()}
    indexes = {one.get("name"): one.get("url", "") for one in uv.get("index", ())}
    for text in texts:
        found.lines.append(_from_source(text, sources, indexes, extras, found))
    return found


def _of_files(given: Any, path: Path, project: Mapping[str, Any], found: Project) -> list[str]:
    """Return the dependencies that setuptools reads from files."""
    if "dependencies" not in project.get("dynamic", ()):
        return []
    if not isinstance(given, dict) or "file" not in given:
        found.faults.append(
            ("dynamic = [dependencies]", Fault("is computed when the project is built", "Name its requirements.txt"))
        )
        return []
    names = given["file"] if isinstance(given["file"], list) else [given["file"]]
    inner = requirements.included([f"-r {name}" for name in names], path)
    found.constraints += inner.constraints
    found.faults += inner.faults
    return inner.lines


def _of_extras(project: Mapping[str, Any], optional: Mapping[str, list[str]], extras: Sequence[str]) -> list[str]:
    """Return the lines of extras, and of those that they name. Raises ValueError for one that there is not."""
    own, seen, todo = normalized(project.get("name", "")), [], [normalized(one) for one in extras]
    texts: list[str] = []
    while todo:
        extra = todo.pop()
        if extra in seen:
            continue
        if extra not in optional:
            message = f"it has no extra {extra}, only {', '.join(sorted(optional)) or 'none'}"
            raise ValueError(message)
        seen.append(extra)
        for text in optional[extra]:
            try:
                one = Requirement(text)
            except InvalidRequirement:
                texts.append(text)
                continue
            if normalized(one.name) == own:
                todo += [normalized(name) for name in one.extras]
            else:
                texts.append(text)
    return texts


def _from_source(
    text: str, sources: Mapping[str, Any], indexes: Mapping[str, str], extras: Sequence[str], found: Project
) -> str:
    """Return a dependency with the place that uv gets it from, noting the build of PyTorch's index."""
    match = re.match(r"[A-Za-z0-9][\w.-]*", text)
    given = sources.get(normalized(match[0])) if match else None
    places = given if isinstance(given, list) else [given] if given else []
    place = next((one for one in places if _is_for(one, extras)), None)
    if not match or not place:
        return text
    if "index" in place:
        build = BUILD.match(indexes.get(place["index"], ""))
        if build:
            found.build = found.build or build[1]
        else:
            address = indexes.get(place["index"], place["index"])
            advice = "Leave it out, or put a wheel of it on your own index"
            found.faults.append((text, Fault(f"comes from another index, {address}", advice)))
        return text
    if "git" in place:
        commit = place.get("rev") or place.get("tag") or place.get("branch")
        return f"{match[0]} @ git+{place['git']}{f'@{commit}' if commit else ''}"
    if "url" in place:
        return f"{match[0]} @ {place['url']}"
    found.faults.append((text, Fault("is a directory of the project, which is not on the node", "Leave it out")))
    return text


def _is_for(place: Mapping[str, Any], extras: Sequence[str]) -> bool:
    """Tell whether a source is for Linux and for the extras that are asked for."""
    if place.get("extra") and place["extra"] not in extras:
        return False
    return holds(place.get("marker"), LINUX)
