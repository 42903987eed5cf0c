# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where homes are made: whether that is on this machine's disks, and whose it is. Others' disks are not touched."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.gpulab.node.plugins.module_utils.core import beneath
from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import LOCAL, WITHOUT_OWNERS, holding, mounts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import Mount
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

NO_ANSWER = "it is not there, or does not answer"
ROOT = 0


class Homes(NamedTuple):
    """What is in the place for homes: names, and those that are not made whole.

    problem says why none can be made there; local is false where another machine has them.
    """

    names: frozenset[str] = frozenset()
    problem: str | None = None
    local: bool = True
    unmade: frozenset[str] = frozenset()


def look(node: Node, place: str, people: Iterable[str]) -> Homes:
    """Return what the place has of these people."""
    table = mounts(node.text("/proc/self/mountinfo"))
    if not _is_local(place, table):
        return Homes(local=False)
    answer = node.start(["realpath", "--canonicalize-existing", place]).result()
    if answer is None or answer[0]:
        return Homes(problem=NO_ANSWER)
    there = answer[1].rstrip("\n")
    if not _is_local(there, table):
        return Homes(local=False)
    problem = _problem(node, place, there)
    if problem:
        return Homes(problem=problem)
    names = frozenset(node.names(place))
    own = {mount.place for mount in table}
    unmade = (name for name in names.intersection(people) if f"{there}/{name}" not in own)
    return Homes(names, unmade=frozenset(name for name in unmade if _is_roots(node.path(f"{place}/{name}"))))


def _is_local(place: str, table: list[Mount]) -> bool:
    mount = holding(place, table)
    return mount is None or mount.type in LOCAL - WITHOUT_OWNERS


def _problem(node: Node, place: str, there: str) -> str | None:
    answer = node.start(["stat", "--format=%F", there]).result()
    if answer is None or answer[0]:
        return NO_ANSWER
    if answer[1].strip() != "directory":
        return "it is no directory"
    lent = beneath.lent(Path(place))
    return f"others than root may put something into {lent}" if lent else None


def _is_roots(path: Path) -> bool:
    """Tell whether a directory is root's, as that of a home is until all of it is there."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == ROOT
