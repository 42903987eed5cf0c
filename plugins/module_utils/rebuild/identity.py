# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who a rebuilt node is: its names in /etc/hosts, and whether sshd's settings would still let Ansible in. No I/O."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.system import hosts_file

if TYPE_CHECKING:
    from collections.abc import Collection

SECTION = "identity"


def merged_hosts(captured: str, now: str) -> str:
    """Return the captured /etc/hosts, and behind it what the new one has for names that the captured one has not."""
    known = {
        name.lower() for line in captured.splitlines() if (found := hosts_file.parse(line)) for name in found.names
    }
    added = []
    for line in now.splitlines():
        found = hosts_file.parse(line)
        if found and not known.intersection(name.lower() for name in found.names):
            added.append(str(found))
    if not added:
        return captured
    return "".join([captured, "" if captured.endswith("\n") or not captured else "\n", *(f"{one}\n" for one in added)])


def settings(printed: str) -> dict[str, list[str]]:
    """Return sshd's settings, as sshd -T prints them: the values of each name."""
    found: dict[str, list[str]] = {}
    for line in printed.splitlines():
        name, _space, value = line.partition(" ")
        found.setdefault(name.lower(), []).extend(value.split() if name.lower() in _LISTS else [value])
    return found


_LISTS = ("allowusers", "allowgroups", "denyusers", "denygroups")


def shuts_out(sshd: dict[str, list[str]], user: str, groups: Collection[str], port: int | None) -> str:
    """Say why sshd with these settings would not let a user in by a key; nothing where it would.

    port is the one that the connection of now came to, None where that is unknown.
    """
    users = {name: [one.partition("@")[0] for one in sshd.get(name, ())] for name in ("allowusers", "denyusers")}
    root = sshd.get("permitrootlogin", ["yes"])[0]
    reasons = {
        f"it would not listen on port {port}": port is not None and str(port) not in sshd.get("port", [str(port)]),
        "it would take no keys": sshd.get("pubkeyauthentication") == ["no"],
        "it would not let root in": user == "root" and root in ("no", "forced-commands-only"),
        f"its DenyUsers names {user}": _matches([user], users["denyusers"]),
        f"its DenyGroups names a group of {user}": _matches(groups, sshd.get("denygroups", ())),
        f"its AllowUsers does not name {user}": users["allowusers"] and not _matches([user], users["allowusers"]),
        f"its AllowGroups names no group of {user}": sshd.get("allowgroups")
        and not _matches(groups, sshd["allowgroups"]),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _matches(names: Collection[str], patterns: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)
