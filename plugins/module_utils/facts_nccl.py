# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the node tells every NCCL program: /etc/nccl.conf and the environment of all users."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils import owned_block

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.facts_node import Node

FILES = ("/etc/nccl.conf", "/etc/environment")
PROFILES = "/etc/profile.d"
OWNER = "nccl"  # the role that keeps a block in the first of the files
_SETTING = re.compile(r"^(?:export[ \t]+)?(NCCL_[A-Z0-9_]{1,60})=(.*)$", re.MULTILINE)
_QUOTED = re.compile(r"""(["'])(.*?)\1""")


def settings(text: str) -> dict[str, str]:
    """Parse lines NAME=value, which a shell may export; the last one counts.

    Indented lines depend on what a shell tests, and values with $ or ` on what it computes: they are left out.
    """
    found = {name: _value(value.strip()) for name, value in _SETTING.findall(text)}
    return {name: value for name, value in found.items() if not set("$`") & set(value)}


def _value(text: str) -> str:
    quoted = _QUOTED.match(text)
    return quoted.group(2) if quoted else re.split(r"\s|;", text, maxsplit=1)[0]


def read(node: Node) -> list[dict[str, str]]:
    """Return the facts ``nccl``: {"name", "value", "file"} of each setting."""
    files = [*FILES, *(f"{PROFILES}/{name}" for name in node.names(PROFILES) if name.endswith(".sh"))]
    return [
        {"name": name, "value": value, "file": file}
        for file in files
        for name, value in settings(node.text(file)).items()
    ]


def read_own(node: Node) -> dict[str, str]:
    """Return the facts ``nccl_own``: settings of /etc/nccl.conf that gpulab did not write, by name."""
    return settings(owned_block.outside(node.text(FILES[0]), OWNER))
