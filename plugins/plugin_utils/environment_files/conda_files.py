# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wished conda environments as the node takes them: their files are read here, on the controller."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from ansible_collections.gpulab.node.plugins.module_utils.environments import conda, jupyter
from ansible_collections.gpulab.node.plugins.plugin_utils.environment_files import requirement_lines as lines
from ansible_collections.gpulab.node.plugins.plugin_utils.environment_files import requirements
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

ANACONDAS = (
    *("defaults", "anaconda", "main", "r", "free", "pro", "msys2"),
    *("pkgs/main", "pkgs/r", "pkgs/free", "pkgs/pro", "pkgs/msys2"),
)
ANACONDAS_SERVER = re.compile(r"^https?://repo\.(?:anaconda\.com|continuum\.io)/")
PLATFORMS = {"x86_64": "linux-64", "aarch64": "linux-aarch64"}
FIRST_PIP = (22, 2)
NO_CONSTRAINTS = lines.Fault(
    "limits versions for pip, which the lock would not show", "Write its limits at the packages"
)
OLD_PIP = "before 22.2, pip cannot report what it installed, and gpulab needs that for the lock"
# A file of the index that everybody has; mirrors have it by its name, so the lock does not name the address.
_COMMON_FILE = re.compile(r"/packages/[0-9a-f]{2}/[0-9a-f]{2}/[0-9a-f]{60}/[^/]+$")


class CondaSources(NamedTuple):
    """Where packages come from, as the role says.

    alias is the address below which channels are looked up by their names, defaults the channel in the place of
    Anaconda's. indexes are the addresses of packages that a file may name for pip.
    """

    alias: str | None = None
    defaults: str | None = None
    indexes: Sequence[str] = ()


NOWHERE_ELSE = CondaSources()


def resolve(
    wish: dict[str, Any], channels: list[str], architecture: str, places: CondaSources = NOWHERE_ELSE
) -> dict[str, Any]:
    """Return a requested environment with its file and its lock read.

    It is given by packages, by an environment.yml (file), or by an explicit lock or a conda-lock.yml (lock). channels
    are those of one that names none, and follow those of a file. Raises Refusal E007, E016, E018 and E020.
    """
    name, file, lock = wish["name"], wish.get("file"), wish.get("lock")
    given = {key: _listed(wish.get(key)) for key in ("packages", "channels", "pip")}
    if len([one for one in (given["packages"], file, lock) if one]) != 1:
        raise _unusable(name, "the definition", "it needs exactly one of packages, file and lock")
    variables = wish.get("variables")
    if file:
        found = _of_file(name, file, wish.get("replace") or {})
        given = {key: value or found[key] for key, value in given.items()}
        variables = variables or found["variables"]
    options = {
        "name": name,
        "packages": [_of_allowed(name, _closed(one), places.defaults) for one in given["packages"]],
        "channels": _channels(wish, given["channels"], channels, places.defaults),
        "pip": given["pip"],
        "variables": variables or {},
        "framework": wish.get("framework"),
        "group": wish.get("group"),
        "lock_text": _lock(name, lock, PLATFORMS[architecture]) if lock else None,
    }
    if wish.get("jupyter"):
        _ask_for_kernel(options)
    _check(options, file, places.indexes)
    options["channels"] = _below(places.alias, options["channels"])
    return {key: value for key, value in options.items() if value is not None}  # a choice takes no null


def _channels(wish: dict[str, Any], given: list[str], of_role: list[str], defaults: str | None) -> list[str]:
    """Return the channels of an environment: its own, or those of its file and then the role's. Raises Refusal E016."""
    name, own = wish["name"], bool(wish.get("channels"))
    allowed = _allowed(name, given, defaults, in_file=bool(wish.get("file")) and not own)
    more = _allowed(name, of_role, defaults)
    found = allowed if own else _with(more, allowed)
    return [one for one in found if one != "nodefaults"] or more


def _below(alias: str | None, channels: list[str]) -> list[str]:
    """Return channels with the addresses of those that are names: below an alias, if there is one."""
    if not alias:
        return channels
    return [one if "://" in one else f"{alias.rstrip('/')}/{one}" for one in channels]


def _listed(value: Any) -> list[str]:
    """Return a list as Ansible would make it of a variable."""
    return value.split(",") if isinstance(value, str) else list(value or ())


def _with(channels: list[str], of_file: list[str]) -> list[str]:
    """Return the channels of a file and behind them, as conda does it, those of the role."""
    known = {one.rstrip("/").rpartition("/")[2] for one in of_file}
    more = () if "nodefaults" in of_file else channels
    return [*of_file, *(one for one in more if one.rstrip("/").rpartition("/")[2] not in known)]


def _ask_for_kernel(options: dict[str, Any]) -> None:
    """Have what Jupyter needs among the packages. Raises Refusal E020 for a lock without it."""
    text = options["lock_text"]
    named = [conda.name_of(one) for one in (*options["packages"], *options["pip"])]
    if text is None and jupyter.PACKAGE not in named:
        options["packages"] = [*options["packages"], jupyter.PACKAGE]
    if text is not None and jupyter.PACKAGE not in conda.locked(text).versions():
        raise refuse("E020", name=options["name"], package=jupyter.PACKAGE)


def _unusable(name: str, file: str, detail: object, advice: str = "Correct it.") -> Refusal:
    return refuse("E018", name=name, file=file, detail=detail, advice=advice)


# an environment.yml


def _of_file(name: str, path: str, replace: dict[str, str | None]) -> dict[str, Any]:
    """Return what an environment.yml says, with lines replaced. Raises Refusal E018."""
    content = _yaml(name, path)
    dependencies = content.get("dependencies")
    if not isinstance(dependencies, list) or not dependencies:
        raise _unusable(name, path, "its dependencies are not a list" if dependencies else "it has no dependencies")
    by_pip: list[str] = []
    for one in dependencies:
        if isinstance(one, dict) and list(one) == ["pip"]:
            by_pip += _texts(name, path, "pip", one["pip"])
    plain = [one for one in dependencies if not (isinstance(one, dict) and list(one) == ["pip"])]
    check_system(name, path, [one for one in plain if isinstance(one, str)], str(content.get("prefix", "")))
    left = dict(replace)

    def changed(found: list[str]) -> list[str]:
        new = ((left.pop(line, replace[line]) if line in replace else line) for line in found)
        return [line for line in new if line]

    by_pip = changed(by_pip)
    found_by_pip = requirements.included(by_pip, Path(path))
    faults = [
        *found_by_pip.faults,
        *((line, NO_CONSTRAINTS) for line in by_pip if requirements.CONSTRAINTS.match(line)),
    ]
    if faults:
        raise lines.refusal(name, path, faults)
    found = {
        "packages": changed(_texts(name, path, "dependencies", plain)),
        "pip": changed(found_by_pip.lines),
        "channels": _texts(name, path, "channels", content.get("channels")),
        "variables": _variables(name, path, content.get("variables")),
    }
    if left:
        raise _unusable(name, path, f"replace names {', '.join(left)}, but the file has no such line")
    return found


def check_system(name: str, path: str, packages: list[str], prefix: str) -> None:
    """Raise Refusal E070 for a file that conda exported on another system than Linux."""
    found = requirements.for_another(packages, prefix)
    if found:
        raise refuse("E070", name=name, file=path, system=found[0], detail=found[1])


def _texts(name: str, path: str, section: str, value: Any) -> list[str]:
    """Return a section that lists lines, none where it is empty. Raises Refusal E018 for one of another type."""
    if value is None:
        return []
    if not isinstance(value, list):
        example = f" as in {section}: [{value}]" if isinstance(value, str) else ""
        raise _unusable(name, path, f"its section {section} is not a list", f"Write it as a list{example}.")
    for one in value:
        if not isinstance(one, str) or not one.strip() or "\n" in one:
            raise _unusable(name, path, f"its section {section} has {one!r}, which is not a line of text")
    return [one.strip() for one in value]


def _variables(name: str, path: str, value: Any) -> dict[str, Any]:
    """Return the environment variables of a file. Raises Refusal E018."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(one, (str, int, float)) for one in value.values()):
        raise _unusable(name, path, "its section variables is not a mapping of names and values")
    return value


# what is not taken


def _allowed(name: str, channels: list[str], defaults: str | None, *, in_file: bool = False) -> list[str]:
    """Return channels with defaults instead of Anaconda's. Raises Refusal E016 where defaults is not set.

    Whole addresses of Anaconda's count only in the inventory: its author decides that, not the author of a file.
    """
    found = []
    for one in channels:
        theirs = one in ANACONDAS or (defaults and in_file and ANACONDAS_SERVER.match(one))
        if theirs and (defaults is None or defaults in ANACONDAS):
            raise refuse("E016", name=name, channel=one)
        found.append(defaults if theirs and defaults else one)
    return list(dict.fromkeys(found))


def _closed(package: str) -> str:
    """Return a line without spaces behind its comparisons: micromamba 2.0 lost what follows (mamba-org/mamba#3472)."""
    return re.sub(r"([<>=!~]=?|[,|])\s+", r"\1", package)


def _of_allowed(name: str, package: str, defaults: str | None) -> str:
    """Return a package with its channel replaced in the same way, where it names one. Raises Refusal E016."""
    channel, sign, rest = package.partition("::")
    return f"{_allowed(name, [channel], defaults)[0]}::{rest}" if sign else package


def _check(options: dict[str, Any], file: str | None, indexes: Sequence[str]) -> None:
    """Refuse lines that cannot be installed or locked, all at once. Raises Refusal E018."""
    faults = []
    for line in options["packages"]:
        if re.match(r"[-./~]|file:", line):
            faults.append((line, lines.Fault("is an option or a path, not a package of a channel", "Name the package")))
        elif options["pip"] and conda.name_of(line) == "pip" and _is_old(line):
            faults.append((line, lines.Fault(f"is too old: {OLD_PIP}", "Request pip>=22.2", "'pip>=22.2'")))
    options["pip"] = [line for line in options["pip"] if not lines.HARMLESS.match(line)]
    found = [(line, lines.fault(line, indexes)) for line in options["pip"]]
    faults += [(line, fault) for line, fault in found if fault]
    if faults:
        raise lines.refusal(options["name"], file, faults)


def _is_old(spec: str) -> bool:
    """Tell whether a line asks for a pip before 22.2 only, such as pip=20.3, pip<22 or pip 20.3."""
    for part in spec.rpartition("::")[2].split(","):
        match = re.search(r"(>=|<=|==|!=|~=|=|<|>|\s)\s*(\d+)(?:\.(\d+))?", part)
        if match and _is_below(match[1], (int(match[2]), int(match[3] or 0)), has_minor=bool(match[3])):
            return True
    return False


def _is_below(sign: str, version: tuple[int, int], *, has_minor: bool) -> bool:
    """Tell whether a comparison lets no pip through that is new enough; =22 is any 22, and ~=21.3 any 21."""
    if sign == "~=" or (sign == "=" and not has_minor):
        return version[0] < FIRST_PIP[0]
    if sign == "<":
        return version <= FIRST_PIP
    return sign in ("=", "==", "<=", " ") and version < FIRST_PIP


# locks


def _lock(name: str, path: str, platform: str) -> str:
    """Return the text of an explicit lock, made of a conda-lock.yml where that is given. Raises Refusal."""
    text = _text(name, path)
    if conda.EXPLICIT in text.split():
        conda.locked(text)
        return text
    found = _yaml(name, path).get("package")
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise _unusable(name, path, "its section package is not a list of packages", "Give a conda-lock.yml.")
    chosen = [one for one in found if one.get("platform") == platform]
    if not chosen:
        raise _unusable(name, path, f"it locks no package for {platform}")
    return conda.locked("\n".join([conda.EXPLICIT, *(_locked_line(name, path, one) for one in chosen)])).text()


def _locked_line(name: str, path: str, package: dict[str, Any]) -> str:
    """Return the line of a package of a conda-lock.yml. Raises Refusal E007 for one that it does not pin, and E018."""
    missing = [key for key in ("name", "version", "manager", "url") if not isinstance(package.get(key), str)]
    if missing:
        raise _unusable(name, path, f"a package in it has no {missing[0]}: {package.get('name') or package.get('url')}")
    digests, url = package.get("hash"), package["url"].partition("#")[0]
    digest = digests.get("sha256") if isinstance(digests, dict) else None
    by_pip = package["manager"] == "pip"
    if by_pip and url.startswith("git+"):
        return f"{conda.PIP_LINE}{package['name']} @ {url}"
    if not digest:
        raise refuse("E007", line=f"{package['name']} {package['version']} of {path} (it has no sha256)")
    if not by_pip:
        return f"{url}#{digest}"
    pinned = f"=={package['version']}" if _COMMON_FILE.search(url) else f" @ {url}"
    return f"{conda.PIP_LINE}{package['name']}{pinned} --hash=sha256:{digest}"


def _yaml(name: str, path: str) -> dict[str, Any]:
    try:
        content = yaml.safe_load(_text(name, path))
    except yaml.YAMLError as error:
        raise _unusable(name, path, " ".join(str(error).split())) from error
    if not isinstance(content, dict):
        raise _unusable(name, path, "it is not a mapping")
    return content


def _text(name: str, path: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, RuntimeError) as error:
        raise _unusable(name, path, error) from error
