# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that gpulab owns whole: what has to change so that they hold what is wanted. No I/O happens here.

Every such file starts with a marker line. A file at the same path without the marker is somebody else's and is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core import files
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import of_files
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.node import refuse

if TYPE_CHECKING:
    from collections.abc import Collection

MARKER = "# Written by gpulab"
PROGRAM = "#!"
PRIVATE = files.SECRET
# The options of the module.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "owner": {"type": "str", "required": True},
    "files": {"type": "dict", "required": True},
    "private": {"type": "list", "elements": "path", "default": []},
}


@dataclass(frozen=True)
class FileStep:
    """One file that changes: text before and after; None means that there is no file. mode is what it shall have."""

    path: str
    before: str | None
    after: str | None
    mode: int = 0o644


def wanted_text(content: str, owner: str) -> str:
    """Return the whole text of a file with this content, for the role that owns it; a program keeps its first line."""
    lines = content.rstrip().split("\n")
    lines.insert(1 if content.startswith(PROGRAM) else 0, f"{MARKER} (role {owner}); changes made by hand are lost.")
    return "\n".join(lines) + "\n"


def mode(text: str, *, private: bool = False) -> int:
    """Return the permissions of a file with this text: everybody may read it, and run it where it is a program."""
    return PRIVATE if private else 0o755 if text.startswith(PROGRAM) else 0o644


def is_own(text: str) -> bool:
    """Tell whether gpulab wrote this text."""
    return text.startswith(MARKER) or (text.startswith(PROGRAM) and text.partition("\n")[2].startswith(MARKER))


def plan(
    wanted: dict[str, str | None],
    current: dict[str, str | None],
    owner: str,
    private: Collection[str] = (),
    misplaced: Collection[str] = (),
) -> list[FileStep]:
    """Return what has to change.

    wanted maps each managed path to its content, empty or None for "no such file"; current maps the same paths to their
    texts, None where there is no file. private are the paths that only root may read, misplaced those whose mode or
    owner is not gpulab's now.
    Raises Refusal H020 for a file that would have to change and is not gpulab's.
    """
    steps = []
    for path, content in wanted.items():
        before, after = current[path], wanted_text(content, owner) if content and content.strip() else None
        if before == after and (before is None or not is_own(before) or path not in misplaced):
            continue
        if before is not None and not is_own(before):
            if after is None:
                continue
            raise refuse("H020", path=path)
        steps.append(FileStep(path, before, after, mode(after or "", private=path in private)))
    return steps


def outcome(steps: list[FileStep]) -> dict[str, Any]:
    """Return the result of the module: what changes, or would change in check mode."""
    return {
        "changed": bool(steps),
        "changes": of_files({step.path: step.after for step in steps}),
        "paths": [step.path for step in steps],
        "diff": [files.diff(step.path, step.before, step.after) for step in steps],
    }
