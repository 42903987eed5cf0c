# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a node that gpulab has taken out of service; module_utils/fence writes it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.core import records

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Fence

RECORD = "/var/lib/gpulab/fence.json"
TIME = "%Y-%m-%dT%H:%M:%SZ"  # of since and until, UTC


class Before(TypedDict, total=False):
    """What Slurm said of a node before; reservation is the name of the fence's own, where it does not drain."""

    name: str
    drained: bool
    reason: str
    reservation: str


class Record(TypedDict):
    """A node that is out of service: the run, since when and until when (UTC), by whom, and why.

    held: it failed, and stays fenced until somebody has mended it.
    """

    run: str
    since: str
    by: str
    reason: str
    until: str | None
    engine: str
    held: bool
    before: Before


def record(node: Node) -> Record | None:
    """Return the record; None on a node in service. Raises Refusal H220 where it is damaged."""
    lost = "gpulab does not know whether it has taken the node out of service."
    return records.read(node.path(RECORD), Record, None, lost)


def read(node: Node) -> Fence | None:
    """Return the facts ``fence``: the record, and whether the node should be back in service by now."""
    found = record(node)
    now = time.strftime(TIME, time.gmtime())
    if found is None:
        return None
    return {**found, "before": {**found["before"]}, "overdue": found["until"] is not None and found["until"] < now}
