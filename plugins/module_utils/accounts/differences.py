# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a node's people differ from what the inventory wanted at the last run, in words. No I/O happens here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.accounts import plan

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.accounts.plan import Found
    from ansible_collections.gpulab.node.plugins.module_utils.accounts.wanted import Wanted

# By the step that would put it right; a session that goes on is no difference.
_WORDS = {
    plan.RESERVE: "has a number that is not reserved",
    plan.GROUP: "is no group",
    plan.ACCOUNT: "has no account",
    plan.HOME: "has no home",
    plan.JOIN: "is not in the group {}",
    plan.PART: "is in the group {}",
    plan.EXPIRE: "has an account that ends on another day",
    plan.KEYS: "has other keys",
    plan.LINGER: "lingers",
    plan.CRONTAB: "has jobs of cron",
    plan.AT: "has jobs of at",
    plan.REMOVE: "has an account",
}


def differences(wanted: Wanted, found: Found) -> dict[str, list[str]]:
    """Return what is otherwise, by name of a person or a group."""
    differs: dict[str, list[str]] = {}
    numbers = {person.name: person.uid for person in wanted.people}
    for name, user in found.users.items():
        if numbers.get(name, user.uid) != user.uid:
            differs[name] = [f"has uid {user.uid} instead of {numbers[name]}"]
    gids = {group.name: group.gid for group in wanted.groups}
    for name, group in found.groups.items():
        if gids.get(name, group.gid) != group.gid:
            differs.setdefault(name, []).append(f"has gid {group.gid} instead of {gids[name]}")
    for step in plan.steps(wanted, found):
        own_group = step.action == plan.GROUP and step.name in numbers
        if step.action in _WORDS and not own_group:
            differs.setdefault(step.name, []).append(_WORDS[step.action].format(step.detail))
    return {name: list(dict.fromkeys(texts)) for name, texts in sorted(differs.items())}
