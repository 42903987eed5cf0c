# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps any plan from being carried out: an interrupted dpkg, a file system that cannot be written or is full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.refusal import Refusal, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

Facts = dict[str, Any]


def broken(facts: Facts, plan: dict[str, Any]) -> Iterator[Refusal]:
    """Yield what has to be mended on the node first."""
    system = facts["system"]
    if system.get("package_state") == "interrupted":
        unfinished = ", ".join(system.get("packages_unfinished") or ()) or "a transaction of dpkg"
        yield refuse("H047", line=f"{unfinished} was not brought to its end")
    for filesystem in _of_plan(facts, plan):
        if filesystem.get("responsive") is False:
            yield refuse("H080", mount=filesystem["mount"])
        elif filesystem.get("read_only"):
            yield refuse("H081", mount=filesystem["mount"])


def short_of_space(facts: Facts, plan: dict[str, Any], limits: dict[str, Any]) -> Iterator[Refusal]:
    """Yield each file system that cannot hold its part of the plan."""
    for filesystem in _of_plan(facts, plan):
        mount, free, inodes = filesystem["mount"], filesystem.get("free_mib"), filesystem.get("free_inodes")
        if free is not None and free < plan["disk"][mount]:
            yield refuse("H082", mount=mount, free=free, need=plan["disk"][mount])
        if inodes is not None and inodes < limits["free_inodes_min"]:
            yield refuse("H083", mount=mount, free=inodes, need=limits["free_inodes_min"])


def losing_display(facts: Facts) -> Iterator[Refusal]:
    """Tell of a desktop on a node that has no driver of NVIDIA's yet: nouveau goes, and nothing draws in its place."""
    if facts["driver"].get("library"):
        return
    sessions = facts.get("users_of_gpus", {}).get("sessions", ())
    who = sorted({session["user"] for session in sessions if session["desktop"]})
    if (facts.get("services") or {}).get("display-manager", {}).get("active") == "active":
        who.append("display-manager.service")
    if who:
        yield refuse("H086", who=", ".join(who))


def _of_plan(facts: Facts, plan: dict[str, Any]) -> list[Facts]:
    return [filesystem for filesystem in facts["filesystems"] if filesystem["mount"] in plan["disk"]]
