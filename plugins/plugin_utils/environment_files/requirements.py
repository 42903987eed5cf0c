# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines for pip in files: a requirements.txt, and the files that it names."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.plugin_utils.environment_files import requirement_lines as lines
from ansible_collections.gpulab.node.plugins.plugin_utils.environment_files.requirement_lines import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

CONSTRAINTS = re.compile(r"^(?:-c|--constraint)[\s=]*(\S.*)$")

# Packages, or builds, that there are for one system only.
_SIGNS = (
    (
        "Windows",
        re.compile(
            r"^(?:pywin32|vs20\d\d_runtime|vc14_runtime|ucrt|wincertstore|win_inet_pton|m2w64-[\w-]+)\b|=win_|_win\d*_|_win64_"
        ),
    ),
    ("macOS", re.compile(r"^(?:appnope|libcxx|llvm-openmp-osx|pyobjc[\w-]*)=|=osx_|_osx_")),
)


@dataclass
class FileLines:
    """What files say: lines for pip, constraints, and what is wrong, in pairs of a line and its fault.

    replace has lines that stand in for others, None for none; replaced are those for which one does.
    """

    lines: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    faults: list[tuple[str, Fault]] = field(default_factory=list)
    replace: Mapping[str, str | None] = field(default_factory=dict)
    replaced: set[str] = field(default_factory=set)


def split(text: str) -> list[str]:
    """Return the lines of a requirements file: without comments, and those that go on on the next line in one."""
    joined = re.sub(r"\\\n", " ", text)
    stripped = (re.sub(r"(?:^|\s)#.*$", "", line).strip() for line in joined.splitlines())
    return [line for line in stripped if line]


def read(path: Path, replace: Mapping[str, str | None]) -> FileLines:
    """Return what a requirements file says, with lines replaced. Raises OSError and UnicodeDecodeError."""
    return included(split(path.read_text(encoding="utf-8-sig")), path, replace)


def included(given: Sequence[str], path: Path, replace: Mapping[str, str | None] | None = None) -> FileLines:
    """Return lines of a file with those of the files that they name by -r, and by -c as constraints.

    These have to lie below the directory of the first file.
    """
    found = FileLines(replace=replace or {})
    file = path.expanduser().resolve()
    _add(given, file, (file,), found, constraints=False)
    return found


def for_another(packages: Sequence[str], prefix: str) -> tuple[str, str] | None:
    """Return the system that conda exported packages for, where that is not Linux, and what shows it."""
    for system, pattern in _SIGNS:
        sign = next((one for one in packages if pattern.search(one)), None)
        if sign:
            return system, sign
    return ("Windows", f"prefix: {prefix}") if re.match(r"^[A-Za-z]:\\", prefix) else None


def _add(given: Sequence[str], file: Path, outer: tuple[Path, ...], found: FileLines, *, constraints: bool) -> None:
    for original in given:
        line = found.replace.get(original, original)
        found.replaced |= {original} & set(found.replace)
        if not line:
            continue
        include, constrain = lines.INCLUDE.match(line), CONSTRAINTS.match(line)
        named = include or constrain
        if not named:
            (found.constraints if constraints else found.lines).append(line)
            continue
        inner = (file.parent / named[1].strip()).resolve()
        fault = _cannot_be_read(named[1], inner, outer)
        if fault:
            found.faults.append((line, fault))
            continue
        text = inner.read_text(encoding="utf-8-sig")
        _add(split(text), inner, (*outer, inner), found, constraints=constraints or bool(constrain))


def _cannot_be_read(name: str, inner: Path, outer: tuple[Path, ...]) -> Fault | None:
    base = outer[0].parent
    if "://" in name or base not in inner.parents or inner in outer:
        advice = f"Put that file in {base}, or replace this line by the lines of that file"
        return Fault("points outside the file's directory, or to itself", advice)
    if not inner.is_file():
        return Fault("names a file that does not exist", f"Copy it to {inner}")
    return None
