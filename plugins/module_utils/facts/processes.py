# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes of a node, read from /proc: what each is, whose, since when, and where systemd keeps it."""

from __future__ import annotations

import pwd
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

_PARENT, _FLAGS, _START = 1, 6, 19  # fields 4, 9 and 22 of proc_pid_stat(5), counted from behind the name
_PF_KTHREAD = 0x00200000  # linux/sched.h
_KTHREADD = 2  # the parent of the kernel's own threads; inside a container, any process may have this number


@dataclass(frozen=True)
class Process:
    """A process that is not the kernel's; place is its control group, below that of the node's first process."""

    pid: int
    parent: int
    start: int
    command: str
    uid: int
    place: str | None


def boot_time(stat: str) -> int:
    """Parse when the node booted, in seconds since 1970, from /proc/stat."""
    match = re.search(r"^btime (\d{1,18})$", stat, re.MULTILINE)
    return int(match.group(1)) if match else 0


def process_fields(stat: str) -> tuple[int, int]:
    """Parse a process' parent and its start, in clock ticks since boot, from /proc/PID/stat; 0 where unreadable."""
    fields = stat.rpartition(")")[2].split()  # the name before it may hold spaces and brackets
    if len(fields) <= _START:
        return 0, 0
    return number(fields[_PARENT]), number(fields[_START])


def number(text: str) -> int:
    """Return the number that a text is, 0 where it is none."""
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


def owner(node: Node, pid: int) -> int | None:
    """Return the number of the user of a process; None where it is gone."""
    try:
        return node.path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return None


def user_name(uid: int | str) -> str:
    """Return the name of a user, or the number where it has none."""
    try:
        return pwd.getpwuid(int(uid)).pw_name
    except (KeyError, ValueError, OverflowError):
        return str(uid)


def ancestors(node: Node, pid: int) -> Iterator[int]:
    """Yield a process and those it descends from."""
    while pid > 0:
        yield pid
        pid = process_fields(node.text(f"/proc/{pid}/stat"))[0]


def control_group(text: str) -> str:
    """Parse /proc/PID/cgroup: systemd's place of a process."""
    places = dict(line.split(":", 2)[1:] for line in text.splitlines() if line.count(":") > 1)
    return places.get("name=systemd") or places.get("", "")


def table(node: Node) -> dict[int, Process]:
    """Read every process of the node, without the kernel's threads.

    A node that is a container may see its control groups as its host does; a process outside of them has no place.
    """
    home = control_group(node.text("/proc/1/cgroup")).partition("/init.scope")[0].rstrip("/")
    stats = {int(name): node.text(f"/proc/{name}/stat") for name in node.names("/proc") if name.isdigit()}
    threads = node.text(f"/proc/{_KTHREADD}/comm") == "kthreadd"
    found = {}
    for pid, stat in stats.items():
        parent, start = process_fields(stat)
        if _is_kernels(stat) or (threads and _KTHREADD in (pid, parent)):
            continue
        place = control_group(node.text(f"/proc/{pid}/cgroup"))
        here = place == home or place.startswith(f"{home}/")
        command, uid = node.text(f"/proc/{pid}/comm"), _uid(node.text(f"/proc/{pid}/status"))
        found[pid] = Process(pid, parent, start, command, uid, place[len(home) :] if here else None)
    return found


def _is_kernels(stat: str) -> bool:
    fields = stat.rpartition(")")[2].split()
    return len(fields) > _FLAGS and bool(number(fields[_FLAGS]) & _PF_KTHREAD)


def _uid(status: str) -> int:
    match = re.search(r"^Uid:\s+(\d{1,10})", status, re.MULTILINE)
    return int(match.group(1)) if match else 0
