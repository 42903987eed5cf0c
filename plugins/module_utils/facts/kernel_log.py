# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel log says since boot: XIDs, SXids and other errors of GPUs, errors of disks, who was killed."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.driver import errors, known_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.services import (
        DiskErrors,
        KernelEvent,
        KernelLog,
        KilledProgram,
    )

JOURNAL = ["journalctl", "--dmesg", "--boot", "--output=short-iso", "--no-pager", "--quiet"]
BUFFER = ["dmesg", "--time-format=iso"]
# Forms as NVIDIA/open-gpu-kernel-modules prints them: kernel_rc.c (XIDs, with the MIG instance since 525), osinit.c
# (what has no XID), common_nvswitch.h and intr_nvswitch.h (SXids). Older drivers leave out "PCI:", newer ones add ".0".
_ADDRESS = r"(?P<address>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
_INSTANCE = r"(?: (?P<instance>GPU-I:\d+(?: GPU-CI:\d+)?))?"
XID = re.compile(rf"NVRM: Xid \((?:PCI:)?{_ADDRESS}{_INSTANCE}\): (?P<xid>\d{{1,6}}),? ?(?P<text>.*)")
# An SXid is followed by lines of the same number that hold its registers: they count as no further error.
SXID = re.compile(
    rf"nvidia-nvswitch\d+: SXid \(PCI:{_ADDRESS}\): (?P<xid>\d{{1,6}}), (?!Severity \d|Data \{{)(?P<text>.*)"
)
_SWITCH_GRAVITY = {"Fatal": "sxid_fatal", "Non-fatal": "sxid_nonfatal", "Correctable": "sxid_nonfatal"}
_WHOLE_ADDRESS = re.compile(r"\b[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?")
# Lines without a number, by their kind. What they are is in catalog/kernel_lines.yml.
SPEAKERS = {
    name: re.compile(rf"(?:^|\s)(?P<message>(?:{begin.replace('{address}', _WHOLE_ADDRESS.pattern)}).*)")
    for name, begin in known_errors.SPEAKERS.items()
}
WITHOUT_XID = {kind: (known["speaker"], re.compile(known["line"])) for kind, known in known_errors.LINES.items()}
_WORDS = ("NVRM", "nvidia", "mlx5_core")  # one of them is in every line that counts
# Of several lines, of which only the first names the GPU; a full stop ends the last.
_LONG = re.compile(r"NVRM: The NVIDIA .*GPU\b")
_CONTINUED = re.compile(r"NVRM: +(?!Xid \()(.*)")
_MOST_LINES = 8  # of one message; one whose end the kernel has dropped must not take in all that follows
# Forms as the kernel prints them: blk-mq.c (blk_status_to_str) and buffer.c. A discard that fails loses nothing.
DISK = re.compile(
    r"\b(?:I/O|critical medium) error(?:,| on) dev (?P<device>[\w!-]+),(?!.*\((?:DISCARD|WRITE_ZEROES)\))"
)
# mm/oom_kill.c, __oom_kill_process; the seconds are those of dmesg.
KILLED = re.compile(
    r"^(?:\[ *(?P<seconds>\d+)[\d.]*\] )?.*(?:Out of memory|Memory cgroup out of memory): "
    r"Killed process (?P<pid>\d+) \((?P<command>.{1,64}?)\)",
    re.MULTILINE,
)
TIME = re.compile(r"\d{4}-\d\d-\d\dT\S+")
# What stands before a message of the kernel: in the journal time and host, in the kernel's buffer a time
_BEFORE = re.compile(r"^(?:\d{4}-\d\d-\d\dT\S+ (?:\S+ kernel: ?)?|\[ *\d+\.\d+\] ?)?")
_FRACTION = re.compile(r"^(\d{4}-\d\d-\d\dT[\d:]+),\d+")
MOST_EVENTS = 200  # a failing board may write thousands; the last ones count


def events(log: str) -> list[KernelEvent]:
    """Return the errors about GPUs in a kernel log, oldest first, equal ones as one with a count and the last time.

    Each is {"kind", "xid", "bus_id", "count", "time", "text"}. kind is xid, sxid (of an NVSwitch; sxid_fatal or
    sxid_nonfatal where the driver says which), or one of WITHOUT_XID; xid is the number of an XID or SXid. xid, bus_id
    and time are None where the line has none. Of one number, errors that are judged otherwise are not equal, nor are
    those of two MIG instances, which their text names first. Of XID 154, which says what a GPU needs from then on, the
    last counts.
    """
    found: dict[tuple[Any, ...], KernelEvent] = {}
    for message in _messages(log):
        key, event = _event(message)
        if event is None:
            continue
        ended = known_errors.LINES.get(event["kind"], {}).get("ends")
        if ended:
            found = {one: past for one, past in found.items() if one[:3] != (ended, None, event["bus_id"])}
        else:
            count = found.pop(key)["count"] + 1 if key in found else 1
            found[key] = {**event, "count": count}
    return list(found.values())[-MOST_EVENTS:]


def _messages(log: str) -> Iterator[str]:
    """Yield the driver's lines, those of one message as one."""
    parts: list[str] = []
    for line in log.splitlines():
        more = _CONTINUED.search(line) if parts else None
        if more:
            parts.append(more.group(1))
        elif parts:
            yield " ".join(parts)
            parts = []
        if not more and _LONG.search(line):
            parts = [line.rstrip()]
        elif not more and any(word in line for word in _WORDS):
            yield line
        if parts and (parts[-1].endswith(".") or len(parts) == _MOST_LINES):
            yield " ".join(parts)
            parts = []
    if parts:
        yield " ".join(parts)


def _event(message: str) -> tuple[tuple[Any, ...], KernelEvent | None]:
    """Return what equal events have in common, and the event; None where the message is none."""
    kind, groups = _kind(message)
    if not kind:
        return (), None
    time = TIME.match(message)
    instance = groups.get("instance")
    event: KernelEvent = {
        "kind": kind,
        "xid": int(groups["xid"]) if "xid" in groups else None,
        "bus_id": sysfs_address(groups["address"]),
        "time": time.group() if time else None,
        "text": f"{instance}: {groups['text'].strip()}" if instance else str(groups["text"]).strip(),
        "count": 1,
    }
    gravity = None
    if event["xid"] != errors.RECOVERY_XID and "ends" not in known_errors.LINES.get(kind, {}):
        of = errors.judged(event)
        gravity = (of.severity, of.remedy)
    return (kind, event["xid"], event["bus_id"], instance, gravity), event


def _kind(message: str) -> tuple[str, dict[str, Any]]:
    """Return the kind of an event and {"address", "text"}, of an XID or SXid "xid" and "instance" too."""
    match = XID.search(message)
    if match:
        return "xid", match.groupdict()
    match = SXID.search(message)
    if match:
        return _SWITCH_GRAVITY.get(match["text"].partition(",")[0], "sxid"), match.groupdict()
    said = {name: match["message"] for name, speaker in SPEAKERS.items() if (match := speaker.search(message))}
    kind = next((kind for kind, (by, line) in WITHOUT_XID.items() if by in said and line.search(said[by])), "")
    if not kind:
        return "", {}
    text = said[WITHOUT_XID[kind][0]]
    address = _WHOLE_ADDRESS.search(text)
    return kind, {"address": address.group() if address else None, "text": text}


def sysfs_address(address: str | None) -> str | None:
    """Bring an address of the log, as 0000:05:00 or 00000000:05:00.0, to the kernel's form, 0000:05:00.0."""
    if not address:
        return None
    parts = address.lower().split(":")
    bus, device = parts[-2:]
    domain = parts[0] if len(parts) == 3 else "0"  # noqa: PLR2004 - domain:bus:device
    return f"{domain[-4:].zfill(4)}:{bus}:{device if '.' in device else device + '.0'}"


def disks(log: str, node: Node) -> list[DiskErrors]:
    """Return the errors of disks in a kernel log, of those that the node still has and that are no removable media."""
    found: dict[str, DiskErrors] = {}
    for line in log.splitlines():
        match = DISK.search(line) if " error" in line else None
        if match:
            device, time = match["device"], TIME.match(line)
            count = found[device]["count"] + 1 if device in found else 1
            found[device] = {"device": device, "count": count, "time": time.group() if time else None}
    return [found[device] for device in sorted(found) if _is_fixed(node, device)]


def killed(log: str) -> list[KilledProgram]:
    """Return the programs that the kernel has killed for want of memory, each with how often, in a kernel log."""
    found: dict[str, KilledProgram] = {}
    for match in KILLED.finditer(log):
        name, time = match["command"], TIME.match(match[0])
        count = found[name]["count"] + 1 if name in found else 1
        found[name] = {"command": name, "count": count, "time": time.group() if time else None}
    return [found[name] for name in sorted(found)]


def joined(journal: str, buffer: str) -> str:
    """Return the journal's lines, and after them those that only the kernel's own buffer has.

    A journal whose file system is full, or whose file is damaged, lacks lines and does not say so.
    """
    known = Counter(_BEFORE.sub("", line).strip() for line in journal.splitlines())
    lacking = []
    for line in buffer.splitlines():
        text = _BEFORE.sub("", line).strip()
        if known[text]:
            known[text] -= 1
        else:
            lacking.append(_FRACTION.sub(r"\1", line))
    return "\n".join([*journal.splitlines(), *lacking])


def _is_fixed(node: Node, device: str) -> bool:
    place = f"/sys/class/block/{device}"
    return node.exists(place) and node.number(f"{place}/removable") != 1


class KernelLogQuery:
    """A reading of the kernel log that runs beside the caller's other work."""

    def __init__(self, node: Node) -> None:
        """Start the programs that print it."""
        self._node = node
        self._jobs = [node.start(command) for command in (JOURNAL, BUFFER)]

    def facts(self) -> KernelLog:
        """Return {"readable", "events", "disks", "killed"}; a log that cannot be read is not an empty one."""
        log = joined(*(job.output() or "" for job in self._jobs))
        return {
            "readable": bool(log),
            "events": events(log),
            "disks": disks(log, self._node),
            "killed": killed(log),
        }
