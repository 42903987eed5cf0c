# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes of a node, and which of them are people's work, which a reboot would end without anybody's consent.

People's work is what runs in a login session, what somebody left running after it (tmux, nohup, a service of a user who
lingers), jobs of cron and at, units that somebody started with systemd-run, and virtual machines of libvirt.
Services, containers (users has those with a GPU), greeters and the connection of this process do not count.
"""

from __future__ import annotations

import os
import posixpath
import pwd
import re
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import first

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

DISPLAY_MANAGER = "/etc/systemd/system/display-manager.service"  # a link to the unit of the one that is set up
SESSIONS, TRANSIENT = "/run/systemd/sessions", "/run/systemd/transient"
_DESKTOPS = ("x11", "wayland", "mir")  # types of sessions
# Classes of sessions (sd_session_get_class(3)) with people's work; a session of the class background is a job of cron
_PEOPLE, _BACKGROUND = ("user", "user-early", "user-light", "user-early-light"), ("background", "background-light")
_UTMP = struct.Struct("<hxxi32s4s32s256shhiii16s20s")  # utmp(5) on 64-bit Linux
_USER_PROCESS = 7
_PARENT, _START = 1, 19  # fields 4 and 22 of proc_pid_stat(5), counted from behind the name
_KTHREADD = 2  # the parent of the kernel's own threads
_NOBODY = 65534
_SYSTEM_USERS = range(1, 1000)
_GREETER = re.compile(r"\A(?=.*^CLASS=greeter$).*^UID=(\d{1,10})$", re.MULTILINE | re.DOTALL)
_USER_SLICE = re.compile(r"/user\.slice/user-(\d{1,10})\.slice/(.*)\Z")
_SESSION = re.compile(r"session-([^/]+)\.scope(?:/|\Z)")
_MANAGED = re.compile(r"user@\d+\.service/(.*)\Z")
_OWN_PLACES = ("init.scope", "session.slice/", "background.slice/")  # of a user's systemd, for what it needs itself
# Units in which people's processes are on a node without systemd-logind, and where cron and at run jobs on any node
_LOGINS = re.compile(r"(?:ssh|sshd|getty|serial-getty|console-getty|container-getty)(?:@.*)?\.service\Z")
_JOBS = re.compile(r"(cron|crond|cronie|atd)\.service\Z")
_RUN_SCOPE = re.compile(r"run-[^/]*\.scope\Z")  # as systemd-run --scope names them
_MACHINES = "/machine.slice/machine-qemu"  # libvirt's
_OWN_UNITS = "gpulab-"
# Processes that a session has and that do nobody's work
_QUIET = frozenset(
    {
        "sshd", "sshd-session", "sshd-auth", "login", "agetty", "cron", "crond", "atd", "systemd", "(sd-pam)",
        "dbus-daemon", "dbus-broker", "dbus-broker-lau", "ssh-agent", "gpg-agent", "keyboxd", "dirmngr", "scdaemon",
        "pipewire", "pipewire-pulse", "pulseaudio", "wireplumber", "gnome-keyring-d", "snapd-desktop-i",
    }
)  # fmt: skip
_SHELLS = frozenset({"bash", "sh", "dash", "zsh", "fish", "ksh", "csh", "tcsh", "sudo", "su"})
_MOST_COMMANDS = 4
SESSION, MANAGED, LOGIN, JOB, UNIT = "session", "managed", "login", "job", "unit"


@dataclass(frozen=True)
class Login:
    """A login session; host is where it came from, empty where it is not known."""

    leader: int
    uid: int | None
    user: str
    since: str | None
    desktop: bool
    host: str


@dataclass(frozen=True)
class Process:
    """A process that does somebody's work; kind and name tell where it runs."""

    pid: int
    start: int
    command: str
    uid: int
    kind: str
    name: str


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


def utmp_sessions(data: bytes) -> dict[str, Login]:
    """Parse the logins in /run/utmp, by their places in it; it does not show desktops."""
    found = {}
    for offset in range(0, len(data) - _UTMP.size + 1, _UTMP.size):
        record = _UTMP.unpack_from(data, offset)
        if record[0] == _USER_PROCESS:
            user, host = (record[place].split(b"\0")[0].decode("utf-8", "replace") for place in (4, 5))
            found[f"utmp-{offset}"] = Login(record[1], None, user, timestamp(record[9]), desktop=False, host=host)
    return found


def logind_session(text: str) -> Login | None:
    """Parse one file of /run/systemd/sessions; None for a session without people's work."""
    fields = dict(line.partition("=")[::2] for line in text.splitlines())
    kind = fields.get("CLASS", "user")
    uid = _number(fields.get("UID", ""))
    job = kind in _BACKGROUND and _of_person(uid)
    if not fields.get("USER") or not (kind in _PEOPLE or job):
        return None
    return Login(
        leader=_number(fields.get("LEADER", "")),
        uid=uid,
        user=user_name(fields["USER"]),
        since=timestamp(_number(fields.get("REALTIME", "")) // 1_000_000),
        desktop=fields.get("TYPE") in _DESKTOPS,
        host=fields.get("REMOTE_HOST", ""),
    )


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


def work_of_people(node: Node) -> list[Process]:
    """Find the processes in people's sessions, in users' own units, of jobs, and in units of systemd-run."""
    kin, places = {}, {}
    for name in filter(str.isdigit, node.names("/proc")):
        parent, start = process_fields(node.text(f"/proc/{name}/stat"))
        if _KTHREADD not in (int(name), parent):
            kin[int(name)] = parent, start
            places[int(name)] = control_group(node.text(f"/proc/{name}/cgroup"))
    home = places.get(1, "").partition("/init.scope")[0].rstrip("/")  # a container may see where its host has it
    found = []
    for pid, place in places.items():
        where = _where(node, place[len(home) :]) if place.startswith(f"{home}/") else None
        if where:
            kind, name, uid = where
            if kind == LOGIN:  # one connection of many in the unit
                name = str(_first(pid, kin, places))
            uid = _uid(node, pid) if uid is None else uid
            found.append(Process(pid, kin[pid][1], node.text(f"/proc/{pid}/comm"), uid, kind, name))
    return found


def _where(node: Node, place: str) -> tuple[str, str, int | None] | None:
    """Tell whose work a control group is: (kind, name, the user's number where the group tells it)."""
    match = _USER_SLICE.match(place)
    if match:
        uid, below = int(match.group(1)), match.group(2)
        session, managed = _SESSION.match(below), _MANAGED.match(below)
        if uid in _SYSTEM_USERS or (managed and managed.group(1).startswith(_OWN_PLACES)):
            return None
        return (SESSION, session.group(1), uid) if session else (MANAGED, match.group(1), uid)
    unit = next((part for part in place.split("/") if part.endswith((".service", ".scope"))), "")
    kinds = {
        LOGIN: _LOGINS.match(unit),
        JOB: _JOBS.match(unit),
        UNIT: _RUN_SCOPE.match(unit) or (unit.endswith(".service") and node.exists(f"{TRANSIENT}/{unit}")),
    }
    if place.startswith(_MACHINES):
        return UNIT, unit, None
    if not place.startswith("/system.slice/") or unit.startswith(_OWN_UNITS):
        return None
    return next(((kind, unit, None) for kind, holds in kinds.items() if holds), None)


def _first(pid: int, kin: dict[int, tuple[int, int]], places: dict[int, str]) -> int:
    """Return the first process of a connection: the child of the daemon, or what has left it."""
    while True:
        parent = kin[pid][0]
        if parent not in kin or places[parent] != places[pid] or kin[parent][0] in (0, 1):
            return pid
        pid = parent


def _uid(node: Node, pid: int) -> int:
    match = re.search(r"^Uid:\s+(\d{1,10})", node.text(f"/proc/{pid}/status"), re.MULTILINE)
    return int(match.group(1)) if match else 0


def _of_person(uid: int) -> bool:
    return uid not in _SYSTEM_USERS and uid not in (0, _NOBODY)


def people(node: Node, own: int) -> list[dict[str, Any]]:
    """List who is at work on the node: {user, since, desktop, logged_in, commands}, one entry per user and kind.

    The connection that process ``own`` came by does not count. Another one of the same user from the same host is the
    operator's, and counts when more than a shell runs in it. A connection in which nothing runs is nobody's work.
    """
    mine, booted = set(ancestors(node, own)), boot_time(node.text("/proc/stat"))
    files = {name: node.text(f"{SESSIONS}/{name}") for name in node.names(SESSIONS)}
    logins = {name: logind_session(text) for name, text in files.items()}
    places: dict[tuple[str, str], list[Process]] = {}
    for process in work_of_people(node):
        places.setdefault((process.kind, process.name), []).append(process)
    own_places = {place for place, there in places.items() if any(process.pid in mine for process in there)}
    if not any(logins.values()) and not any(kind == LOGIN for kind, _name in places):
        logins = dict(utmp_sessions(node.data("/run/utmp") or b""))
    own_logins = [
        login for name, login in logins.items() if login and (login.leader in mine or (SESSION, name) in own_places)
    ]
    operators = {(login.user, login.host) for login in own_logins if login.host}
    greeters = _greeters(files.values())
    found, at_desktops = [], set()
    for name, login in logins.items():
        there = places.pop((SESSION, name), [])
        if login is None or login in own_logins:
            continue
        idle = _QUIET | _SHELLS if (login.user, login.host) in operators else _QUIET
        commands = _commands(there, idle)
        logged_in = node.exists(f"/proc/{login.leader}")
        if commands or (logged_in and (login.desktop or not there)):
            found.append(_entry(login.user, login.since, commands, desktop=login.desktop, logged_in=logged_in))
            at_desktops |= {login.uid} if login.desktop else set()
    for (kind, name), there in places.items():
        counted = [one for one in there if kind != JOB or name == "atd.service" or _of_person(one.uid)]
        commands = _commands([one for one in counted if one.pid not in mine], _QUIET)
        doing = [one for one in counted if one.command in commands]
        if not doing or ((kind, name) in own_places and kind in (SESSION, LOGIN)):
            continue
        if not (kind == MANAGED and doing[0].uid in at_desktops | greeters):
            since = timestamp(booted + min(one.start for one in doing) / os.sysconf("SC_CLK_TCK"))
            logged_in = kind == LOGIN and len(there) > len(doing)  # the daemon's own process for it is there
            found.append(_entry(user_name(doing[0].uid), since, commands, desktop=False, logged_in=logged_in))
    return _by_user(found)


def draw_login_screen(node: Node, pid: int) -> bool:
    """Tell whether a process belongs to the display manager or its greeter; people at a desktop are named by people."""
    cgroup = node.text(f"/proc/{pid}/cgroup")
    unit = posixpath.basename(node.link(DISPLAY_MANAGER) or "")
    if unit and re.search(rf"/system\.slice/{re.escape(unit)}$", cgroup, re.MULTILINE):
        return True
    place = _USER_SLICE.search(cgroup)
    files = (node.text(f"{SESSIONS}/{name}") for name in node.names(SESSIONS))
    return place is not None and _number(place[1]) in _greeters(files)


def _greeters(files: Iterable[str]) -> set[int]:
    """Return the users of greeters; files are those of sessions."""
    return {_number(match[1]) for match in map(_GREETER.search, files) if match}


def _commands(processes: Iterable[Process], idle: frozenset[str]) -> list[str]:
    """Name the programs that do work, shells last."""
    names = {process.command for process in processes} - idle - {""}
    return sorted(names, key=lambda name: (name in _SHELLS, name))


def _entry(user: str, since: str | None, commands: list[str], *, desktop: bool, logged_in: bool) -> dict[str, Any]:
    return {"user": user, "since": since, "desktop": desktop, "logged_in": logged_in, "commands": commands}


def _by_user(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge all entries of a user and kind; since is that of the first."""
    merged: dict[tuple[Any, ...], dict[str, Any]] = {}
    for entry in entries:
        key = entry["user"], entry["desktop"], entry["logged_in"]
        before = merged.setdefault(key, entry)
        if before is not entry:
            before["since"] = min(filter(None, (before["since"], entry["since"])), default=None)
            before["commands"] = list(dict.fromkeys([*before["commands"], *entry["commands"]]))
    return list(merged.values())


def at_work(person: dict[str, Any]) -> str:
    """Describe in a few words who is at work and how."""
    names = person["commands"]
    doing = first(names, _MOST_COMMANDS)
    if person["desktop"]:
        return f"{person['user']} at a desktop"
    if person["logged_in"]:
        return f"{person['user']}, who is logged in" + (f" ({doing})" if doing else "")
    return f"{person['user']}, logged out, still runs {doing}"
