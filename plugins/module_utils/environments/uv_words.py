# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What uv writes: locks, and why it makes none. Only the standard library of Python 3.9 is used."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core.environment_packages import normalized

if TYPE_CHECKING:
    from collections.abc import Sequence

BUILT, BESIDE = "# built from source: ", " beside "  # in a lock, around the name of each package that has no wheel
# What uv says of the package that is in the way, the first that matches; each has the name, and perhaps the version.
BUILD = re.compile(r"(?:[Ff]ailed to (?:download and )?build|[Ff]ailed to prepare|Building) `([\w.-]+)(?:==([^`]+))?`")
MISSING = (
    re.compile(
        r"Because there (?:is|are) no versions? of ([A-Za-z0-9][\w.-]*?)(?:\[[^\]]*\])?((?:[=<>!~]=?[^\s]+)?) and"
    ),
    re.compile(r"Because ([A-Za-z0-9][\w.-]*) was not found in the package registry()"),
    re.compile(r"Because only ([A-Za-z0-9][\w.-]*?)(?:\[[^\]]*\])?(?:[=<>!~]=?\S+)? is available()"),
    re.compile(
        r"Because (?:all versions of )?([A-Za-z0-9][\w.-]*?)(?:\[[^\]]*\])?((?:[=<>!~]=?\S+)?) (?:has|have) no "
    ),
    re.compile(r"Wheels are required for `([\w.-]+)()`"),
)
ELSEWHERE = re.compile(
    r"Request failed|error sending request|Failed to fetch|Failed to download distributions|dns error|timed out"
    r"|No space left on device|Disk quota exceeded|Hash mismatch"
)
EXACT = re.compile(r"^([\w.-]+(?:\[[^\]]*\])?)\s*={2,3}\s*([^\s;,+*]+?)(?:\.\*|\+[^\s;,]+)?(?=\s*(?:;|$))")
INDEX = re.compile(r"^--(extra-)?index-url (\S+)$", re.MULTILINE)
INCLUDED = re.compile(r"included because `([^`]+)` \(v([^)]+)\) depends on")
_ASKED = re.compile(r"gpulab-[\w.-]+ depends on (.+?)(?:, we can|\n|$)")
_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?\s*(?:==\s*([^\s;\\]+)|@\s*(\S+))")


def name_of(requirement: str) -> str:
    """Return the package that a line names."""
    match = re.match(r"[A-Za-z0-9][\w.-]*", requirement)
    return normalized(match[0]) if match else ""


def pinned(text: str) -> dict[str, str]:
    """Return the version, or the address, of each package of a lock."""
    matches = (_PIN.match(line) for line in text.splitlines())
    return {normalized(match[1]): match[2] or match[3] for match in matches if match}


def via(text: str) -> dict[str, list[str]]:
    """Return for each package of an annotated lock the packages that need it."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        match = _PIN.match(line)
        name = normalized(match[1]) if match else name
        needs = re.match(r"^\s+#\s+(?:via\s+)?([A-Za-z0-9][\w.-]*)(?: \(.*\))?$", line)
        if needs and needs[1] != "via" and name:
            found.setdefault(name, []).append(needs[1])
    return {name: [one for one in needs if not one.startswith("gpulab-")] for name, needs in found.items()}


def above(text: str, name: str, asked: set[str]) -> set[str]:
    """Return those that are asked for because of which a package is in an annotated lock: the nearest, or itself."""
    needs, seen, found, todo = via(text), set(), set(), [name]
    while todo:
        one = todo.pop()
        if one in asked:
            found.add(one)
        elif one not in seen:
            seen.add(one)
            todo += [normalized(other) for other in needs.get(one, ())]
    return found


def unfolded(said: str) -> str:
    """Return what uv printed with each sentence in one line: it breaks lines where COLUMNS is set."""
    return re.sub(r"\n\s+", " ", said)


def asked_for(said: str) -> set[str]:
    """Return the packages that are asked for among those that uv names where it has no solution."""
    told = " and ".join(_ASKED.findall(unfolded(said)))
    return {normalized(name) for name in re.findall(r"(?:^|\band )\s*([A-Za-z0-9][\w.-]*)", told)}


def built_line(name: str, beside: Sequence[str]) -> str:
    """Return the line of a lock that says of a package that it is built, and beside what more than it says itself."""
    return f"{BUILT}{name}{BESIDE if beside else ''}{' '.join(beside)}"


def built(lock: str) -> dict[str, list[str]]:
    """Return the packages of a lock that are built from source code, with what they are built beside."""
    lines = (line[len(BUILT) :].partition(BESIDE) for line in lock.splitlines() if line.startswith(BUILT))
    return {normalized(name.strip()): beside.split() for name, _sign, beside in lines}


def block(text: str, name: str) -> str:
    """Return the lines of one package of a lock, as one line."""
    joined = without_comments(text).replace("\\\n", " ")
    for line in joined.splitlines():
        match = _PIN.match(line)
        if match and normalized(match[1]) == name:
            return " ".join(line.split())
    return name


def without_comments(text: str) -> str:
    """Return a lock without what uv says beside its packages."""
    return "".join(f"{line}\n" for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))


def without_wheel(text: str) -> list[str]:
    """Return the packages of a pylock.toml as uv writes it of which it has no wheel that fits, and no other file."""
    found = []
    for part in text.split("[[packages]]")[1:]:
        name = re.search(r'^name = "([^"]+)"', part, re.MULTILINE)
        archive = re.search(r'^archive = \{ url = "[^"]+\.whl"', part, re.MULTILINE)
        if name and not re.search(r"^wheels = \[", part, re.MULTILINE) and not archive:
            found.append(normalized(name[1]))
    return found


def reason(said: str) -> str:
    """Return the most telling line of what a build printed."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [
        line for line in lines if re.match(r"(?:error|fatal|\w*(?:Error|Exception)):? ", line) and "uv" not in line
    ]
    told = [line for line in errors if not line.startswith("error: Failed")] or lines[-1:]
    return told[-1][:200] if told else "it printed nothing"


def key(version: str) -> list[int]:
    """Return the numbers of a version, as far as they compare."""
    return [int(number) for number in re.findall(r"\d+", version.partition("+")[0])]
