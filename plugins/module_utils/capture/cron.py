# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The jobs of cron, anacron and at: all the places from which a node starts work by the clock.

Their forms are those of crontab(5), anacrontab(5) and run-parts(8); Debian's cron and cronie (RHEL) read other names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.capture import homes
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


def read(node: Node, owned: Callable[[str], bool]) -> list[dict[str, Any]]:
    """Return what cron and anacron start: {"path", "user", "schedule", "command", "environment", "runs", "package"}.

    schedule is as crontab(5) writes it (five fields, or @daily), "N days" for anacron, hourly and so on for a script of
    such a directory, whose command is its path. environment has the variables of the file that stand before the line.
    Secrets are hidden in both, and so is what a command is given to read, after its %. runs is False where cron passes
    over the file, for its name or because nobody may execute it; package tells whether a package brought the file.
    """
    debians = node.exists("/var/lib/dpkg/status")
    tables = [(SYSTEM, "", True)]
    tables += [(f"{PARTS}/{name}", "", _is_read(name, debians=debians)) for name in node.names(PARTS)]
    for directory in USERS:
        names = [name for name in node.names(directory) if not node.is_dir(f"{directory}/{name}")]
        tables += [(f"{directory}/{name}", name, not name.startswith("tmp.")) for name in names]
    places, found = homes.Places(node), []
    for path, user, runs in tables:
        found += [{"path": path, **job, "runs": runs} for job in table(places.text(path), user)]
    found += [{"path": ANACRON, **job, "runs": True} for job in anacrontab(places.text(ANACRON))]
    for period in PERIODS:
        directory = f"/etc/cron.{period}"
        for path, name in ((f"{directory}/{name}", name) for name in node.names(directory)):
            if name != ".placeholder":
                runs = _is_read(name, debians=debians) and _executable(node, places.local(path))
                found.append({"path": path, **_job("root", period, path, {}), "runs": runs})
    return [{**job, "package": owned(job["path"])} for job in found]


def table(text: str, user: str = "") -> Iterator[dict[str, Any]]:
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


def anacrontab(text: str) -> Iterator[dict[str, Any]]:
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


def at_jobs(node: Node) -> list[dict[str, Any]]:
    """Return the jobs of at: {"path", "user", "time" (UTC, ISO 8601)}.

    A job holds the whole environment of who made it, secrets included, so nothing of its text is returned.
    """
    users = {one.uid: one.name for one in homes.accounts(node)}
    found = []
    for path, match in ((f"{at}/{name}", _AT_NAME.fullmatch(name)) for at in AT for name in node.names(at)):
        if match:
            owner = _AT_OWNER.search(node.text(path))
            user = users.get(int(owner[1]), owner[1]) if owner else ""
            found.append({"path": path, "user": user, "time": timestamp(int(match[2], 16) * 60)})
    return found


def _job(user: str, schedule: str, command: str, environment: dict[str, str]) -> dict[str, Any]:
    program, *given = _PERCENT.split(command, maxsplit=1)
    return {
        "user": user,
        "schedule": schedule,
        "command": commands.shown(program.strip()) + (f"%{HIDDEN}" if given else ""),
        "environment": dict(environment),
    }


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
