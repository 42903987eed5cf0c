# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check what the kernel log says of GPUs since the node booted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    NO_KERNEL_LOG,
    Result,
    check,
    inapplicable,
    info,
    ok,
    unknown,
)
from ansible_collections.gpulab.node.plugins.module_utils.driver import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts, Node

CATALOG = "https://docs.nvidia.com/deploy/xid-errors/"
NOT_STARTED = "init_failed"  # told once, by what explains it


@check("xids", proves="the driver has reported no GPU, board, link or switch error since boot", source=CATALOG)
def xids(node: Node) -> Iterator[Result]:
    """Judge each XID by NVIDIA's immediate action; what a user's program causes is only told."""
    readable = node.facts["kernel_log.readable"]
    if not readable and node.facts.get("system.container"):
        yield inapplicable("a container has its host's kernel log")
        return
    if not readable:
        yield unknown(NO_KERNEL_LOG)
        return
    events = node.facts["kernel_log.events"]
    explained = {event.get("bus_id") for event in events if errors.explains_start(event.data)}
    for event in events:
        if event["kind"] != NOT_STARTED or event.get("bus_id") not in explained:
            yield _judged(node, event)
    if not events:
        yield ok("no XID since the node booted", 0)


def _judged(node: Node, event: Facts) -> Result:
    seen = _seen(node, event)
    judged = errors.judged(event.data, [gpu.get("device") for gpu in node.facts.get("pci.gpus", [])])
    if errors.over_when_it_answers(event.data) and (seen["gpu"].get("uuid") or _all_answer(node, event)):
        return info(f"{judged.meaning}, but it answers now", **seen)
    at = f" ({seen['gpu']['bus_id']})" if seen["gpu"]["bus_id"] and not seen["gpu"].get("uuid") else ""
    return Result(judged.severity, f"{judged.meaning}{at}", remediation=judged.remedy, **seen)


def _all_answer(node: Node, event: Facts) -> bool:
    """Tell, of an event that names no GPU, whether NVML lists every one of the node."""
    present = {gpu["address"] for gpu in node.facts.get("pci.gpus", [])}
    return not event.get("bus_id") and bool(present) and present <= {gpu.get("bus_id") for gpu in node.gpus}


def _seen(node: Node, event: Facts) -> dict[str, Any]:
    """Return the evidence: how often, when, which line, which GPU."""
    gpu = next((gpu.identity() for gpu in node.gpus if gpu.get("bus_id") == event.get("bus_id")), None)
    count = event.get("count", 1)
    when = f", last {event.get('time')}" if event.get("time") else ""
    return {
        "observed": ("once" if count == 1 else f"{count} times") + when,
        "expected": "none",
        "reason": event.get("text") or None,
        "gpu": gpu or {"index": None, "uuid": None, "bus_id": event.get("bus_id")},
    }
