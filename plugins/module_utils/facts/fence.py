# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a node that gpulab has taken out of service; module_utils/fence writes it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core import records

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

RECORD = "/var/lib/gpulab/fence.json"
TIME = "%Y-%m-%dT%H:%M:%SZ"  # of since and until, UTC
# held: the node failed, and stays fenced until somebody has mended it. before is what Slurm said of it.
SHAPE = {
    "run": str,
    "since": str,
    "by": str,
    "reason": str,
    "until": (str, None),
    "engine": str,
    "held": bool,
    "before": {"name?": str, "drained?": bool, "reason?": str},
}


def record(node: Node) -> dict[str, Any] | None:
    """Return the record; None on a node in service. Raises Refusal H220 where it is damaged."""
    found: dict[str, Any] | None = records.read(
        node.path(RECORD), SHAPE, None, "gpulab does not know whether it has taken the node out of service."
    )
    return found


def read(node: Node) -> dict[str, Any] | None:
    """Return the facts ``fence``: the record, and whether the node should be back in service by now."""
    found = record(node)
    now = time.strftime(TIME, time.gmtime())
    return found and {**found, "overdue": found["until"] is not None and found["until"] < now}
