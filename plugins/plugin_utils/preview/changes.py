# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What would change on a node: the `changes` that gpulab's modules return, and the same of Ansible's own modules.

A task that no rule knows is named by its own name, so no change stays unseen.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.core.changes import Changes, changes
from ansible_collections.gpulab.node.plugins.module_utils.packages.plan import Plan, changes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ansible_collections.gpulab.node.plugins.plugin_utils.preview.model import Download, PreviewedChange


class TaskResult(TypedDict):
    """What one task said of one host; of a loop, what it said of one item."""

    role: str
    task: str
    module: str
    arguments: dict[str, Any]
    delegate_to: str | None
    result: dict[str, Any]


Results = list[TaskResult]


def _unit(arguments: dict[str, Any], result: dict[str, Any]) -> Changes:
    """Return whether a unit is enabled or disabled; one that only starts, stops or restarts is not changed."""
    name, status = str(arguments.get("name")), result.get("status", {})
    if arguments.get("enabled") is None:
        return []
    if not arguments["enabled"]:
        return changes(disable=[name])
    runs = not arguments.get("state") or status.get("ActiveState") == "active"
    return changes(enable=[] if runs and status.get("UnitFileState") == "enabled" else [name])


def _file(arguments: dict[str, Any], _result: dict[str, Any]) -> Changes:
    path = str(arguments.get("path") or arguments.get("dest"))
    return changes(delete=[path]) if arguments.get("state") == "absent" else changes(write=[path])


# The modules that are not gpulab's, by their last name.
RULES: dict[str, Callable[[dict[str, Any], dict[str, Any]], Changes]] = {
    "systemd_service": _unit,
    "file": _file,
    "copy": _file,
    "template": _file,
    "blockinfile": _file,
    "lineinfile": _file,
}


def of_result(one: TaskResult) -> Changes:
    """Return what a task would change on a host, for the file of another host with the name of that host."""
    rule = RULES.get(one["module"].rpartition(".")[2])
    if "changes" in one["result"]:
        found = one["result"]["changes"]
    else:
        found = rule(one["arguments"], one["result"]) if rule else changes(arrange=[one["task"]])
    if one["delegate_to"] is None:
        return list(found)
    where = "controller" if one["delegate_to"] == "localhost" else one["delegate_to"]
    return [{**change, "what": f"{change['what']} ({where})"} for change in found]


def of_host(results: Results) -> list[PreviewedChange]:
    """Return each kind of change, in the order in which the tasks ran.

    The packages of a role stand where its last transaction is.
    """
    last = {one["role"]: one for one in results if "predicted" in one["result"]}
    found: list[PreviewedChange] = []
    for one in results:
        own = of_result(one)
        if "predicted" in one["result"]:
            own = _transaction_of(one["role"], results).changes() if last[one["role"]] is one else []
        found += _grouped(one["role"], own)
    return found


def _grouped(role: str, own: Changes) -> Iterable[PreviewedChange]:
    for action, group in groupby(own, key=lambda change: change["action"]):
        yield {"role": role, "action": action, "objects": [change["what"] for change in group]}


def things(results: Results, role: str, action: str) -> list[str]:
    """Return what an action of a role applies to."""
    return [
        change["what"]
        for one in results
        if one["role"] == role
        for change in of_result(one)
        if change["action"] == action
    ]


def of_module(results: Results, module: str, role: str | None = None) -> Results:
    """Return what the tasks of a module said."""
    return [one for one in results if one["module"].rpartition(".")[2] == module and role in (None, one["role"])]


class ForeseenTransactions:
    """What the package manager foresees for several transactions of a node together."""

    def __init__(self, results: Iterable[TaskResult]) -> None:
        """Take what each task of packages foresees; a later one repeats what an earlier one would have brought."""
        self.install: dict[str, str] = {}
        self.change: dict[str, tuple[str, str]] = {}
        self.remove: dict[str, str] = {}
        self.downloads: dict[str, int] = {}
        not_listed: dict[str, None] = {}
        for one in (result["result"]["predicted"] for result in results if "predicted" in result["result"]):
            self.install.update(one["install"])
            self.change.update(one["change"])
            self.remove.update(one["remove"])
            self.downloads.update(one["downloads"])
            not_listed.update(dict.fromkeys(one["not_listed"]))
        self.not_listed = list(not_listed)

    def __bool__(self) -> bool:
        """Tell whether any package changes."""
        return bool(self.install or self.change or self.remove or self.not_listed)

    def changes(self) -> Changes:
        """Return the packages by what happens to them."""
        return changes_of(Plan(self.install, self.change, self.remove), self.not_listed)

    def brings(self, package: str) -> bool:
        """Tell whether a package comes new."""
        return package in self.install or package in {wish.partition("=")[0] for wish in self.not_listed}

    def download(self) -> Download:
        """Return what would be downloaded."""
        return {"bytes": None if self.not_listed else sum(self.downloads.values()), "not_listed": self.not_listed}


def _transaction_of(role: str, results: Results) -> ForeseenTransactions:
    """Return what a role's own package tasks predict beyond what those of the roles before it bring."""
    roles = list(dict.fromkeys(one["role"] for one in results))
    before = ForeseenTransactions(one for one in results if roles.index(one["role"]) < roles.index(role))
    own = ForeseenTransactions(one for one in results if one["role"] == role)
    own.install = {name: version for name, version in own.install.items() if name not in before.install}
    return own
