# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program of a role with all of gpulab's own code that it imports, as a filter: it runs where no collection is."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Callable

from ansible.errors import AnsibleFilterError

MODULE_UTILS = Path(__file__).parents[1] / "module_utils"
PACKAGE = "ansible_collections.gpulab.node.plugins.module_utils"
# Packages proper come before a collection that may be installed on the node.
PARENT = "# A package of gpulab\n"
INTERPRETER = "#!/usr/bin/python3 -BEs"


def program(path: str, directory: str, *, executable: bool = False) -> dict[str, str]:
    """Return the files that the Python program at path (on the controller) needs in directory: texts by path.

    The program itself keeps its name and lies at the top, beside the packages that it imports. An executable one
    begins with the line that names its interpreter. Raises AnsibleFilterError when it or an import cannot be read.
    """
    package = Path(directory, *PACKAGE.split("."))
    text = _read(Path(path))
    files = {Path(directory, Path(path).name): f"{INTERPRETER}\n{text}" if executable else text}
    wanted = _imported(text)
    while wanted:
        module = wanted.pop()
        place = package / module
        if place not in files:
            files[place] = _read(MODULE_UTILS / module)
            files.update(
                {parent / "__init__.py": PARENT for parent in place.parents if Path(directory) in parent.parents}
            )
            wanted |= _imported(files[place])
    return {str(place): files[place] for place in sorted(files)}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        message = f"cannot read a part of a program: {error}"
        raise AnsibleFilterError(message) from error


def _imported(text: str) -> set[Path]:
    """Return the modules that a text imports, as paths below module_utils."""
    modules = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"{PACKAGE}."):
            origin = Path(*str(node.module)[len(PACKAGE) :].split("."))
            of_package = (MODULE_UTILS / origin).is_dir()
            modules |= (
                {origin / f"{alias.name}.py" for alias in node.names} if of_package else {origin.with_suffix(".py")}
            )
    return modules


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., dict[str, str]]]:
        """Return the filters by name."""
        return {"program": program}
