# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the node finds the groups of the directory that it has joined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import account_files, owned_files

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Directory

SETTINGS = "/etc/sssd/sssd.conf"
ALLOWED = "simple_allow_groups"
OF_SSSD = ["getent", "--service=sss"]
PEOPLE = range(1000, 60000)  # numbers of accounts that are people's; adduser.conf(5)


class DirectoryQuery:
    """The facts ``directory``; a directory that hangs does so beside the caller's other work, up to a deadline."""

    def __init__(self, node: Node) -> None:
        """Ask for the groups and for whom local accounts' numbers are, where sssd.conf is gpulab's."""
        self._node = node
        text = node.text(SETTINGS)
        lines = (line.partition("=") for line in text.splitlines() if owned_files.is_own(text))
        allowed = [value for name, _equals, value in lines if name.strip() == ALLOWED]
        self._groups = [group.strip() for value in allowed[-1:] for group in value.split(",")]
        self._local = {user.uid: user.name for user in account_files.users(node.text(account_files.PASSWD))}
        if self._groups:
            numbers = [str(number) for number in self._local if number in PEOPLE]
            self._found = node.start([*OF_SSSD, "group", "--", *self._groups])
            self._numbers = node.start([*OF_SSSD, "passwd", "--", *numbers]) if numbers else None

    def facts(self) -> Directory | None:
        """Return {"groups", "missing", "clashes", "pam"}; None where gpulab has joined no directory."""
        if not self._groups:
            return None
        result = self._found.result()
        known = {group.name for group in account_files.groups(result[1] if result else "")}
        others = account_files.users((self._numbers.output() or "") if self._numbers else "")
        return {
            "groups": self._groups,
            "missing": None if result is None else [group for group in self._groups if group not in known],
            "clashes": sorted(
                f"{user.name} ({user.uid})" for user in others if self._local.get(user.uid, user.name) != user.name
            ),
            "pam": "pam_sss.so" in self._node.text("/etc/pam.d/common-auth"),
        }
