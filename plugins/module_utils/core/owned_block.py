# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A block that gpulab keeps in a file of somebody else's: what the file becomes. No I/O happens here.

No marker holds a "=": NCCL before 2.24 takes a line of its file with one for a setting, comment or not.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.core import files
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import of_files

BEGIN = "# Written by gpulab (role {owner}); changes made by hand from here to the end of the block are lost."
END = "# End of what gpulab wrote (role {owner})."
# The options of the module.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "path": {"type": "path", "required": True},
    "owner": {"type": "str", "required": True},
    "content": {"type": "str", "required": True},
}


def outside(text: str, owner: str) -> str:
    """Return a file's text without the block; of a block that lacks its end, only the first line is taken out."""
    begin, end = BEGIN.format(owner=owner), END.format(owner=owner)
    lines = text.splitlines(keepends=True)
    told = [line.rstrip() for line in lines]
    if begin not in told:
        return text
    first = told.index(begin)
    last = told.index(end, first) if end in told[first:] else first
    return "".join([*lines[:first], *lines[last + 1 :]])


def inside(text: str, owner: str) -> str:
    """Return the lines of the block, empty where there is none."""
    begin, end = BEGIN.format(owner=owner), END.format(owner=owner)
    lines = text.splitlines()
    if begin not in lines or end not in lines[lines.index(begin) :]:
        return ""
    first = lines.index(begin)
    return "\n".join(lines[first + 1 : lines.index(end, first)])


def merged(text: str | None, content: str, owner: str, *, first: bool = False) -> str | None:
    """Return a file's text with the block, at its end or first, holding the content; None for no file.

    text is None where there is no file. Without content there is no block, and a file that has nothing else goes.
    """
    others = outside(text or "", owner)
    if not content.strip():
        gone = others != (text or "") and not others.strip()
        return None if gone or text is None else others
    block = f"{BEGIN.format(owner=owner)}\n{content.rstrip()}\n{END.format(owner=owner)}\n"
    if first:
        return block + others
    if others and not others.endswith("\n"):
        others += "\n"
    return others + block


def outcome(path: str, before: str | None, after: str | None) -> dict[str, Any]:
    """Return the result of the module, by the texts of the file; None for no file."""
    return {
        "changed": before != after,
        "changes": of_files({path: after} if before != after else {}),
        "diff": [files.diff(path, before, after)],
    }
