# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the NVIDIA driver said in the kernel log since the node booted: XIDs, and the lines that carry none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.facts_node import Node

COMMANDS = (["journalctl", "--dmesg", "--boot", "--output=short-iso", "--no-pager", "--quiet"], ["dmesg"])
# "NVRM: Xid (PCI:0000:05:00): 79, pid=..." of any driver; older ones leave out "PCI:", newer ones add ".0".
_ADDRESS = r"(?P<address>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
XID = re.compile(rf"NVRM: Xid \((?:PCI:)?{_ADDRESS}\): (?P<xid>\d{{1,6}}),? ?(?P<text>.*)")
# Three forms in which the driver gives a GPU up without an XID.
WITHOUT_XID = {
    "fallen_off_the_bus": re.compile(rf"NVRM: .*GPU {_ADDRESS}.*fallen off the bus"),
    "reset_required": re.compile(rf"NVRM: (?:.*?{_ADDRESS})?.*NV_ERR_RESET_REQUIRED"),
}
FATAL = re.compile(r"\bFatal\b")  # NVLink 5 errors are Fatal or Nonfatal in their text
TIME = re.compile(r"\d{4}-\d\d-\d\dT\S+")
MOST_EVENTS = 200  # a failing board may write thousands; the last ones count


def events(log: str) -> list[dict[str, Any]]:
    """Return the driver's errors in a kernel log, oldest first, equal ones as one with a count and the last time.

    Each is {"kind": "xid" | "fallen_off_the_bus" | "reset_required", "xid", "bus_id", "count", "time", "text"}; xid,
    bus_id and time are None where the line has none. A fatal error and one that is not are not equal.
    """
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for line in log.splitlines():
        event = _event(line) if "NVRM" in line else None
        if event:
            fatal = bool(FATAL.search(event["text"]))
            key = (event["kind"], event["xid"], event["bus_id"], fatal)
            count = found.pop(key, {"count": 0})["count"] + 1
            found[key] = {**event, "count": count}
    return list(found.values())[-MOST_EVENTS:]


def _event(line: str) -> dict[str, Any] | None:
    time = TIME.match(line)
    common = {"time": time.group() if time else None}
    match = XID.search(line)
    if match:
        bus_id = sysfs_address(match["address"])
        return {**common, "kind": "xid", "xid": int(match["xid"]), "bus_id": bus_id, "text": match["text"].strip()}
    for kind, pattern in WITHOUT_XID.items():
        match = pattern.search(line)
        if match:
            text = line[line.index("NVRM") :].strip()
            return {**common, "kind": kind, "xid": None, "bus_id": sysfs_address(match["address"]), "text": text}
    return None


def sysfs_address(address: str | None) -> str | None:
    """Bring an address of the log, as 0000:05:00 or 00000000:05:00.0, to the kernel's form, 0000:05:00.0."""
    if not address:
        return None
    parts = address.lower().split(":")
    bus, device = parts[-2:]
    domain = parts[0] if len(parts) == 3 else "0"  # noqa: PLR2004 - domain:bus:device
    return f"{domain[-4:].zfill(4)}:{bus}:{device if '.' in device else device + '.0'}"


class KernelLogQuery:
    """A reading of the kernel log that runs beside the caller's other work."""

    def __init__(self, node: Node) -> None:
        """Start the programs that print it."""
        self._jobs = [node.start(command) for command in COMMANDS]

    def facts(self) -> dict[str, Any]:
        """Return {"readable", "events"}; a log that cannot be read is not an empty one."""
        logs = [log for log in (job.output() for job in self._jobs) if log]
        return {"readable": bool(logs), "events": events(logs[0]) if logs else []}
