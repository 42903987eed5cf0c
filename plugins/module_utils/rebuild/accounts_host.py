# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The accounts of a node as its files have them, and their change: the files at once, then the owners of files."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.capture import homes
from ansible_collections.gpulab.node.plugins.module_utils.core import locks
from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import LOCAL, WITHOUT_OWNERS, mounts
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import accounts, record, release
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.outcome import Outcome
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.renumber import Renumbering

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.account_files import User
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.module_utils.rebuild.asked import WithAccounts

LOCK = "/etc/.pwd.lock"  # of lckpwdf(3): useradd and passwd wait for it
LOGIN_DEFS = "/etc/login.defs"
MODES = {accounts.SHADOW: 0o640, accounts.GSHADOW: 0o640}
SECRET = frozenset(MODES)
IN_MEMORY = {"tmpfs"}
_DAY = 86400


def restore(node: Node, asked: WithAccounts, *, check: bool, state: Path = record.DIRECTORY) -> dict[str, Any]:
    """Give accounts their numbers, passwords and groups. Raises Refusal R041; see accounts.plan for what is decided.

    reconnect tells whether who is logged in now has another number; stale are accounts whose processes still run with
    the former one until the next boot.
    """
    outcome = Outcome()
    walk = Renumbering(state / "renumbering.json")
    now = {path: text for path in accounts.FILES if (text := _text(node, path)) is not None}
    captured = {path: data.decode("utf-8", "surrogateescape") for path, data in asked.decoded().items()}
    known = record.read(state / record.PLACE.name)
    plan = accounts.plan(now, captured, _context(node, asked, known))
    for path, text in plan.texts.items():
        outcome.change("write", path)
        if path not in SECRET:
            outcome.show(path, _numbers(now.get(path, "")), _numbers(text))
    for kind, moves in (("user", plan.uids), ("group", plan.gids)):
        for old, new in moves.items():
            outcome.change("change", f"{kind} {old} to {new}")
    if walk.begun:
        outcome.change("change", "the owners of files, which an earlier run began")
    for name, why in plan.lacking:
        outcome.lack(accounts.SECTION, name, why)
    for one in asked.accounts.directory.names:
        outcome.lack(accounts.SECTION, one.name, f"a directory service knows this {one.kind}, not the node itself")
    user = next((one for one in homes.accounts(node) if one.name == asked.user), None)
    moved = user is not None and (user.uid in plan.uids or user.gid in plan.gids)
    stale = _running(node, plan.uids)
    if not check:
        _apply(node, plan, walk, user, state)
        for name in sorted({*stale, *_nobodys(node)}):
            outcome.lack(accounts.SECTION, name, "it runs with its former number until the node is started again")
    return outcome.result(reconnect=moved and not check, stale=stale)


def _text(node: Node, path: str) -> str | None:
    data = node.data(path)
    return None if data is None else data.decode("utf-8", "surrogateescape")


def _context(node: Node, asked: WithAccounts, known: dict[str, set[str]]) -> accounts.Node:
    least = re.search(r"^\s*UID_MIN\s+(\d{1,9})\b", node.text(LOGIN_DEFS), re.MULTILINE)
    foreign = [(one.kind, one.id) for one in asked.accounts.unnamed]
    foreign += [(one.kind, one.id) for one in asked.accounts.directory.names]
    reserved = [frozenset(number for kind, number in foreign if kind == wanted) for wanted in ("user", "group")]
    return accounts.Node(
        host=asked.host,
        user=asked.user,
        least=int(least[1]) if least else accounts.LEAST,
        same_release=not release.difference(node, asked.machine.system),
        has_shell=lambda shell: node.path(node.resolve(shell)).is_file(),
        restored=known["accounts"],
        restored_groups=known["groups"],
        today=int(time.time()) // _DAY,
        reserved=(reserved[0], reserved[1]),
    )


def _numbers(text: str) -> str:
    """Return names and numbers of a file like passwd(5) or subuid(5), for a diff."""
    lines = (line.split(":") for line in text.splitlines())
    return "".join(f"{fields[0]} {' '.join(filter(str.isdigit, fields[1:4]))}\n" for fields in lines)


def _nobodys(node: Node) -> set[str]:
    """Return the programs that run with a number for the system that no account has: it was another one's before."""
    known = {one.uid for one in homes.accounts(node)}
    found = set()
    for process in filter(str.isdigit, node.names("/proc")):
        with contextlib.suppress(OSError):
            uid = node.path(f"/proc/{process}").stat().st_uid
            if uid not in known and uid < accounts.LEAST:
                found.add(node.text(f"/proc/{process}/comm"))
    return found


def _running(node: Node, uids: dict[int, int]) -> list[str]:
    """Return the names of accounts that get another number and have processes."""
    numbers = set()
    for process in filter(str.isdigit, node.names("/proc")):
        with contextlib.suppress(OSError):
            numbers.add(node.path(f"/proc/{process}").stat().st_uid)
    return sorted(one.name for one in homes.accounts(node) if one.uid in uids and one.uid in numbers)


def _apply(node: Node, plan: accounts.Plan, walk: Renumbering, user: User | None, state: Path) -> None:
    places = tops(node)
    same = plan.uids.items() <= walk.uids.items() and plan.gids.items() <= walk.gids.items()
    if walk.begun and not same:  # somebody changed accounts since
        walk.finish(places)
    if (plan.uids or plan.gids) and not (walk.begun and same):
        walk.begin(plan.uids, plan.gids)
        if user and user.uid in plan.uids and user.home.strip("/"):
            walk.first(node.path(user.home))
    with locks.held(node.path(LOCK), take=fcntl.lockf):
        for path in (path for path in accounts.FILES if path in plan.texts):
            _write(node, path, plan.texts[path], plan.gids)
    if walk.begun:
        walk.finish(places)
    record.add(state / record.PLACE.name, accounts=plan.whole, groups=plan.whole_groups)


def tops(node: Node) -> list[str]:
    """Return where the walk begins: on the root disk, and in memory; what lies on kept disks has its numbers."""
    places = homes.Places(node)
    found = ["/"]
    for mount in mounts(node.text("/proc/self/mountinfo")):
        own = mount.type in LOCAL - WITHOUT_OWNERS and places.on_root_disk(mount.place)
        if mount.place != "/" and (own or mount.type in IN_MEMORY) and not mount.read_only:
            found.append(mount.place)
    return [str(node.path(one)) for one in found]


def _write(node: Node, path: str, text: str, gids: dict[int, int]) -> None:
    """Replace a file as a whole, with the rights that it has."""
    place = node.path(path)
    mode, owner, group = MODES.get(path, 0o644), 0, 0
    if place.exists():
        status = place.stat()
        mode, owner, group = stat.S_IMODE(status.st_mode), status.st_uid, gids.get(status.st_gid, status.st_gid)
    handle, draft = tempfile.mkstemp(dir=place.parent, prefix=".gpulab-")
    with os.fdopen(handle, "wb") as stream:
        os.fchmod(handle, mode)
        if os.geteuid() == 0:
            os.fchown(handle, owner, group)
        stream.write(text.encode("utf-8", "surrogateescape"))
        stream.flush()
        os.fsync(handle)
    Path(draft).replace(place)
