# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of a lab's own, as its files describe them: what a node runs, and what has to come of it."""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

LEVELS = ("quick", "standard", "burn-in")
PARSES = ("status", "number", "lines", "json")
SEVERITIES = ("warn", "fail")
ID = re.compile(r"own-[a-z0-9]+(-[a-z0-9]+)*")
MOST_SECONDS, MOST_ID, MOST_WORDS = 30, 48, 64
OTHERS = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True)
class OwnCheck:
    """A check. unit is that of the value; at_least, at_most and equals are its bounds, of which one at least is set."""

    id: str
    why: str
    command: tuple[str, ...]
    timeout_seconds: int
    level: str = "quick"
    parse: str = "status"
    field: str = ""
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None
    equals: str | float | bool | None = None
    severity: str = "warn"
    remedy: str = ""
    root: bool = False
    network: bool = False
    gpus: bool = False
    source: str = ""


def load(directory: str) -> list[OwnCheck]:
    """Return the checks of all files NAME.yml of a directory. Raises Refusal V005, which names all that is wrong."""
    found: list[OwnCheck] = []
    problems: list[str] = []
    try:
        paths = sorted(Path(directory).expanduser().glob("*.yml"))
        if not paths:
            problems.append("it has no file NAME.yml")
        for path in paths:
            for number, given in enumerate(_entries(path), 1):
                wrong = list(_problems(given))
                problems += [f"{path.name}, entry {number}: {problem}" for problem in wrong]
                if not wrong:
                    found.append(OwnCheck(**{**given, "command": tuple(given["command"]), "source": path.name}))
    except (OSError, RuntimeError, ValueError, yaml.YAMLError) as error:
        problems.append(" ".join(str(error).split()))
    ids = [check.id for check in found]
    problems += [f"{name} is there twice" for name in sorted({name for name in ids if ids.count(name) > 1})]
    if problems:
        raise refuse("V005", path=directory, problems="; ".join(problems))
    return found


def _entries(path: Path) -> list[Any]:
    """Return the entries of a file. Raises OSError and ValueError."""
    for place in (path.parent, path):
        if place.stat().st_mode & OTHERS:
            message = f"others than its owner can write {place}, and what it says runs on every node"
            raise ValueError(message)
    entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(entries, list):
        message = f"{path.name} is no list of checks"
        raise ValueError(message)  # noqa: TRY004 - it is said as all that is wrong with a file
    return entries


TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("id", "why", "level", "parse", "field", "unit", "severity", "remedy"), (str,)),
    **dict.fromkeys(("root", "network", "gpus"), (bool,)),
    **dict.fromkeys(("at_least", "at_most"), (int, float)),
    "command": (list,),
    "timeout_seconds": (int,),
    "equals": (str, int, float, bool),
}
NEEDED = ("id", "why", "command", "timeout_seconds")
CHOICES = {"level": LEVELS, "parse": PARSES, "severity": SEVERITIES}


def _problems(given: Any) -> Iterator[str]:
    """Yield what is wrong with an entry."""
    if not isinstance(given, dict):
        yield "it is no mapping"
        return
    known = {field.name for field in fields(OwnCheck)} - {"source"}
    yield from (f"{name} means nothing" for name in sorted(map(str, given.keys() - known)))
    yield from (f"{name} is missing" for name in NEEDED if name not in given)
    wrong = {name for name, types in TYPES.items() if name in given and type(given[name]) not in types}
    yield from (f"{name} is of another type" for name in sorted(wrong))
    right = {name: value for name, value in given.items() if name not in wrong}
    yield from (
        f"{name} is none of {', '.join(choices)}"
        for name, choices in CHOICES.items()
        if right.get(name, choices[0]) not in choices
    )
    yield from _values(right)


def _values(given: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the values of an entry, each of its type."""
    name, command, parse = given.get("id", "own-x"), given.get("command", ["/x"]), given.get("parse", "status")
    if not ID.fullmatch(name) or len(name) > MOST_ID:
        yield "its id has to be own- and words of a to z and digits, such as own-scratch-free"
    if not 1 <= given.get("timeout_seconds", 1) <= MOST_SECONDS:
        yield f"timeout_seconds is not within 1 to {MOST_SECONDS}"
    if not all(isinstance(word, str) and "\0" not in word for word in command) or not 1 <= len(command) <= MOST_WORDS:
        yield "command is no list of texts"
    elif not command[0].startswith("/"):
        yield "command has to begin with the whole path of a program"
    if not given.get("why", "x").strip():
        yield "why is empty"
    if (parse == "json") != bool(given.get("field")):
        yield "field goes with parse: json, and is needed there"
    bounds = [bound for bound in ("at_least", "at_most", "equals") if bound in given]
    if parse == "status" and bounds:
        yield "parse: status wants the exit status 0, and takes no bound"
    if parse != "status" and not bounds:
        yield "it has no bound: at_least, at_most or equals"
