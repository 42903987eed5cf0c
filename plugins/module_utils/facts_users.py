# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who uses the GPUs now, and who is logged in: those whose work a reboot would end."""

from __future__ import annotations

import os
import pwd
import re
import struct
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.facts_node import Node

# Daemons that hold the devices and no work of anybody's
SERVICES = frozenset({"nvidia-persistenced", "nv-fabricmanager", "nv-hostengine", "dcgm-exporter", "gpulab-metrics"})
_COMM = 15  # the kernel keeps this much of a command's name
_DEVICE = re.compile(r"/dev/nvidia(?:\d+|ctl|-uvm|-caps/.*)\Z")
_UTMP = struct.Struct("<hxxi32s4s32s256shhiii16s20s")  # utmp(5) on 64-bit Linux
_USER_PROCESS = 7
_PARENT, _START = 1, 19  # fields 4 and 22 of proc_pid_stat(5), counted from behind the name


def boot_time(stat: str) -> int:
    """Parse when the node booted, in seconds since 1970, from /proc/stat."""
    match = re.search(r"^btime (\d{1,18})$", stat, re.MULTILINE)
    return int(match.group(1)) if match else 0


def process_fields(stat: str) -> tuple[int, int]:
    """Parse a process' parent and its start, in clock ticks since boot, from /proc/PID/stat; 0 where unreadable."""
    fields = stat.rpartition(")")[2].split()  # the name before it may hold spaces and brackets
    if len(fields) <= _START:
        return 0, 0
    return _number(fields[_PARENT]), _number(fields[_START])


def utmp_sessions(data: bytes) -> list[dict[str, Any]]:
    """Parse the logins in /run/utmp: {leader, user, since}."""
    found = []
    for offset in range(0, len(data) - _UTMP.size + 1, _UTMP.size):
        record = _UTMP.unpack_from(data, offset)
        if record[0] == _USER_PROCESS:
            user = record[4].split(b"\0")[0].decode("utf-8", "replace")
            found.append({"leader": record[1], "user": user, "since": timestamp(record[9])})
    return found


def logind_session(text: str) -> dict[str, Any] | None:
    """Parse one file of /run/systemd/sessions; None where no user sits behind it."""
    fields = dict(line.partition("=")[::2] for line in text.splitlines())
    if fields.get("CLASS", "user") != "user" or not fields.get("USER"):
        return None
    leader, since = fields.get("LEADER", ""), fields.get("REALTIME", "")
    return {
        "leader": _number(leader),
        "user": fields["USER"],
        "since": timestamp(_number(since) // 1_000_000),
    }


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return 0


def timestamp(seconds: float) -> str | None:
    """Return UTC in ISO 8601; None for a time that no calendar has."""
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    except (OverflowError, OSError, ValueError):
        return None


def user_name(uid: int | str) -> str:
    """Return the name of a user, or the number where it has none."""
    try:
        return pwd.getpwuid(int(uid)).pw_name
    except (KeyError, ValueError, OverflowError):
        return str(uid)


def holders(node: Node, own: int) -> tuple[dict[int, str], bool]:
    """Find who has a GPU's device file open: {pid: device}; and whether every process could be looked into.

    Children of ``own`` do not count: one may be left from a reading that the driver never answered.

    Reads links only: /proc/PID/cmdline of a hung process can hang its reader.
    """
    found: dict[int, str] = {}
    complete = True
    for name in node.names("/proc"):
        if not name.isdigit():
            continue
        try:
            descriptors = [entry.name for entry in node.path(f"/proc/{name}/fd").iterdir()]
        except PermissionError:
            complete = False
            continue
        except OSError:  # it is gone
            continue
        for descriptor in descriptors:
            device = node.link(f"/proc/{name}/fd/{descriptor}")
            if device and _DEVICE.match(device) and process_fields(node.text(f"/proc/{name}/stat"))[0] != own:
                found[int(name)] = device
                break
    return found, complete


def ancestors(node: Node, pid: int) -> Iterator[int]:
    """Yield a process and those it descends from."""
    while pid > 0:
        yield pid
        pid = process_fields(node.text(f"/proc/{pid}/stat"))[0]


def sessions(node: Node, own: int) -> list[dict[str, Any]]:
    """List the logged-in sessions, less the one that process ``own`` runs in: {user, since}."""
    texts = (node.text(f"/run/systemd/sessions/{name}") for name in node.names("/run/systemd/sessions"))
    found = [session for session in map(logind_session, texts) if session]
    if not found:
        found = utmp_sessions(node.data("/run/utmp") or b"")
    mine = set(ancestors(node, own))
    alive = (
        session for session in found if session["leader"] not in mine and node.exists(f"/proc/{session['leader']}")
    )
    return [{"user": user_name(session["user"]), "since": session["since"]} for session in alive]


def process(node: Node, pid: int, device: str, booted: int) -> dict[str, Any]:
    """Describe one process that uses a GPU."""
    ticks = process_fields(node.text(f"/proc/{pid}/stat"))[1]
    try:
        uid: int | None = node.path(f"/proc/{pid}").stat().st_uid
    except OSError:
        uid = None
    command = node.text(f"/proc/{pid}/comm") or None
    return {
        "pid": pid,
        "user": None if uid is None else user_name(uid),
        "command": command,
        "since": timestamp(booted + ticks / os.sysconf("SC_CLK_TCK")) if ticks else None,
        "device": device,
        "service": command is not None and command in {name[:_COMM] for name in SERVICES},
    }


def read(node: Node, nvml_gpus: list[dict[str, Any]], own: int) -> dict[str, Any]:
    """Return the facts ``users_of_gpus``: open device files, and the processes that NVML names."""
    found, complete = holders(node, own)
    for gpu in nvml_gpus:
        processes = gpu.get("processes", [])
        for entry in processes if isinstance(processes, list) else []:
            found.setdefault(entry["pid"], f"/dev/nvidia{gpu.get('minor', '')}")
    booted = boot_time(node.text("/proc/stat"))
    who = [process(node, pid, device, booted) for pid, device in sorted(found.items())]
    busy = any(not entry["service"] for entry in who)
    return {
        "state": "busy" if busy else "idle" if complete else "unknown",
        "who": who,
        "sessions": sessions(node, own),
    }
