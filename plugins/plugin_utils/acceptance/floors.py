# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The least bus bandwidth that a group of nodes has to reach, and who says so. No I/O happens here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.checks.measurements.collectives import NETWORK_SHARE
from ansible_collections.gpulab.node.plugins.plugin_utils.acceptance.ladder import SIBLINGS
from ansible_collections.gpulab.node.plugins.plugin_utils.acceptance.state import Floor
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NCCL, GLOO = "nccl", "gloo"
BYTES = {NCCL: "1 GiB", GLOO: "32 MiB"}
SHARES = {NCCL: 0.8, GLOO: 0.2}  # of what siblings do; Gloo shares processors with whatever else runs


def statistic(backend: str) -> str:
    """Return what the numbers are, in words."""
    return f"all_reduce of {BYTES[backend]} ({backend}): bus bandwidth in GB/s, median of 10 runs, slowest process"


@dataclass(frozen=True)
class Kind:
    """What is measured: the boards of each node, by which backend, how many nodes, and the ports of one of them."""

    boards: str
    backend: str
    count: int
    ports: Sequence[Mapping[str, Any]] = ()


def floor(own: Sequence[Mapping[str, Any]], kind: Kind, last: Mapping[str, Any] | None) -> Floor:
    """Return the floor of these nodes: their own, that of the last certificate, that of siblings, of their ports.

    own are acceptance_floors, last is the last certificate of these boards. Raises Refusal F142 where nothing says what
    they should reach.
    """
    said, share = statistic(kind.backend), SHARES[kind.backend]
    for entry in own:
        if entry["board"] == kind.boards and (entry.get("transport") or NCCL) == kind.backend:
            return Floor(float(entry["value_gbs"]), f"acceptance_floors: {entry['source']}", said)
    numbers = last["numbers"] if last and last["accepted"] else []
    rates = [one["gbs"] for one in numbers if one["gbs"] and one["transport"].startswith(f"{kind.backend} ")]
    if last and rates:
        return Floor(round(max(rates) * share, 4), f"{share:g} of the best of the certificate {last['run']}", said)
    if kind.count >= SIBLINGS:
        return Floor(None, f"{share:g} of the best pair of these nodes", said)
    carried = sum(port.get("rate_gbps") or 0 for port in kind.ports if port.get("state") == "active")
    if kind.backend == NCCL and carried:
        return Floor(round(NETWORK_SHARE * carried / 8, 1), f"{NETWORK_SHARE:g} of what a node's ports carry", said)
    raise refuse("F142", nodes=kind.count)
