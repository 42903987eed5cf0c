# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is at work on a node, so that a reboot would end what cannot come back by itself.

That is what runs in a login session, what somebody left running after it, every process of a person, whatever unit it
is in, jobs of cron and at, running jobs of systemd, what somebody started by hand, guests, virtual machines, containers
without a restart policy, a transaction of the package system, and who asks logind not to shut down. What starts again
at boot, greeters and the connection of this process do not count.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.gpulab.node.plugins.module_utils.core import account_files, locks
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import first
from ansible_collections.gpulab.node.plugins.module_utils.facts import guests, logins, units
from ansible_collections.gpulab.node.plugins.module_utils.facts.processes import (
    ancestors,
    boot_time,
    table,
    timestamp,
    user_name,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.module_utils.facts.processes import Process
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.driver import Person

LOGIN_DEFS = "/etc/login.defs"
_UID_MIN, _NOBODY = 1000, (65534, 65535, 4294967294)
# Numbers that Debian gives to daemons and systemd to greeters and to services with DynamicUser: nobody's, unless
# /etc/passwd lets who has one log in (https://systemd.io/UIDS-GIDS, Debian policy 9.2.2)
_OF_DAEMONS = range(60514, 65534)
_NO_LOGIN = ("/nologin", "/false", "/sync")
_USER_SLICE = re.compile(r"/user\.slice/user-(\d{1,10})\.slice/(.*)\Z")
_SESSION = re.compile(r"session-([^/]+)\.scope(?:/|\Z)")
_MANAGED = re.compile(r"user@\d+\.service/(.*)\Z")
_OWN_PLACES = ("init.scope", "session.slice/", "background.slice/")  # of a user's systemd, for what it needs itself
_PAUSE = re.compile(r"(?:\A|/)podman-pause-")  # holds the name spaces of a user's containers, and stays behind them
# Units in which people's processes are on a node without systemd-logind, and where cron and at run jobs on any node
_LOGINS = re.compile(r"(?:ssh|sshd|getty|serial-getty|console-getty|container-getty)(?:@.*)?\.service\Z")
_JOBS = re.compile(r"(?:cron|crond|cronie|anacron|atd)\.service\Z")
_RUN_SCOPE = re.compile(r"run-[^/]*\.scope\Z")  # as systemd-run --scope names them
_SLURM_STEP = re.compile(r"/job_\d+(?:/|\Z)")
_UNIT = (".service", ".scope")
# The start of control groups that are no work, or are told by their units; any other one somebody made by hand
_KNOWN_GROUPS = re.compile(
    r"/(?:\Z|.*\.(?:slice|scope|service|mount|swap|socket)(?:/|\Z)|lxc\.|libpod_parent|docker|k3s)"
)
# Processes that a session has and that do nobody's work
_QUIET = frozenset(
    {
        "sshd", "sshd-session", "sshd-auth", "login", "agetty", "cron", "crond", "anacron", "atd", "systemd",
        "(sd-pam)", "dbus-daemon", "dbus-broker", "dbus-broker-lau", "ssh-agent", "gpg-agent", "keyboxd", "dirmngr",
        "scdaemon", "pipewire", "pipewire-pulse", "pulseaudio", "wireplumber", "gnome-keyring-d", "snapd-desktop-i",
    }
)  # fmt: skip
_SHELLS = frozenset({"bash", "sh", "dash", "zsh", "fish", "ksh", "csh", "tcsh", "sudo", "su"})
_RUNS_GPULAB = re.compile(r"ansible")  # the start of the name of a program that this process may descend from
_MOST_COMMANDS = 4
SESSION, MANAGED, LOGIN, JOB, UNIT, GUEST = "session", "managed", "login", "job", "unit", "guest"
_BY_CONNECTION = (LOGIN, JOB, UNIT)  # kinds of which this process' own connection, or run, is only a part


class Work(NamedTuple):
    """What a process works for; name is a session, a unit, or the guest. uid is None where the process' own counts."""

    kind: str
    name: str
    uid: int | None = None
    guest: guests.Guest | None = None


class Persons:
    """Which numbers of users are people's."""

    def __init__(self, node: Node) -> None:
        """Read what the node says of its users."""
        least = re.search(r"^\s*UID_MIN\s+(\d{1,9})\b", node.text(LOGIN_DEFS), re.MULTILINE)
        self._least = int(least[1]) if least else _UID_MIN
        self._greeters = logins.greeters(node)
        known = account_files.users(node.text(account_files.PASSWD))
        self._log_in = {user.uid: user.home for user in known if not user.shell.endswith(_NO_LOGIN)}

    def has(self, uid: int) -> bool:
        """Tell whether a user is a person: by the number, or by an account that logs in to a home below /home."""
        if uid == 0 or uid in _NOBODY or uid in self._greeters:
            return False
        if uid < self._least or uid in _OF_DAEMONS:
            home = self._log_in.get(uid, "")
            return home.startswith("/home/") or (uid >= self._least and bool(home))
        return True


def people(node: Node, own: int) -> list[Person]:
    """List who is at work on the node, one entry per user and kind.

    place tells where that is no session. The connection that process ``own`` came by does not count. Another one of
    the same user from the same host is the operator's, and counts when more than a shell runs in it. A connection in
    which nothing runs is nobody's work.
    """
    processes = table(node)
    groups: dict[Work, list[Process]] = {}
    for process, work in _works(node, processes):
        groups.setdefault(work, []).append(process)
    mine = _mine(node, own, processes, groups)
    known = _logins(node, groups)
    of_sessions = list(_sessions(node, known, groups, mine))
    at_desktops = {login.uid for login, _entry in of_sessions if login.desktop}
    booted = boot_time(node.text("/proc/stat"))
    found = [entry for _login, entry in of_sessions]
    found += _others(node, groups, mine, at_desktops | logins.greeters(node), booted)
    found += _blockers(node, processes, mine, booted)
    return _by_user(found)


def _works(node: Node, processes: dict[int, Process]) -> Iterator[tuple[Process, Work]]:
    """Yield each process that does somebody's work, with what it works for."""
    persons, undecided = Persons(node), []
    for process in processes.values():
        if process.place is None or process.pid == 1 or guests.is_of_kubernetes(process.place):
            continue
        of_user = _USER_SLICE.match(process.place)
        if int(of_user[1]) in _NOBODY if of_user else _unit(process.place).startswith(units.GPULAB):
            continue  # gpulab's own: a step, or the try of Slurm's door
        work = _by_place(node, process, processes, persons)
        if work is not None:
            yield process, work
        elif process.place:
            undecided.append(process)
    judged = units.work(node, filter(None, (_unit(process.place or "") for process in undecided)))
    for process in undecided:
        unit = _unit(process.place or "")
        if unit in judged:
            yield process, Work(UNIT, f"in {unit} ({judged[unit]})", process.uid)
        elif not unit and not _KNOWN_GROUPS.match(process.place or ""):
            yield process, Work(UNIT, f"in the control group {process.place}", process.uid)


def _by_place(node: Node, process: Process, processes: dict[int, Process], persons: Persons) -> Work | None:
    """Tell what a process works for by its control group and its user alone; None where systemd has to be asked."""
    place = process.place or ""
    of_user, unit, kind = _USER_SLICE.match(place), _unit(place), None
    found = None if of_user else guests.guest(place, process.command)
    if found is None and (of_user or _LOGINS.match(unit) or _JOBS.match(unit)):
        found = guests.of_monitor(node, (processes[pid] for pid in _line(process.pid, processes)))
    if found:
        return Work(GUEST, found.name, guest=found)
    if of_user:
        return _of_user(node, int(of_user[1]), of_user[2], persons)
    if _JOBS.match(unit):
        kind = JOB
    elif persons.has(process.uid) or _SLURM_STEP.search(place) or _RUN_SCOPE.match(unit):
        kind = UNIT
    if _LOGINS.match(unit):  # one connection of many in the unit
        return Work(LOGIN, str(_first(process.pid, processes)))
    return Work(kind, f"in {unit or place or 'no unit'}", process.uid) if kind else None


def _of_user(node: Node, uid: int, below: str, persons: Persons) -> Work | None:
    """Tell what a process below a user's slice works for; a login manager's is nobody's work."""
    session, managed = _SESSION.match(below), _MANAGED.match(below)
    if not (uid == 0 or persons.has(uid)):
        return None
    if managed and (_PAUSE.search(managed[1]) or managed[1].startswith(_OWN_PLACES)):
        unit = managed[1].rpartition("/")[2]
        started = node.exists(f"/run/user/{uid}/systemd/transient/{unit}") and not unit.startswith("dbus-")
        if _PAUSE.search(managed[1]) or not started:
            return None
    return Work(SESSION, session[1], uid) if session else Work(MANAGED, below, uid)


def _unit(place: str) -> str:
    """Return the unit of the node's systemd that a control group is of; empty where it is of none."""
    return next((part for part in place.split("/") if part.endswith(_UNIT) and part != "init.scope"), "")


def _first(pid: int, processes: dict[int, Process]) -> int:
    """Return the first process of a connection: the child of the daemon, or what has left it."""
    while True:
        parent = processes.get(processes[pid].parent)
        if parent is None or parent.place != processes[pid].place or parent.parent in (0, 1):
            return pid
        pid = parent.pid


def _mine(node: Node, own: int, processes: dict[int, Process], groups: dict[Work, list[Process]]) -> set[int]:
    """Return this process with those it descends from, and all that belongs to the run of gpulab that it is of."""
    mine = set(ancestors(node, own))
    tops = {pid for pid in mine if pid in processes and _RUNS_GPULAB.match(processes[pid].command)}
    kinds = {process.pid: work.kind for work, there in groups.items() for process in there}
    if kinds.get(own) in _BY_CONNECTION:
        tops.add(_first(own, processes))
    return mine | {pid for pid in processes if tops & set(_line(pid, processes))}


def _line(pid: int, processes: dict[int, Process]) -> Iterator[int]:
    """Yield a process and those it descends from, of a table that was read while processes came and went."""
    seen: set[int] = set()
    while pid in processes and pid not in seen:
        seen.add(pid)
        yield pid
        pid = processes[pid].parent


def _logins(node: Node, groups: dict[Work, list[Process]]) -> dict[str, logins.Login | None]:
    """Return the login sessions by their names: logind's; utmp's where nothing else tells who is logged in."""
    known = logins.sessions(node)
    if not any(known.values()) and not any(work.kind == LOGIN for work in groups):
        return dict(logins.utmp_sessions(node.data("/run/utmp") or b""))
    return known


def _sessions(
    node: Node, known: dict[str, logins.Login | None], groups: dict[Work, list[Process]], mine: set[int]
) -> Iterator[tuple[logins.Login, Person]]:
    """Yield each session in which somebody works, and take its processes out of the groups."""
    of_session = _of_sessions(groups, known)
    present = {name: login for name, login in known.items() if login}
    own = {name for name, login in present.items() if _is_own(login, of_session.get(name, ()), mine)}
    operators = {(present[name].user, present[name].host) for name in own if present[name].host}
    for name, login in ((name, login) for name, login in present.items() if name not in own):
        there = of_session.get(name, [])
        commands = _commands(there, _QUIET | _SHELLS if (login.user, login.host) in operators else _QUIET)
        logged_in = not login.job and node.exists(f"/proc/{login.leader}")
        if commands or (logged_in and (login.desktop or not there)):
            place = "as a job of cron" if login.job else ""
            entry = _entry(login.user, login.since, commands, desktop=login.desktop, logged_in=logged_in, place=place)
            yield login, entry


def _of_sessions(groups: dict[Work, list[Process]], known: Container[str]) -> dict[str, list[Process]]:
    """Take the processes of known sessions out of the groups; return them by session."""
    found: dict[str, list[Process]] = {}
    for work in [work for work in groups if work.kind == SESSION and work.name in known]:
        found[work.name] = [*found.get(work.name, ()), *groups.pop(work)]
    return found


def _is_own(login: logins.Login, there: Iterable[Process], mine: set[int]) -> bool:
    """Tell whether a session is the one that this run of gpulab came by."""
    return login.leader in mine or any(process.pid in mine for process in there)


def _others(
    node: Node, groups: dict[Work, list[Process]], mine: set[int], drawn: set[int | None], booted: int
) -> Iterator[Person]:
    """Yield who works outside of the sessions that are known; drawn are users who are named already, or draw only."""
    going = guests.not_coming_back(node, [work.guest for work in groups if work.guest])
    for work, there in groups.items():
        others = [process for process in there if process.pid not in mine]
        own = len(others) < len(there) and work.kind in (SESSION, LOGIN)
        if own or (work.kind == MANAGED and work.uid in drawn) or (work.guest and work.guest not in going):
            continue
        commands = _commands(others, frozenset() if work.guest else _QUIET)
        doing = [process for process in others if process.command in commands]
        if doing:
            uid = doing[0].uid if work.uid is None else work.uid
            place = f"in {going[work.guest]}" if work.guest else work.name if work.kind in (JOB, UNIT) else ""
            logged_in = work.kind == LOGIN and len(there) > len(doing)  # the daemon's own process for it is there
            yield _entry(user_name(uid), _since(doing, booted), commands, place=place, logged_in=logged_in)


def _blockers(node: Node, processes: dict[int, Process], mine: set[int], booted: int) -> Iterator[Person]:
    """Yield who holds the package system, and who asks logind not to shut down."""
    for inhibitor in logins.inhibitors(node):
        process = processes.get(inhibitor["pid"])
        if inhibitor["pid"] not in mine:
            since = _since([process], booted) if process else None
            place = f"and asks not to shut down: {inhibitor['why'] or 'it does not say why'}"
            yield _entry(user_name(inhibitor["uid"]), since, [inhibitor["who"] or "a program"], place=place)
    proc = node.path("/proc")
    of_dnf = locks.find_named(tuple(node.path(str(path)) for path in locks.DNF_PIDS), proc)
    paths = tuple(node.path(str(path)) for path in (*locks.APT_LOCKS, *locks.RPM_LOCKS))
    holder = of_dnf or locks.find_holder(paths, proc)
    if holder and holder.pid not in mine:
        process = processes.get(holder.pid)
        user, since = (user_name(process.uid), _since([process], booted)) if process else ("root", None)
        command = process.command if process else f"process {holder.pid}"
        yield _entry(user, since, [command], place="and changes the node's packages")


def _since(processes: list[Process], booted: int) -> str | None:
    return timestamp(booted + min(process.start for process in processes) / os.sysconf("SC_CLK_TCK"))


def _commands(processes: Iterable[Process], idle: frozenset[str]) -> list[str]:
    """Name the programs that do work, shells last."""
    names = {process.command for process in processes} - idle - {""}
    return sorted(names, key=lambda name: (name in _SHELLS, name))


def _entry(  # noqa: PLR0913
    user: str,
    since: str | None,
    commands: list[str],
    *,
    desktop: bool = False,
    logged_in: bool = False,
    place: str = "",
) -> Person:
    return {
        "user": user,
        "since": since,
        "desktop": desktop,
        "logged_in": logged_in,
        "commands": commands,
        "place": place,
    }


def _by_user(entries: list[Person]) -> list[Person]:
    """Merge all entries of a user, kind and place; since is that of the first."""
    merged: dict[tuple[str, bool, bool, str], Person] = {}
    for entry in entries:
        key = entry["user"], entry["desktop"], entry["logged_in"], entry["place"]
        before = merged.setdefault(key, entry)
        if before is not entry:
            before["since"] = min(filter(None, (before["since"], entry["since"])), default=None)
            before["commands"] = list(dict.fromkeys([*before["commands"], *entry["commands"]]))
    return list(merged.values())


def at_work(person: Person) -> str:
    """Describe in a few words who is at work, how, and since when."""
    doing, place = first(person["commands"], _MOST_COMMANDS), person.get("place", "")
    since = f" since {person['since']}" if person["since"] else ""
    if person["desktop"]:
        return f"{person['user']} at a desktop{since}"
    if place:
        return f"{person['user']} runs {doing} {place}{since}"
    if person["logged_in"]:
        return f"{person['user']}, who is logged in" + (f" ({doing})" if doing else "") + since
    return f"{person['user']}, logged out, still runs {doing}{since}"
