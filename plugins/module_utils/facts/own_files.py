# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What gpulab keeps on the node: a role that wishes nothing and finds nothing need not look."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

STATE, PROGRAMS, TOOLKITS = "/var/lib/gpulab", "/opt", "/usr/local"
STEPS, TOOLKIT, WORK = f"{STATE}/steps", "cuda-*/gpulab.json", ".gpulab-cuda"
WALKED = ("/etc", "/usr/local/share/jupyter/kernels")
# Files of others in which gpulab keeps a block, or sets lines aside; and those that may be gpulab's under another name.
READ = (
    "/etc/fstab",
    "/etc/hosts",
    "/etc/cloud/templates/",
    "/etc/containerd/certs.d/",
    "/etc/pam.d/common-session",
    "/etc/sssd/sssd.conf",
    "/usr/local/share/jupyter/kernels/",
)
NAME = "gpulab"


def read(node: Node) -> list[str]:
    """Return the facts ``own_files``: paths with gpulab in them, and of READ those with gpulab in their text; sorted.

    They are files below WALKED, files in STATE, package transactions that no run has seen end, records of CUDA toolkits
    that are made of wheels and where they are made, and what is in PROGRAMS.
    """
    root = len(str(node.root).rstrip("/"))
    walked = [
        f"{directory}/{name}"[root:]
        for top in WALKED
        for directory, _directories, names in os.walk(node.path(top))
        for name in names
    ]
    state = [path for name in node.names(STATE) if not node.is_dir(path := f"{STATE}/{name}")]
    state += [path for name in node.names(STEPS) if node.exists(path := f"{STEPS}/{name}/transaction.json")]
    toolkits = [str(path)[root:] for name in (TOOLKIT, WORK) for path in node.path(TOOLKITS).glob(name)]
    programs = [f"{PROGRAMS}/{name}" for name in node.names(PROGRAMS)]

    def is_own(path: str) -> bool:
        return NAME in path or (path.startswith(READ) and NAME in node.text(path))

    return sorted(filter(is_own, [*walked, *state, *toolkits, *programs]))


def missing(node: Node, paths: Iterable[str]) -> list[str]:
    """Return those of these paths at which nothing is, not even a link that leads nowhere, and which could be made."""
    return [path for path in paths if not os.path.lexists(node.path(path)) and _can_be_made(node.path(path))]


def _can_be_made(path: Path) -> bool:
    return next(parent for parent in path.parents if os.path.lexists(parent)).is_dir()
