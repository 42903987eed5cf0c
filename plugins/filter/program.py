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


def program(path: str, directory: str) -> dict[str, str]:
    """Return the files that the Python program at path (on the controller) needs in directory: texts by path.

    The program itself keeps its name and lies at the top, beside the packages that it imports. Raises
    AnsibleFilterError when it or an import cannot be read.
    """
    package = Path(directory, *PACKAGE.split("."))
    text = _read(Path(path))
    files = {Path(directory, Path(path).name): text}
    for parent in [package, *package.parents[: PACKAGE.count(".")]]:
        files[parent / "__init__.py"] = PARENT
    names = _imported(text)
    while names:
        name = names.pop()
        place = package / f"{name}.py"
        if place not in files:
            files[place] = _read(MODULE_UTILS / f"{name}.py")
            names |= _imported(files[place])
    return {str(place): files[place] for place in sorted(files)}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        message = f"cannot read a part of a program: {error}"
        raise AnsibleFilterError(message) from error


def _imported(text: str) -> set[str]:
    """Return the modules of module_utils that a text imports, by name."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE}."):
            names.add(str(node.module)[len(PACKAGE) + 1 :].replace(".", "/"))
    return names


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[[str, str], dict[str, str]]]:
        """Return the filters by name."""
        return {"program": program}
