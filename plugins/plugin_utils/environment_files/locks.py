# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Locks of other tools as gpulab's own: lines with hashes, for one Python and one machine.

A uv.lock has the form that uv calls version 1 (https://docs.astral.sh/uv/concepts/projects/layout/), a pylock.toml that
of https://packaging.python.org/en/latest/specifications/pylock-toml/.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from ansible_collections.gpulab.node.plugins.module_utils.core.environment_packages import normalized
from ansible_collections.gpulab.node.plugins.module_utils.environments.uv_words import built_line
from ansible_collections.gpulab.node.plugins.plugin_utils.environment_files.pypa import (
    InvalidRequirement,
    InvalidWheelFilename,
    Marker,
    Requirement,
    parse_wheel_filename,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.environment_files.requirement_lines import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BUILD = re.compile(r"^https?://download(?:-r2)?\.pytorch\.org/whl/(cu\d+|cpu)/?$")
NO_HASH = "is taken from git or from a directory, of which a lock has no hash"
Packages = list[dict[str, Any]]


def environment(python: str, architecture: str) -> dict[str, str]:
    """Return what markers are judged by: Linux, CPython, the first patch release of a Python."""
    return {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_version": f"{python}.0",
        "platform_machine": architecture,
        "sys_platform": "linux",
        "os_name": "posix",
        "platform_system": "Linux",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_version": "",
        "extra": "",
    }


def holds(marker: str | None, given: Mapping[str, str], extra: str = "") -> bool:
    """Tell whether a marker holds."""
    return not marker or Marker(marker).evaluate({**given, "extra": extra})


class Lock:
    """A lock that is being written, and what is wrong with it."""

    def __init__(self, replace: Mapping[str, str | None], given: Mapping[str, str]) -> None:
        """Take what markers are judged by, and lines by the names of packages that they replace, None for none."""
        self.given = given
        self.replace = {normalized(name): line for name, line in replace.items()}
        self.lines: dict[str, str] = {}
        self.sources: list[str] = []
        self.faults: list[tuple[str, Fault]] = []
        self.builds: set[str] = set()  # of PyTorch, such as cu128, from whose index something comes

    def note_index(self, address: object) -> None:
        """Remember the build that an index of PyTorch is for."""
        match = BUILD.match(str(address or ""))
        if match:
            self.builds.add(match[1])

    def add(self, package: Mapping[str, Any]) -> None:
        """Add a package of a lock by the files of it that fit: the wheels for this machine, or the source code."""
        name, version = normalized(package["name"]), package.get("version")
        sdist = package.get("sdist")
        wheels = [one for one in package.get("wheels", ()) if self._fits(one)]
        files = wheels or ([sdist] if sdist else [])
        digests = [digest for digest in map(_sha256, files) if digest]
        if not digests or not version:
            why = NO_HASH if not files else "has no SHA-256 in the lock"
            self.faults.append((name, Fault(why, "Leave it out, or name a wheel of it with --hash=sha256:")))
            return
        hashes = " ".join(f"--hash=sha256:{digest}" for digest in sorted(set(digests)))
        self.lines[name] = f"{name}=={version} {hashes}"
        if not wheels:
            self.sources.append(name)

    def _fits(self, wheel: Mapping[str, Any]) -> bool:
        """Tell whether a wheel is for the machine and its Python."""
        file = wheel.get("name") or wheel.get("url") or wheel.get("path") or wheel.get("filename") or ""
        try:
            tags = parse_wheel_filename(unquote(urlsplit(file).path.rpartition("/")[2]))[3]
        except InvalidWheelFilename:
            return False
        machine, python = self.given["platform_machine"], self.given["python_version"].replace(".", "")
        return any(
            (one.platform == "any" or re.fullmatch(rf"(?:many)?linux\w*_{machine}", one.platform))
            and (one.interpreter in (f"cp{python}", f"py{python}", "py3") or one.abi == "abi3")
            for one in tags
        )

    def replaced(self, name: str) -> bool:
        """Tell whether a package is replaced, and take what replaces it."""
        if name not in self.replace:
            return False
        line = self.replace[name]
        if line:
            self.lines[name] = line
        return True

    def text(self) -> str:
        """Return the lock as gpulab has it."""
        sources = [built_line(name, ()) for name in sorted(self.sources)]
        return "".join(f"{line}\n" for line in [*sources, *(self.lines[name] for name in sorted(self.lines))])


def _sha256(file: Mapping[str, Any]) -> str | None:
    digests = file.get("hashes")
    if isinstance(digests, dict):
        return digests.get("sha256")
    digest = str(file.get("hash", ""))
    return digest[len("sha256:") :] if digest.startswith("sha256:") else None


def of_pylock(content: Mapping[str, Any], given: Mapping[str, str], lock: Lock) -> None:
    """Add the packages of a pylock.toml that a Python and a machine take."""
    for package in content.get("packages", ()):
        if not holds(package.get("marker"), given):
            continue
        name = normalized(package["name"])
        if lock.replaced(name):
            continue
        archive = package.get("archive")
        lock.note_index(package.get("index"))
        if archive and archive.get("url") and _sha256(archive):
            lock.lines[name] = f"{name} @ {archive['url']} --hash=sha256:{_sha256(archive)}"
            if not archive["url"].endswith(".whl"):
                lock.sources.append(name)
            continue
        lock.add(package)


def of_uv(
    content: Mapping[str, Any], given: Mapping[str, str], extras: Sequence[str], groups: Sequence[str], lock: Lock
) -> None:
    """Add the packages of a uv.lock that its project needs, with extras and dependency groups, on a machine.

    The project itself and what it has beside it are not packages of the environment.
    """
    packages: Packages = list(content.get("package", ()))
    by_name: dict[str, Packages] = {}
    for package in packages:
        by_name.setdefault(package["name"], []).append(package)
    root = next((one for one in packages if _of_source(one) in ((".", "editable"), (".", "virtual"))), None)
    if root is None:
        roots = content.get("manifest", {}).get("requirements", ())
        todo = [(one, "") for one in roots]
    else:
        todo = [(one, "") for one in root.get("dependencies", ())]
        for extra in extras:
            active = f"extra-{len(root['name'])}-{root['name']}-{extra}"
            todo += [(one, active) for one in root.get("optional-dependencies", {}).get(extra, ())]
        for group in groups:
            active = f"group-{len(root['name'])}-{root['name']}-{group}"
            todo += [(one, active) for one in root.get("dev-dependencies", {}).get(group, ())]
    chosen = extras[0] if extras and root else None
    active = f"extra-{len(root['name'])}-{root['name']}-{chosen}" if root and chosen else ""
    _walk(todo, by_name, {**given}, active, lock)


def _walk(
    todo: list[tuple[dict[str, Any], str]],
    by_name: Mapping[str, Packages],
    given: Mapping[str, str],
    active: str,
    lock: Lock,
) -> None:
    seen: set[tuple[str, str, str]] = set()
    while todo:
        dependency, extra = todo.pop()
        if not holds(dependency.get("marker"), given, extra or active):
            continue
        package = _chosen(by_name.get(dependency["name"], []), dependency, given, active)
        if package is None:
            lock.faults.append(
                (dependency["name"], Fault("is not in the lock for this Python and machine", "Lock again"))
            )
            continue
        name, key = package["name"], (package["name"], package.get("version", ""), "")
        if key not in seen:
            seen.add(key)
            if lock.replaced(name):
                continue
            if _of_source(package)[1] in ("editable", "virtual", "directory"):
                lock.faults.append(
                    (name, Fault("is a directory beside the lock, which is not on the node", "Leave it out"))
                )
            else:
                lock.note_index(_of_source(package)[0])
                lock.add(package)
            todo += [(one, "") for one in package.get("dependencies", ())]
        for wanted in dependency.get("extra", ()):
            if (name, package.get("version", ""), wanted) not in seen:
                seen.add((name, package.get("version", ""), wanted))
                todo += [(one, "") for one in package.get("optional-dependencies", {}).get(wanted, ())]


def _chosen(
    known: Packages, dependency: Mapping[str, Any], given: Mapping[str, str], active: str
) -> dict[str, Any] | None:
    """Return the package that a dependency means: of several, the one that it names, and that is for this machine."""
    fitting = [one for one in known if dependency.get("version") in (None, one.get("version"))]
    if "source" in dependency:
        fitting = [one for one in fitting if one.get("source") == dependency["source"]]
    for one in fitting:
        markers = one.get("resolution-markers")
        if not markers or any(holds(marker, given, active) for marker in markers):
            return one
    return None


def _of_source(package: Mapping[str, Any]) -> tuple[str, str]:
    """Return where a package is from, as path or address and kind."""
    kind, place = next(iter(package.get("source", {}).items()), ("", ""))
    return str(place), str(kind)


def of_lines(found: Sequence[str], given: Mapping[str, str], lock: Lock) -> None:
    """Add lines with hashes, as pip-compile, Poetry and uv export write them."""
    for line in found:
        text, *hashes = line.split(" --hash=")
        try:
            one = Requirement(text.strip())
        except InvalidRequirement:
            continue  # lines tells it
        name = normalized(one.name)
        if (one.marker and not one.marker.evaluate({**given})) or lock.replaced(name):
            continue
        pin = next((spec.version for spec in one.specifier if spec.operator == "=="), None)
        where = f"{name} @ {one.url}" if one.url else f"{name}=={pin}"
        lock.lines[name] = f"{where} {' '.join(f'--hash={digest.strip()}' for digest in hashes)}"
