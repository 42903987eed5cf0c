# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who owns a process, so that nobody is told to end what belongs to somebody.

Only what is proven to be left over has no owner: its parent is gone, no unit, session, container, guest or job has it,
and nothing is connected to it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.facts import guests
from ansible_collections.gpulab.node.plugins.module_utils.facts.logins import SESSIONS
from ansible_collections.gpulab.node.plugins.module_utils.facts.processes import ancestors, control_group

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

# The first process where it takes over what has lost its parent; in a container, it may be the program itself
INITS = frozenset(
    {"systemd", "init", "tini", "docker-init", "dumb-init", "catatonit", "s6-svscan", "runit", "openrc-init"}
)
_JOB = re.compile(r"/job_(\d+)(?:/|\Z)")
_SESSION = re.compile(r"/session-([^/]+)\.scope(?:/|\Z)")
_UNIT = re.compile(r"([^/]+\.(?:service|scope))(?=/|\Z)")
_MANAGER = re.compile(r"(?:user@\d+\.service|init\.scope|session-.*\.scope)\Z")  # of a user's systemd, or of a session
_OWN = re.compile(r"/gpulab-[^/]+\.(?:service|scope)(?:/|\Z)")
_TABLES = ("tcp", "tcp6", "udp", "udp6")
_CONNECTED = frozenset({"01", "0A"})  # established, listening (include/net/tcp_states.h)
_UNIX_LISTENS, _UNIX_CONNECTED = 0x10000, "03"  # include/linux/net.h: __SO_ACCEPTCON, SS_CONNECTED


def keeper(node: Node, pid: int, parent: int, environment: dict[str, str]) -> str | None:
    """Say who owns a process; None where nobody does, as far as this can be seen."""
    group = control_group(node.text(f"/proc/{pid}/cgroup"))
    job = environment.get("SLURM_JOB_ID") or next(iter(_JOB.findall(group)), None)
    guest = guests.guest(group, node.text(f"/proc/{pid}/comm"))
    if guest or guests.is_of_kubernetes(group):
        return f"container {guest.name[:12]} of {guest.engine}" if guest and guest.engine else "a container or a guest"
    if job:
        return f"job {job} of Slurm"
    session = _SESSION.search(group)
    if session and _is_open(node, session[1]):
        return f"session {session[1]}"
    units = [unit for unit in _UNIT.findall(group) if not _MANAGER.match(unit)]
    return units[-1] if units else _parent(node, parent)


def _is_open(node: Node, session: str) -> bool:
    """Tell whether somebody still is in a login session."""
    fields = dict(line.partition("=")[::2] for line in node.text(f"{SESSIONS}/{session}").splitlines())
    return node.exists(f"/proc/{fields.get('LEADER') or 'none'}")


def _parent(node: Node, parent: int) -> str | None:
    """Name the program that started a process; None where it is gone, and a system's or a user's init has it."""
    command = node.text(f"/proc/{parent}/comm")
    gone = not command or (command in INITS if parent == 1 else command == "systemd")
    return None if gone else f"its parent, {command} (PID {parent})"


def is_connected(node: Node, pid: int, sockets: Iterable[int]) -> bool:
    """Tell whether a process listens, or is connected to another one; sockets are the inodes of its open ones."""
    mine = set(map(str, sockets))
    for name in _TABLES if mine else ():
        for line in node.text(f"/proc/{pid}/net/{name}").splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[9] in mine and fields[3] in _CONNECTED:  # noqa: PLR2004 - up to the inode
                return True
    for line in node.text(f"/proc/{pid}/net/unix").splitlines()[1:] if mine else ():
        fields = line.split()  # Num RefCount Protocol Flags Type St Inode Path
        if len(fields) > 6 and fields[6] in mine:  # noqa: PLR2004 - up to the inode
            return bool(int(fields[3], 16) & _UNIX_LISTENS) or fields[5] == _UNIX_CONNECTED
    return False


def of_gpulab(node: Node, own: int, processes: Iterable[int]) -> set[int]:
    """Return the processes of this diagnosis, those that it descends from, and those of gpulab's own units."""
    found = {pid for pid in processes if _OWN.search(control_group(node.text(f"/proc/{pid}/cgroup")))}
    return found | set(ancestors(node, own))
