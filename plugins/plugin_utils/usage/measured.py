# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Prometheus measured of a month: what to ask it, and what it answers. No I/O happens here.

What it knows comes from nodes, any of which somebody may have broken into. Its numbers are held against what can be,
and names are cut to what a name of Unix may be.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.gpulab.node.plugins.plugin_utils.usage.month import Month

# The sums of what roles/monitoring/files/alerts.yml writes once an hour, for the hours that ended in the month.
RULES = {
    "used": "gpulab:user_gpu_hours:1h",
    "kwh": "gpulab:user_gpu_kwh:1h",
    "gpu_hours": "gpulab:gpu_hours:1h",
    "busy_hours": "gpulab:gpu_busy_hours:1h",
    "hours": "gpulab:node_hours:1h",
}
NOBODY = "nobody"  # whose energy is that of a GPU on which no user has a context
MOST_USERS = 500  # of one node
MOST_GPUS = 32  # of one node
MOST_KW = 3.0  # of one GPU
SLACK = 1.1  # hours are counted by looks, and an hour over the month's border belongs to the one in which it ends
_NAME = re.compile(r"[\w.@\\+-]{1,64}\$?")


class Silent(Exception):  # noqa: N818 - it is no error: a source that does not say what was measured
    """Why Prometheus does not say what was measured, in a few words."""


@dataclass
class NodeMeasured:
    """What was measured on a node; used and kwh are by user. kwh is None where no energy was recorded.

    hours are those in which its metrics were fresh, gpu_hours those of its GPUs, busy_hours those of GPUs in use.
    """

    hours: float = 0.0
    gpu_hours: float = 0.0
    busy_hours: float = 0.0
    used: dict[str, float] = field(default_factory=dict)
    kwh: dict[str, float] | None = None
    estimated: bool = False


def questions(month: Month) -> dict[str, dict[str, str]]:
    """Return the parameters of Prometheus' query API by the names of RULES."""
    seconds = max(1, month.until - month.start)
    expression = "topk by (instance) ({most}, sum_over_time({rule}[{seconds}s]))"
    return {
        name: {"query": expression.format(most=MOST_USERS, rule=rule, seconds=seconds), "time": str(month.until)}
        for name, rule in RULES.items()
    }


def measured(answers: Mapping[str, Mapping[str, Any]], month: Month) -> tuple[dict[str, NodeMeasured], list[str]]:
    """Return what was measured by node, and what is to be said of it, a sentence each. Raises Silent."""
    nodes: dict[str, NodeMeasured] = {}
    for name in RULES:
        for labels, value in _samples(answers.get(name, {})):
            instance = labels.get("instance")
            if isinstance(instance, str) and instance:
                _put(nodes.setdefault(instance, NodeMeasured()), name, labels, value)
    told = [f"{one_line(name)[:100]}: {why}" for name, node in nodes.items() for why in _implausible(node, month)]
    if not nodes:
        told.append("Prometheus has recorded nothing of that month: playbooks/monitoring_server.yml brings the rules")
    return {name: node for name, node in nodes.items() if node.gpu_hours}, told


def _samples(answer: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], float]]:
    body = answer.get("json") or {}
    if body.get("status") != "success" or body.get("data", {}).get("resultType") != "vector":
        why = body.get("error") or answer.get("msg") or "it could not be reached"
        msg = f"no answer ({one_line(str(why))[:200]})"
        raise Silent(msg)
    return [(sample["metric"], float(sample["value"][1])) for sample in body["data"]["result"]]


def _put(node: NodeMeasured, name: str, labels: Mapping[str, Any], value: float) -> None:
    """Keep a value; one that is no number of hours or kWh becomes infinite, which cannot be."""
    value = value if math.isfinite(value) and value >= 0 else math.inf
    user = str(labels.get("user", ""))
    user = user if _NAME.fullmatch(user) else "?"
    if name == "used":
        node.used[user] = node.used.get(user, 0.0) + value
    elif name == "kwh":
        node.kwh = node.kwh or {}
        node.kwh[user] = node.kwh.get(user, 0.0) + value
        node.estimated |= "estimated" in labels
    else:
        setattr(node, name, value)


def _implausible(node: NodeMeasured, month: Month) -> list[str]:
    """Drop what cannot be of a node, and say so."""
    most = month.hours * SLACK + 1
    if node.gpu_hours > most * MOST_GPUS or node.hours > most or node.busy_hours > node.gpu_hours * SLACK + 1:
        node.gpu_hours = 0.0
        return ["its hours cannot be true, so nothing of what it measured counts"]
    told = []
    # The rule of used is older than those of the node's hours: when these come, a month has more used than measured.
    gpus = min(node.gpu_hours / node.hours, MOST_GPUS) if node.hours else 0.0
    bound = max(node.gpu_hours, month.hours * gpus)
    if any(hours > bound * SLACK + 1 for hours in node.used.values()):
        node.used = {user: min(hours, bound) for user, hours in node.used.items()}
        told.append("somebody has more hours than its GPUs; they were cut")
    if sum((node.kwh or {}).values()) > (node.gpu_hours + 1) * MOST_KW * SLACK:
        node.kwh = None
        told.append("its energy cannot be true, and does not count")
    return told
