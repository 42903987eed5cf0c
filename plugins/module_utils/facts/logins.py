# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is logged in to a node, and what asks it not to shut down: by what systemd-logind keeps, or by utmp."""

from __future__ import annotations

import posixpath
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.facts.processes import number, timestamp, user_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

DISPLAY_MANAGER = "/etc/systemd/system/display-manager.service"  # a link to the unit of the one that is set up
SESSIONS, INHIBITORS = "/run/systemd/sessions", "/run/systemd/inhibit"
_DESKTOPS = ("x11", "wayland", "mir")  # types of sessions
# Classes of sessions (sd_session_get_class(3)) with people's work; a session of the class background is a job of cron
_PEOPLE, _BACKGROUND = ("user", "user-early", "user-light", "user-early-light"), ("background", "background-light")
_BLOCKS = ("block", "block-weak")  # modes of inhibitors; one that delays waits for some seconds only
_UTMP = struct.Struct("<hxxi32s4s32s256shhiii16s20s")  # utmp(5) on 64-bit Linux
_USER_PROCESS = 7
_GREETER = re.compile(r"\A(?=.*^CLASS=greeter$).*^UID=(\d{1,10})$", re.MULTILINE | re.DOTALL)
_USER_SLICE = re.compile(r"/user\.slice/user-(\d{1,10})\.slice/")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|([0-7]{3})|(.))")


@dataclass(frozen=True)
class Login:
    """A login session, or a job of cron that logind keeps as one; host is where it came from, empty where unknown."""

    leader: int
    uid: int | None
    user: str
    since: str | None
    desktop: bool
    host: str
    job: bool = False


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
    fields = _fields(text)
    kind = fields.get("CLASS", "user")
    if not fields.get("USER") or kind not in (*_PEOPLE, *_BACKGROUND):
        return None
    return Login(
        leader=number(fields.get("LEADER", "")),
        uid=number(fields.get("UID", "")),
        user=user_name(fields["USER"]),
        since=timestamp(number(fields.get("REALTIME", "")) // 1_000_000),
        desktop=fields.get("TYPE") in _DESKTOPS,
        host=fields.get("REMOTE_HOST", ""),
        job=kind in _BACKGROUND,
    )


def sessions(node: Node) -> dict[str, Login | None]:
    """Return logind's sessions by their names; None for those without people's work."""
    return {name: logind_session(node.text(f"{SESSIONS}/{name}")) for name in node.names(SESSIONS)}


def inhibitors(node: Node) -> Iterator[dict[str, Any]]:
    """Yield what blocks a shutdown, as systemd-inhibit shows it: {pid, uid, who, why}."""
    for name in node.names(INHIBITORS):
        fields = _fields(node.text(f"{INHIBITORS}/{name}"))
        pid = number(fields.get("PID", ""))
        blocks = "shutdown" in fields.get("WHAT", "").split(":") and fields.get("MODE") in _BLOCKS
        if blocks and node.exists(f"/proc/{pid}"):  # logind removes those of an ended process when it next looks
            who, why = (_unescaped(fields.get(key, "")) for key in ("WHO", "WHY"))
            yield {"pid": pid, "uid": number(fields.get("UID", "")), "who": who, "why": why}


def draw_login_screen(node: Node, pid: int) -> bool:
    """Tell whether a process belongs to the display manager or its greeter."""
    cgroup = node.text(f"/proc/{pid}/cgroup")
    unit = posixpath.basename(node.link(DISPLAY_MANAGER) or "")
    if unit and re.search(rf"/system\.slice/{re.escape(unit)}$", cgroup, re.MULTILINE):
        return True
    place = _USER_SLICE.search(cgroup)
    return place is not None and number(place[1]) in greeters(node)


def greeters(node: Node) -> set[int]:
    """Return the numbers of the users who draw the login screen."""
    files: Iterable[str] = (node.text(f"{SESSIONS}/{name}") for name in node.names(SESSIONS))
    return {number(match[1]) for match in map(_GREETER.search, files) if match}


def _fields(text: str) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in text.splitlines())


def _unescaped(text: str) -> str:
    """Return a value as systemd's cescape() had it: it escapes what a shell or a line could take amiss."""
    return _ESCAPE.sub(
        lambda match: chr(int(match[1], 16)) if match[1] else chr(int(match[2], 8)) if match[2] else match[3], text
    )
