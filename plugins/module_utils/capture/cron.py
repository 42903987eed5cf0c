# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The jobs of cron, anacron and at: all the places from which a node starts work by the clock.

Their forms are those of crontab(5), anacrontab(5) and run-parts(8); Debian's cron and cronie (RHEL) read other names.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.capture import homes
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.jobs import AtJob, CronJob
from ansible_collections.gpulab.node.plugins.module_utils.core import commands
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import HIDDEN
from ansible_collections.gpulab.node.plugins.module_utils.facts.processes import timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

SYSTEM, PARTS, ANACRON = "/etc/crontab", "/etc/cron.d", "/etc/anacrontab"
USERS = ("/var/spool/cron/crontabs", "/var/spool/cron")  # Debian's, cronie's
PERIODS = ("hourly", "daily", "weekly", "monthly", "yearly")
AT = ("/var/spool/cron/atjobs", "/var/spool/at")  # Debian's, RHEL's
_FIELDS = 5  # of a schedule
_ANACRON_FIELDS = 4
_ASSIGNED = re.compile(r"""\s*(["']?)([A-Za-z_][\w.-]*)\1\s*=\s*(.*?)\s*\Z""")
_DEBIANS = re.compile(r"[A-Za-z0-9_-]+")
_NOT_CRONIES = re.compile(r"[.#].*|.*(?:~|,v|\.(?:rpmsave|rpmorig|rpmnew|swp|cfsaved|bak|disabled))", re.DOTALL)
_PERCENT = re.compile(r"(?<!\\)%")
_AT_NAME = re.compile(r"[=A-Za-z]([0-9a-f]{5})([0-9a-f]{8})")
_AT_OWNER = re.compile(r"^# atrun uid=(\d{1,10})", re.MULTILINE)


def read(node: Node, owned: Callable[[str], bool]) -> list[CronJob]:
    """Return what cron and anacron start; owned tells whether a package has a path."""
    places = homes.Places(node)
    found = [*_tables(node, places), *(replace(job, path=ANACRON) for job in anacrontab(places.text(ANACRON)))]
    return [replace(job, package=owned(job.path)) for job in (*found, *_scripts(node, places))]


def _tables(node: Node, places: homes.Places) -> Iterator[CronJob]:
    debians = node.exists("/var/lib/dpkg/status")
    tables = [(SYSTEM, "", True)]
    tables += [(f"{PARTS}/{name}", "", _is_read(name, debians=debians)) for name in node.names(PARTS)]
    for directory in USERS:
        names = [name for name in node.names(directory) if not node.is_dir(f"{directory}/{name}")]
        tables += [(f"{directory}/{name}", name, not name.startswith("tmp.")) for name in names]
    for path, user, runs in tables:
        for job in table(places.text(path), user):
            yield replace(job, path=path, runs=runs)


def _scripts(node: Node, places: homes.Places) -> Iterator[CronJob]:
    """Yield the scripts of the directories for each period."""
    debians = node.exists("/var/lib/dpkg/status")
    for period in PERIODS:
        for name in node.names(f"/etc/cron.{period}"):
            path = f"/etc/cron.{period}/{name}"
            if name != ".placeholder":
                runs = _is_read(name, debians=debians) and _executable(node, places.local(path))
                yield replace(_job("root", period, path, {}), path=path, runs=runs)


def table(text: str, user: str = "") -> Iterator[CronJob]:
    """Yield the jobs of a crontab; of a system's, where each line names its user, without one."""
    environment: dict[str, str] = {}
    for line in text.split("\n"):
        assigned = _assigned(line)
        if assigned:
            environment.update([assigned])
            continue
        words = 1 if line.lstrip().startswith("@") else _FIELDS
        fields = line.split(None, words)
        if len(fields) <= words or fields[0].startswith("#"):
            continue
        who, command = (user, fields[words]) if user else (*fields[words].split(None, 1), "")[:2]
        if command:
            yield _job(who, " ".join(fields[:words]), command, environment)


def anacrontab(text: str) -> Iterator[CronJob]:
    """Yield the jobs of an anacrontab: period, delay in minutes, name, command."""
    environment: dict[str, str] = {}
    for line in text.split("\n"):
        assigned = _assigned(line)
        fields = line.split(None, _ANACRON_FIELDS - 1)
        if assigned:
            environment.update([assigned])
        elif len(fields) == _ANACRON_FIELDS and not fields[0].startswith("#"):
            period = fields[0] if fields[0].startswith("@") else f"{fields[0]} days"
            yield _job("root", period, fields[-1], environment)


def at_jobs(node: Node) -> Iterator[AtJob]:
    """Yield the jobs of at.

    A job holds the whole environment of who made it, secrets included, so nothing of its text is returned.
    """
    users = {one.uid: one.name for one in homes.accounts(node)}
    for path, match in ((f"{at}/{name}", _AT_NAME.fullmatch(name)) for at in AT for name in node.names(at)):
        if match:
            owner = _AT_OWNER.search(node.text(path))
            user = users.get(int(owner[1]), owner[1]) if owner else ""
            yield AtJob(path, user, timestamp(int(match[2], 16) * 60))


def _job(user: str, schedule: str, command: str, environment: dict[str, str]) -> CronJob:
    """Return a job of a file that is not named yet."""
    program, *given = _PERCENT.split(command, maxsplit=1)
    shown = commands.shown(program.strip()) + (f"%{HIDDEN}" if given else "")
    return CronJob("", user, schedule, shown, dict(environment), runs=True, package=False)


def _assigned(line: str) -> tuple[str, str] | None:
    """Return the variable that a line sets, and its value as people may see it."""
    match = _ASSIGNED.match(line)
    return (match[2], commands.shown_value(match[2], match[3])) if match else None


def _is_read(name: str, *, debians: bool) -> bool:
    """Tell whether cron and run-parts read a file of this name: Debian's know letters, digits, - and _ only."""
    return (_DEBIANS.fullmatch(name) is not None) if debians else (_NOT_CRONIES.fullmatch(name) is None)


def _executable(node: Node, path: str | None) -> bool:
    try:
        return path is not None and bool(node.path(path).stat().st_mode & 0o111)
    except OSError:
        return False
