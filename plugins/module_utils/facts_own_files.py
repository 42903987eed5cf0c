# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What gpulab keeps on the node under its own name: a role that wishes nothing and finds nothing need not look."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.facts_node import Node

SETTINGS, STATE = "/etc", "/var/lib/gpulab"
NAME = "gpulab"


def read(node: Node) -> list[str]:
    """Return the facts ``own_files``: paths below SETTINGS that have gpulab in them, and files in STATE, sorted."""
    root = len(str(node.root).rstrip("/"))
    settings = (
        f"{directory}/{name}"[root:]
        for directory, _directories, names in os.walk(node.path(SETTINGS))
        for name in names
    )
    state = (f"{STATE}/{name}" for name in node.names(STATE))
    return sorted([path for path in settings if NAME in path] + [path for path in state if not node.is_dir(path)])
