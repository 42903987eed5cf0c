# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The people of a node: accounts and groups with their numbers, which a rebuild gives them again before all else.

The local files are read, as passwd(5), shadow(5), group(5) and subuid(5) describe them. What a directory (SSSD, LDAP)
knows is asked only for the numbers that own files and that the local files do not name.
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.capture import homes
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.accounts import (
    Accounts,
    Directory,
    ForeignName,
    Group,
    IdRange,
    Unnamed,
    User,
)
from ansible_collections.gpulab.node.plugins.module_utils.core import account_files
from ansible_collections.gpulab.node.plugins.module_utils.core.account_files import GROUP, SHADOW, SUBGID, SUBUID

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.account_files import Range
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Job, Node

LOGIN_DEFS = "/etc/login.defs"
NSSWITCH, SSSD, KERBEROS = "/etc/nsswitch.conf", "/etc/sssd/sssd.conf", "/etc/krb5.conf"
SET, LOCKED, EMPTY, UNKNOWN = "set", "locked", "empty", "unknown"  # a password; empty lets anybody in
_OWN_SERVICES = frozenset(
    {"files", "compat", "systemd", "altfiles", "db", "extrausers", "mymachines"}
)  # not a directory elsewhere
_UID_MIN, _NOBODY = 1000, 65534
_MOST_ASKED = 500  # numbers in one question; names of more are not looked for
_DOMAIN = re.compile(r"^\s*\[domain/([^\]]+)\]", re.MULTILINE)
_REALM = re.compile(r"^\s*default_realm\s*=\s*(\S+)", re.MULTILINE)


def read(node: Node, owners: set[int], groups: set[int]) -> Accounts:
    """Return the accounts from UID_MIN on, the groups from GID_MIN on, and what belongs to the rest of a node's files.

    owners and groups are the numbers that own files.
    """
    known = homes.accounts(node)
    lines = account_files.groups(node.text(GROUP))
    services = _services(node.text(NSSWITCH))
    named = {"user": {one.uid for one in known}, "group": {group.gid for group in lines}}
    foreign = {"user": sorted(owners - named["user"]), "group": sorted(groups - named["group"])}
    questions = {kind: _question(node, kind, ids) for kind, ids in foreign.items() if ids and services}

    limits = dict(re.findall(r"^\s*(UID_MIN|GID_MIN)\s+(\d{1,10})\b", node.text(LOGIN_DEFS), re.MULTILINE))
    chosen = [one for one in known if _is_person(one.uid, int(limits.get("UID_MIN", _UID_MIN))) or one.uid in owners]
    ranges = {kind: account_files.ranges(node.text(path)) for kind, path in (("user", SUBUID), ("group", SUBGID))}
    users = _users(node, chosen, lines, ranges)
    answers = {kind: question.output() for kind, question in questions.items()}
    elsewhere = {kind: _names(kind, answer or "") for kind, answer in answers.items()}
    kept = list(_groups(lines, users, groups, int(limits.get("GID_MIN", _UID_MIN))))
    unnamed = [
        Unnamed(kind, number, _of(number, ranges[kind]))
        for kind, ids in foreign.items()
        for number in ids
        if number not in elsewhere.get(kind, {})
    ]
    return Accounts(users, kept, unnamed, _directory(node, elsewhere, list(answers.values())))


def _groups(lines: list[account_files.Group], users: list[User], owning: set[int], least: int) -> Iterator[Group]:
    names, numbers = {user.name for user in users}, owning | {user.gid for user in users}
    for group in lines:
        if _is_person(group.gid, least) or group.gid in numbers or not names.isdisjoint(group.members):
            yield Group(group.name, group.gid, list(group.members))


def _directory(node: Node, elsewhere: dict[str, dict[int, str]], answers: list[str | None]) -> Directory:
    realm = next(iter(_REALM.findall(node.text(KERBEROS))), None)
    names = [
        ForeignName(kind, number, name) for kind, found in elsewhere.items() for number, name in sorted(found.items())
    ]
    answered = None not in answers if answers else None
    return Directory(_services(node.text(NSSWITCH)), _DOMAIN.findall(node.text(SSSD)), realm, names, answered)


def _is_person(number: int, least: int) -> bool:
    return number >= least and number != _NOBODY


def _users(
    node: Node, chosen: Iterable[account_files.User], groups: list[account_files.Group], ranges: dict[str, list[Range]]
) -> list[User]:
    places = homes.Places(node)
    secrets = account_files.secrets(node.text(SHADOW))
    lingering = set(node.names(homes.LINGER))
    found = []
    for one in chosen:
        home = places.followed(one.home)
        secret = secrets.get(one.name)
        password = secret.hash if secret else UNKNOWN if one.password == "x" else one.password  # noqa: S105
        found.append(
            User(
                name=one.name,
                uid=one.uid,
                gid=one.gid,
                gecos=one.gecos,
                home=one.home,
                home_mount=places.mount_of(home).place,
                home_on_root_disk=places.on_root_disk(home),
                shell=one.shell,
                groups=[group.name for group in groups if one.name in group.members and group.gid != one.gid],
                password=_password(password),
                expires=_day(secret.expires) if secret and secret.expires is not None else None,
                linger=one.name in lingering,
                subuid=[IdRange(each.first, each.count) for each in ranges["user"] if _is(one, each.who)],
                subgid=[IdRange(each.first, each.count) for each in ranges["group"] if _is(one, each.who)],
            )
        )
    return found


def _password(field: str) -> str:
    """Tell what the second field of shadow(5) means; the hash in it goes nowhere."""
    if field == UNKNOWN:
        return UNKNOWN
    if not field:
        return EMPTY
    return LOCKED if field.startswith(("!", "*")) else SET


def _day(days: int) -> str | None:
    """Return a day of shadow(5) as an ISO date."""
    try:
        return (date(1970, 1, 1) + timedelta(days=days)).isoformat()
    except OverflowError:
        return None


def _is(one: account_files.User, who: str) -> bool:
    return who in (one.name, str(one.uid))


def _of(number: int, ranges: Iterable[Range]) -> str | None:
    return next((one.who for one in ranges if one.first <= number < one.first + one.count), None)


def _services(nsswitch: str) -> list[str]:
    """Return the services of nsswitch.conf(5) that know users or groups from elsewhere."""
    lists = re.findall(r"^\s*(?:passwd|group|initgroups)\s*:([^#\n]*)", nsswitch, re.MULTILINE)
    words = [word for found in lists for word in re.sub(r"\[[^\]]*\]", " ", found).split()]
    return [word for word in dict.fromkeys(words) if word not in _OWN_SERVICES]


def _question(node: Node, kind: str, ids: list[int]) -> Job:
    return node.start(["getent", {"user": "passwd", "group": "group"}[kind], *map(str, ids[:_MOST_ASKED])])


def _names(kind: str, answer: str) -> dict[int, str]:
    """Return the names in what getent printed, by their numbers."""
    if kind == "user":
        return {user.uid: user.name for user in account_files.users(answer)}
    return {group.gid: group.name for group in account_files.groups(answer)}
