# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way on which Ansible came to a node, as the node sees it: no port that is forwarded elsewhere, no other name."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

_VARIABLE = re.compile(rb"(?:^|\0)SSH_CONNECTION=(\S+) \d+ (\S+) (\d+)(?=\0|$)")
_PARENT = re.compile(r"^\d+ \(.*\) \S (\d+) ", re.DOTALL)


@dataclass(frozen=True)
class Connection:
    """Where somebody comes from, and the address and the port of the node that they came to."""

    client: str
    address: str
    port: int


def read(node: Node, process: int | None = None) -> Connection | None:
    """Return the connection that a process, by default this one, was started over; None where it was not by SSH.

    sudo takes the variable away, so the processes above are asked, too.
    """
    number = process or os.getpid()
    while number > 1:
        found = _VARIABLE.search(node.data(f"/proc/{number}/environ") or b"")
        if found:
            client, address = (os.fsdecode(one).partition("%")[0] for one in found.groups()[:2])
            return Connection(client, address, int(found[3]))
        parent = _PARENT.match(node.text(f"/proc/{number}/stat"))
        number = int(parent[1]) if parent else 0
    return None
