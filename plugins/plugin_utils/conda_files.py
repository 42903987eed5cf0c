# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wished conda environments as the node takes them: their files are read here, on the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from ansible_collections.gpulab.node.plugins.module_utils import conda, jupyter
from ansible_collections.gpulab.node.plugins.module_utils.refusal import refuse

ANACONDAS = ("defaults", "main", "pkgs/main", "r", "pkgs/r", "anaconda", "msys2")
PLATFORMS = {"x86_64": "linux-64", "aarch64": "linux-aarch64"}


def resolve(wish: dict[str, Any], channels: list[str], architecture: str, alias: str | None = None) -> dict[str, Any]:
    """Return a wished environment with its file and its lock read; channels are those of one that names none.

    alias is the address below which channels are looked up by their names.

    It is given by packages, by an environment.yml (file), or by an explicit lock or a conda-lock.yml (lock).
    Raises Refusal E007, E016, E018 and E020.
    """
    given = {key: wish.get(key) for key in ("packages", "channels", "pip", "variables", "framework", "group", "lock")}
    file = wish.get("file")
    if len([one for one in (wish.get("packages"), file, wish.get("lock")) if one]) != 1:
        raise refuse("E018", name=wish["name"], file="the wish", detail="give one of packages, file and lock")
    if file:
        given.update({key: value for key, value in _of_file(wish["name"], file).items() if not given[key]})
    options = {
        "name": wish["name"],
        "packages": given["packages"] or [],
        "channels": [one for one in given["channels"] or [] if one != "nodefaults"] or channels,
        "pip": given["pip"] or [],
        "variables": given["variables"] or {},
        "framework": given["framework"],
        "group": given["group"],
        "lock_text": _lock(wish["name"], given["lock"], PLATFORMS[architecture]) if given["lock"] else None,
    }
    if wish.get("jupyter"):
        _ask_for_kernel(options)
    _check(options, str(file or "the wish"))
    if alias:
        options["channels"] = [one if "://" in one else f"{alias.rstrip('/')}/{one}" for one in options["channels"]]
    return {key: value for key, value in options.items() if value is not None}  # a choice takes no null


def _ask_for_kernel(options: dict[str, Any]) -> None:
    """Have what Jupyter needs among the packages. Raises Refusal E020 for a lock without it."""
    text = options["lock_text"]
    named = [conda.name_of(one) for one in (*options["packages"], *options["pip"])]
    if text is None and jupyter.PACKAGE not in named:
        options["packages"] = [*options["packages"], jupyter.PACKAGE]
    if text is not None and jupyter.PACKAGE not in conda.locked(text).versions():
        raise refuse("E020", name=options["name"], package=jupyter.PACKAGE)


def _of_file(name: str, path: str) -> dict[str, Any]:
    """Return what an environment.yml says. Raises Refusal E018."""
    content = _yaml(name, path)
    dependencies = content.get("dependencies", [])
    if not isinstance(dependencies, list):
        raise refuse("E018", name=name, file=path, detail="its dependencies are no list")
    found: dict[str, Any] = {"packages": [], "pip": []}
    for one in dependencies:
        if isinstance(one, str):
            found["packages"].append(one)
        elif isinstance(one, dict) and list(one) == ["pip"]:
            found["pip"] += one["pip"]
        else:
            raise refuse("E018", name=name, file=path, detail=f"what kind of dependency is {one}?")
    return {**found, "channels": content.get("channels"), "variables": content.get("variables")}


def _check(options: dict[str, Any], file: str) -> None:
    """Refuse Anaconda's channels by their short names, and what pip would not take from a lock."""
    specified = [one.partition("::")[0] for one in options["packages"] if "::" in one]
    for channel in (*options["channels"], *specified):
        if channel in ANACONDAS:
            raise refuse("E016", name=options["name"], channel=channel)
    for line in options["pip"]:
        if line.startswith("-"):
            raise refuse("E018", name=options["name"], file=file, detail=f"{line} is an option of pip, no package")


def _lock(name: str, path: str, platform: str) -> str:
    """Return the text of an explicit lock, made of a conda-lock.yml where that is given. Raises Refusal."""
    text = _text(name, path)
    if conda.EXPLICIT in text.split():
        conda.locked(text)
        return text
    content = _yaml(name, path)
    chosen = [one for one in content.get("package", []) if one.get("platform") == platform]
    if not chosen:
        raise refuse("E018", name=name, file=path, detail=f"it locks no package for {platform}")
    lines = [conda.EXPLICIT]
    for one in chosen:
        digest = one["hash"].get("sha256")
        if one["manager"] == "pip":
            lines.append(f"{conda.PIP_LINE}{one['name']}=={one['version']} --hash=sha256:{digest}")
        else:
            lines.append(f"{one['url']}#{digest}")
    return conda.locked("\n".join(lines)).text()


def _yaml(name: str, path: str) -> dict[str, Any]:
    try:
        content = yaml.safe_load(_text(name, path))
    except yaml.YAMLError as error:
        raise refuse("E018", name=name, file=path, detail=" ".join(str(error).split())) from error
    if not isinstance(content, dict):
        raise refuse("E018", name=name, file=path, detail="it is no mapping")
    return content


def _text(name: str, path: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise refuse("E018", name=name, file=path, detail=error) from error
