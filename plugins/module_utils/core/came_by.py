# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who Ansible connects as, whom nothing of gpulab's may lock out."""

from __future__ import annotations

import contextlib
import os
import pwd
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node


def came_by(node: Node) -> set[str]:
    """Return the users that this connection logged in as: sudo's word, and the kernel's."""
    found = {name for name in (os.environ.get("SUDO_USER"), os.environ.get("DOAS_USER")) if name}
    uid = node.text("/proc/self/loginuid")
    with contextlib.suppress(KeyError, ValueError):
        found.add(pwd.getpwuid(int(uid)).pw_name)
    return found
