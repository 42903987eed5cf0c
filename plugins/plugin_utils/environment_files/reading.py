# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of others as the packages of a virtual environment; all that is in the way is told at once.

A requirements.txt, a pyproject.toml, a uv.lock, a pylock.toml, or an environment.yml without packages of conda.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomllib
import yaml
from ansible_collections.gpulab.node.plugins.module_utils.core.environment_packages import normalized
from ansible_collections.gpulab.node.plugins.plugin_utils.environment_files import (
    locks,
    requirement_lines,
    requirements,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.environment_files.projects import of_project
from ansible_collections.gpulab.node.plugins.plugin_utils.environment_files.pypa import (
    InvalidRequirement,
    InvalidSpecifier,
    Requirement,
    SpecifierSet,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.environment_files.requirement_lines import Fault
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

PYTORCH = re.compile(r"^https?://download(?:-r2)?\.pytorch\.org/whl(?:/(cu\d+|cpu))?(?:/torch_stable\.html)?/?$")
_LOCAL = re.compile(r"(==[^+\s;]+)\+(cu\d+|cpu)\b")
_INDEX = re.compile(r"^(?:--extra-index-url|--index-url|-i|--find-links|-f)[\s=]*(\S+)$")
OF_CONDA_ITSELF = ("python", "pip", "setuptools", "wheel", "uv")


@dataclass
class Contents:
    """What files ask for.

    requirements, constraints and overrides are as uv takes them; build is that of PyTorch, such as cu118, whose index
    they name; python is a specifier; locked, where it is a lock, is its content.
    """

    requirements: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)
    build: str | None = None
    python: str = ""
    prereleases: bool = False
    locked: dict[str, Any] | list[str] | None = None
    faults: list[tuple[str, Fault]] = field(default_factory=list)
    replaced: set[str] = field(default_factory=set)


def read(wish: Mapping[str, Any]) -> Contents:
    """Return what the file of an environment asks for. Raises Refusal E018 with all that is in the way."""
    try:
        path = Path(wish["file"]).expanduser()  # a RuntimeError where ~name is nobody's
        contents = _of_kind(wish, path)
    except (OSError, RuntimeError, tomllib.TOMLDecodeError, yaml.YAMLError, ValueError) as error:
        raise _unusable(wish, " ".join(str(error).split())) from error
    replace = wish.get("replace") or {}
    if contents.locked is None or isinstance(contents.locked, list):
        _settle(contents, replace)
    _check_python(contents, wish)
    if contents.faults:
        raise requirement_lines.refusal(wish["name"], str(path), contents.faults)
    if contents.locked is None and set(replace) - contents.replaced:
        missing = ", ".join(sorted(set(replace) - contents.replaced))
        raise _unusable(wish, f"replace names {missing}, but the file has no such line")
    return contents


def lock(wish: Mapping[str, Any], contents: Contents, python: str, architecture: str) -> str | None:
    """Return the lock that files are, for a Python and a machine; None where they are none. Raises Refusal E018."""
    if contents.locked is None:
        return None
    made = _locked(wish, contents, python, architecture)
    if made.faults:
        raise requirement_lines.refusal(wish["name"], str(wish["file"]), made.faults)
    contents.build = contents.build or next(iter(sorted(made.builds)), None)
    return made.text()


def without_wheel(wish: Mapping[str, Any], contents: Contents, python: str, architecture: str) -> int:
    """Return how many packages of a lock have no wheel for a Python and a machine."""
    return len(_locked(wish, contents, python, architecture).sources)


def _locked(wish: Mapping[str, Any], contents: Contents, python: str, architecture: str) -> locks.Lock:
    given = locks.environment(python, architecture)
    made = locks.Lock(wish.get("replace") or {}, given)
    if isinstance(contents.locked, list):
        locks.of_lines(contents.locked, given, made)
    elif contents.locked and "lock-version" in contents.locked:
        locks.of_pylock(contents.locked, given, made)
    else:
        locks.of_uv(contents.locked or {}, given, wish.get("extras") or (), wish.get("groups") or (), made)
    return made


def _unusable(wish: Mapping[str, Any], detail: str, advice: str = "Correct it.") -> Refusal:
    return refuse("E018", name=wish["name"], file=str(wish["file"]), detail=detail, advice=advice)


def _of_kind(wish: Mapping[str, Any], path: Path) -> Contents:
    extras, groups = wish.get("extras") or (), wish.get("groups") or ()
    if path.suffix in (".yml", ".yaml"):
        return _of_conda(wish, path)
    if path.suffix == ".toml" or path.name == "uv.lock":
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        if path.name == "uv.lock" or "lock-version" in content:
            return _of_lock(content, wish)
        found = of_project(content, path, extras, groups)
        return Contents(
            requirements=found.lines,
            constraints=found.constraints,
            overrides=found.overrides,
            build=found.build,
            python=found.python,
            prereleases=found.prereleases,
            faults=found.faults,
        )
    found_lines = requirements.read(path, wish.get("replace") or {})
    names = [line for line in found_lines.lines if not line.startswith("-")]
    if names and all(" --hash=" in line for line in names):
        contents = Contents(locked=names, requirements=found_lines.lines, faults=found_lines.faults)
    else:
        contents = Contents(found_lines.lines, found_lines.constraints, faults=found_lines.faults)
    contents.replaced = found_lines.replaced
    return contents


def _of_lock(content: dict[str, Any], wish: Mapping[str, Any]) -> Contents:
    contents = Contents(locked=content, python=content.get("requires-python", ""))
    choices = [
        sorted(one.get("extra") or one.get("group") for one in conflict) for conflict in content.get("conflicts", ())
    ]
    chosen = {*(wish.get("extras") or ()), *(wish.get("groups") or ())}
    for names in choices:
        if len(chosen & set(names)) > 1:
            raise _unusable(wish, f"{' and '.join(names)} exclude each other", "Name one of them.")
        if not chosen & set(names):
            with_gpus = [one for one in names if "cpu" not in one] or names
            advice = f"Set extras: [{with_gpus[0]}] in the environment, or another of these."
            raise _unusable(wish, f"one of its extras {', '.join(names)} has to be chosen", advice)
    return contents


def _of_conda(wish: Mapping[str, Any], path: Path) -> Contents:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    dependencies = content.get("dependencies") if isinstance(content, dict) else None
    if not isinstance(dependencies, list):
        raise _unusable(wish, "it has no list of dependencies")
    plain = [one for one in dependencies if isinstance(one, str)]
    by_pip = [one for found in dependencies if isinstance(found, dict) for one in found.get("pip") or ()]
    other_system = requirements.for_another(plain, str(content.get("prefix", "")))
    if other_system:
        raise refuse("E070", name=wish["name"], file=str(path), system=other_system[0], detail=other_system[1])
    others = [one for one in plain if re.split(r"[ =<>!~]", one, maxsplit=1)[0] not in OF_CONDA_ITSELF]
    if others:
        advice = "Name the file in conda_environments, which installs packages of conda."
        raise _unusable(wish, f"it has packages of conda: {', '.join(others[:3])}", advice)
    version = next((re.search(r"=+\s*(\d+\.\d+)", one) for one in plain if one.startswith("python")), None)
    found = requirements.included([one.strip() for one in by_pip], path, wish.get("replace") or {})
    python = f"=={version[1]}.*" if version else ""
    return Contents(found.lines, found.constraints, python=python, faults=found.faults, replaced=found.replaced)


def _settle(contents: Contents, replace: Mapping[str, str | None]) -> None:
    """Replace lines, take indexes and options out of them, and note what is wrong with the others."""
    contents.replaced |= set(replace) & {line for line, _fault in contents.faults}
    contents.faults = [one for one in contents.faults if one[0] not in replace]
    for kind in ("requirements", "constraints", "overrides"):
        kept = []
        for line in getattr(contents, kind):
            given = None if line in replace else _without_options(contents, line)
            key = requirement_lines.as_archive(given) if given else line  # uv names it so where it is in the way
            contents.replaced |= {key} & set(replace)
            text = _without_options(contents, replace[key]) if key in replace else given
            fault = _fault(text) if text else None
            if fault:
                contents.faults.append((line, fault))
            elif text:
                kept.append(requirement_lines.as_archive(text))
        setattr(contents, kind, kept)


def _without_options(contents: Contents, line: str | None) -> str | None:
    """Return a line for uv; None where it says only how to look for others."""
    if not line or requirement_lines.HARMLESS.match(line):
        return None
    if line == requirement_lines.PRE:
        contents.prereleases = True
        return None
    index = _INDEX.match(line)
    pytorch = PYTORCH.match(index[1]) if index else None
    if pytorch or (index and re.match(r"https?://pypi\.org/simple/?$", index[1])):
        contents.build = contents.build or (pytorch[1] if pytorch else None)
        return None
    local = _LOCAL.search(line) if re.match(r"torch\w*\b", line) else None
    if local:
        contents.build = contents.build or local[2]
        return _LOCAL.sub(r"\1", line)
    return line


def _fault(line: str) -> Fault | None:
    found = requirement_lines.fault(line, sources=False, in_file=True)
    if found:
        return found
    try:
        Requirement(re.sub(r"\s--hash=\S+", "", line))
    except InvalidRequirement as error:
        return Fault(f"is not as pip takes it ({str(error).splitlines()[0]})", "Correct it")
    return None


def _check_python(contents: Contents, wish: Mapping[str, Any]) -> None:
    try:
        SpecifierSet(contents.python)
    except InvalidSpecifier as error:
        raise _unusable(wish, str(error)) from error


def named(contents: Contents, package: str) -> Requirement | None:
    """Return the line that asks for a package, if there is one and its marker does not exclude Linux."""
    for line in contents.requirements:
        try:
            found = Requirement(line)
        except InvalidRequirement:
            continue
        if normalized(found.name) == package:
            return found
    return None
