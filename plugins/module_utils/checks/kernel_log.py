# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check what the driver said in the kernel log since the node booted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    Result,
    check,
    fail,
    inapplicable,
    info,
    ok,
    unknown,
    warn,
)
from ansible_collections.gpulab.node.plugins.module_utils.facts.kernel_log import FATAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts, Node

CATALOG = "https://docs.nvidia.com/deploy/xid-errors/"
WITHOUT_XID = {
    "fallen_off_the_bus": ("the GPU has fallen off the bus", "reboot"),
    "reset_required": ("the GPU requires a reset", "reset_gpu"),
    "no_power": ("the GPU's power cables are not connected", "check_power"),
    "wrong_modules": ("the loaded kernel modules do not support this GPU", "other_modules"),
    "not_supported": ("the loaded driver does not support this GPU", "install_driver"),
    "init_failed": ("the driver could not start the GPU (RmInitAdapter failed)", "power_cycle"),
    "sxid": ("an NVSwitch reports an error", "contact_support"),
    "sxid_fatal": ("an NVSwitch reports a fatal error", "reboot"),
}
# If one of these is reported for a GPU, it explains why the driver could not start that GPU.
WHY_NOT_STARTED, OFF_THE_BUS = ("fallen_off_the_bus", "no_power", "wrong_modules", "not_supported"), 79
# NVLink 5 errors (XID 144 to 150) say in their text whether they end work; a fatal one needs what NVIDIA names.
NVLINK5 = range(144, 151)


@check("xids", proves="the driver has reported no GPU, board, link or switch error since boot", source=CATALOG)
def xids(node: Node) -> Iterator[Result]:
    """Judge each XID by NVIDIA's immediate action; what a user's program causes is only told."""
    readable = node.facts["kernel_log.readable"]
    if not readable and node.facts.get("system.container"):
        yield inapplicable("a container has its host's kernel log")
        return
    if not readable:
        yield unknown("the kernel log could not be read; reading it needs root")
        return
    events = node.facts["kernel_log.events"]
    whys = [event for event in events if event["kind"] in WHY_NOT_STARTED or event.get("xid") == OFF_THE_BUS]
    explained = {event.get("bus_id") for event in whys}
    for event in events:
        kind = event["kind"]
        if kind == "xid":
            yield _xid(node, event)
        elif kind != "init_failed" or event.get("bus_id") not in explained:
            yield _without_xid(node, event)
    if not events:
        yield ok("no XID since the node booted", 0)


def _without_xid(node: Node, event: Facts) -> Result:
    seen = _seen(node, event)
    number = f" (SXid {event['xid']})" if event.get("xid") else ""
    if event["kind"] == "sxid_nonfatal":
        return info(f"an NVSwitch reports an error that does not end any work{number}", **seen)
    text, remedy = WITHOUT_XID[event["kind"]]
    if event["kind"] == "init_failed" and seen["gpu"].get("uuid"):
        return info(f"{text}, but it answers now", **seen)
    return fail(f"{text}{number}", remedy, **seen)


def _xid(node: Node, event: Facts) -> Result:
    number = event["xid"]
    record: dict[str, Any] | None = node.catalog.get("xids", {}).get(number)
    if record is None:
        return warn(f"XID {number}, which NVIDIA does not document", "contact_support", **_seen(node, event))
    fatal = number in NVLINK5 and FATAL.search(event.get("text", ""))
    severity = "fail" if fatal else record["severity"]
    summary = f"XID {number}: {record['meaning']}"
    return Result(severity, summary, remediation=record["remedy"], **_seen(node, event))


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
