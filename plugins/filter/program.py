# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program of a role with all of gpulab's own code that it imports, as a filter: it runs where no collection is."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Callable

from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.node.plugins.plugin_utils.roles.code import RoleCode
from ansible_collections.gpulab.node.plugins.plugin_utils.roles.known import ROOT

COLLECTION = "ansible_collections/gpulab/node"
# Packages proper come before a collection that may be installed on the node.
PARENT = "# A package of gpulab\n"
INTERPRETER = "#!/usr/bin/python3 -BEs"


def program(path: str, directory: str, *, executable: bool = False) -> dict[str, str]:
    """Return the files that the Python program at path (on the controller) needs in directory: texts by path.

    The program itself keeps its name and lies at the top, beside the packages that it imports. An executable one
    begins with the line that names its interpreter. Raises AnsibleFilterError when it cannot be read.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        message = f"cannot read a program: {error}"
        raise AnsibleFilterError(message) from error
    files = {Path(directory, Path(path).name): f"{INTERPRETER}\n{text}" if executable else text}
    for name in _code().reached(_code().imported(text)):
        place = Path(directory, COLLECTION, name)
        files[place] = (ROOT / name).read_text(encoding="utf-8")
        files.update({parent / "__init__.py": PARENT for parent in place.parents if Path(directory) in parent.parents})
    return {str(place): files[place] for place in sorted(files)}


@lru_cache(maxsize=1)
def _code() -> RoleCode:
    return RoleCode(ROOT)


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., dict[str, str]]]:
        """Return the filters by name."""
        return {"program": program}
