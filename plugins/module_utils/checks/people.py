# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that a node has the people of the inventory, and their sessions the limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    check,
    fail,
    inapplicable,
    ok,
    unknown,
    warn,
)
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import counted, first

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Node, Result

ACCOUNTS = "https://man7.org/linux/man-pages/man5/shadow.5.html"
DIRECTORY = "https://sssd.io/docs/introduction.html"
QUOTAS = "https://man7.org/linux/man-pages/man8/setquota.8.html"
LIMITS = "https://www.freedesktop.org/software/systemd/man/latest/systemd.resource-control.html"
NOBODY = "the inventory gives the node no people (users_people)"
SHOWN = 5  # of those that differ
GIB = 1 << 20  # KiB of a GiB


@check("users-accounts", proves="people have their accounts, groups, keys and last days", source=ACCOUNTS)
def users_accounts(node: Node) -> Iterator[Result]:
    """Compare with the lists of the last run. Who is in none is told by number: reports name only listed people."""
    accounts = node.facts.optional("accounts")
    if accounts is None:
        yield inapplicable(NOBODY)
        return
    unlisted = [f"uid {number}" for number in accounts["unlisted"]]
    differs = [f"{name} {', '.join(what)}" for name, what in accounts["differs"].data.items()]
    if differs:
        yield warn(first(differs, SHOWN, "; "), "give_people", observed=differs, expected=[])
    if unlisted:
        summary = f"{counted(len(unlisted), 'account')} with a number of people's in no list: {first(unlisted, SHOWN)}"
        yield warn(summary, "list_people", observed=unlisted, expected=[])
    if not differs and not unlisted:
        yield ok(f"{counted(accounts['people'], 'account')} as the inventory has them")


@check(
    "users-directory", proves="the node knows the groups of the directory whose members may log in", source=DIRECTORY
)
def users_directory(node: Node) -> Iterator[Result]:
    """Ask as a login does. While no server answers, what was read before is found."""
    directory = node.facts.optional("directory")
    if directory is None:
        yield inapplicable("the node has joined no directory (directory_uris)")
    elif directory["clashes"]:
        clashes = list(directory["clashes"])
        summary = f"people of the directory have numbers of local accounts, and their files: {first(clashes, SHOWN)}"
        yield fail(summary, "part_numbers", observed=clashes, expected=[])
    elif not directory["pam"]:
        yield warn("logins do not ask SSSD: /etc/pam.d was changed by hand", "mend_pam", observed=False, expected=True)
    elif directory["missing"] is None:
        yield unknown("the directory did not answer in time")
    elif directory["missing"]:
        missing = list(directory["missing"])
        summary = f"nobody of {first(missing, SHOWN)} can log in: the directory does not tell of them"
        yield warn(summary, "mend_directory", observed=missing, expected=[])
    else:
        yield ok(f"the directory tells of {first(list(directory['groups']), SHOWN)}")


@check("users-limits", proves="systemd limits what the sessions of people use", source=LIMITS)
def users_limits(node: Node) -> Iterator[Result]:
    """Take the limits of the slices, which hold, and not of the file, which systemd may not have read."""
    accounts = node.facts.optional("accounts")
    limits = accounts and accounts.optional("limits")
    if accounts is None:
        yield inapplicable(NOBODY)
    elif limits is None:
        yield inapplicable("no limits are set (users_limits)")
    elif not limits["slices"]:
        yield unknown("systemd does not tell of people's slices")
    else:
        for limit in limits["differs"]:
            summary = f"sessions of {limit['user']} have {limit['property']} {limit['found']}"
            yield warn(summary, "give_people", observed=limit["found"], expected=limit["wanted"])
        if not limits["differs"]:
            yield ok("the limits of sessions hold")


@check("users-quotas", proves="nobody's quota is used up", source=QUOTAS)
def users_quotas(node: Node) -> Iterator[Result]:
    """Name who can write no more. Quotas that are not as the inventory has them are told by users-accounts."""
    accounts = node.facts.optional("accounts")
    quotas = accounts and accounts.optional("quotas")
    if not quotas:
        yield inapplicable("no quotas are set (users_quota, users_directories)")
        return
    for entry in quotas["full"]:
        used, most = (_amount(entry[name], entry["what"]) for name in ("used", "most"))
        over = _amount(entry["used"] - entry["most"], entry["what"])
        more = f", {over} too much" if entry["used"] > entry["most"] else ""
        summary = f"{entry['name']} has {used} of {most} in {entry['place']}{more}"
        yield warn(summary, "make_room", observed=entry["used"], expected=entry["most"])
    if not quotas["full"]:
        yield ok(f"{counted(quotas['set'], 'quota')}, and none is used up")


def _amount(number: int, what: str) -> str:
    if what == "files":
        return f"{number} files"
    return f"{number / GIB:.1f} GiB" if number >= GIB else f"{number >> 10} MiB"
