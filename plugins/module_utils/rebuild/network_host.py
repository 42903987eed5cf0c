# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of a node's network, changed with a way back: what nobody confirms in time is undone by the node."""

from __future__ import annotations

import shutil
import tarfile
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.capture import system
from ansible_collections.gpulab.node.plugins.module_utils.capture.owned import Packages
from ansible_collections.gpulab.node.plugins.module_utils.core import beneath
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import connection, files, network, record, tree
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.outcome import Outcome

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.module_utils.rebuild.asked import Judged, WithNetwork

UNITS = "/etc/systemd/system"
DIRECTORIES = tuple(directory for directories, _endings, _unit in system.TOOLS.values() for directory in directories)
DONE = "network"  # in the record: an earlier run was confirmed


def restore(node: Node, asked: WithNetwork, *, check: bool, state: Path = record.DIRECTORY) -> dict[str, Any]:
    """Bring back settings; trying tells whether some changed that somebody has to confirm: those of paths."""
    return _Work(node, asked, state).run(check=check)


def confirm(node: Node, paths: list[str], state: Path = record.DIRECTORY) -> str:
    """Let settings stay that are being tried; return "confirmed", "waiting" or "undone"."""
    place = state / "network"
    if (place / "undone").exists():
        shutil.rmtree(place)
        return "undone"
    if (node.start(["systemctl", "is-active", network.APPLY]).output() or "").strip() in ("active", "activating"):
        return "waiting"
    node.start(["systemctl", "disable", "--now", f"{network.BACK}.timer"]).result()
    for unit in (f"{network.BACK}.timer", f"{network.BACK}.service"):
        node.path(f"{UNITS}/{unit}").unlink(missing_ok=True)
    node.start(["systemctl", "daemon-reload"]).result()
    shutil.rmtree(place, ignore_errors=True)
    record.add(state / record.PLACE.name, files=[DONE, *paths])
    return "confirmed"


class _Work:
    def __init__(self, node: Node, asked: WithNetwork, state: Path) -> None:
        self._node = node
        self._asked = asked
        self._state = state
        self._outcome = Outcome()
        self._ids = tree.Ids(node)
        self._known = record.read(state / record.PLACE.name)["files"]
        self._before = asked.network
        self._now = system.read(node).network
        self._names = network.renamed(self._before.interfaces, self._now.interfaces)
        self._contents = {}
        contents = asked.decoded()
        entries = []
        for entry in asked.entries:
            path = network.with_names(entry["path"], self._names)
            new: Judged = {**entry, "path": path}
            if entry["path"] in contents:
                data = contents[entry["path"]].decode("utf-8", "surrogateescape")
                content = network.with_names(data, self._names).encode("utf-8", "surrogateescape")
                self._contents[path] = content
                new = {**new, "sha256": tree.sha256(content), "size": len(content)}
            entries.append(new)
        context = files.Node(same_release=True, restored=self._known)
        self._plan = files.plan(entries, self._at, lambda _path: "", context, self._ids)
        self._paths = [entry["path"] for entry in entries]

    def _at(self, entry: Judged) -> tree.Now:
        return tree.now(self._node, entry)

    def run(self, *, check: bool) -> dict[str, Any]:
        steps = [step for step in self._plan.of(files.PUT, files.RIGHTS) if self._may_come(step)]
        if self._node.container():  # its engine sets up the network; the files come back all the same
            self._tell(steps, [], network.Change())
            if not check:
                self._put(steps)
            return self._ended(check=check)
        others = self._others()
        change = network.Change()
        if DONE not in self._known:
            change = network.change(self._before, self._now, self._names)
        if not (steps or others or change.enable or change.disable):
            return self._ended(check=check)
        why = self._hindrance()
        if why:
            self._outcome.missing.append(network.lacking(why))
            return self._outcome.result()
        self._tell(steps, others, change)
        if not check:
            self._apply(steps, others, change)
        return self._outcome.result(trying=not check, paths=self._paths)

    def _ended(self, *, check: bool) -> dict[str, Any]:
        if not check and self._paths:
            record.add(self._state / record.PLACE.name, files=[DONE, *self._paths])
        return self._outcome.result()

    def _may_come(self, step: files.Step) -> bool:
        """Tell whether a file may come back: not a link to what a program writes that is not there."""
        entry = step.entry
        if entry["path"] != system.RESOLV:
            return True
        if self._node.container():
            return False
        writers = [name for name in network.WRITERS if name in entry.get("target", "")]
        if not writers or any(self._node.exists(path) for path in network.WRITERS[writers[0]]):
            return True
        self._outcome.lack(network.SECTION, system.RESOLV, f"{writers[0]}, which wrote it, is not installed")
        return False

    def _tell(self, steps: list[files.Step], others: list[str], change: network.Change) -> None:
        for step in steps:
            self._outcome.change("write", step.entry["path"])
        for path in others:
            self._outcome.change("delete", path)
        for action, units in (("enable", change.enable), ("disable", change.disable)):
            for unit in units:
                self._outcome.change(action, unit)
        for old, new in self._names.items():
            self._outcome.show("names of interfaces", old, new)

    def _put(self, steps: list[files.Step]) -> None:
        for step in steps:
            tree.put(self._node, step.entry, self._contents.get(step.entry["path"]), self._ids, step.found)

    def _others(self) -> list[str]:
        """Return the settings of the new system's, which no package brought; they would be in the way."""
        if DONE in self._known or not self._paths:
            return []
        there = [f"{directory}/{name}" for directory in DIRECTORIES for name in self._node.names(directory)]
        tools = {path for tool in self._now.tools for path in tool.files}
        mine = [path for path in there if path in tools and path not in self._paths]
        packages = Packages(self._node) if mine else ()
        return [path for path in mine if path not in packages]

    def _hindrance(self) -> str:
        """Say why the settings cannot be tried; nothing where they can."""
        for tool in network.needed(self._before):
            if not any(self._node.exists(program) for program in network.PROGRAMS[tool]):
                return f"{tool}, which set up the network, is not installed"
        way = connection.read(self._node)
        if way and not network.answers(self._before.interfaces, way.address):
            return f"with them, the node would not have the address {way.address}, by which it is reached"
        return ""

    def _apply(self, steps: list[files.Step], others: list[str], change: network.Change) -> None:
        place = self._state / "network"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(0o700, parents=True)
        changed = [*(step.entry["path"] for step in steps), *others]
        added = [path for path in changed if not self._node.path(path).exists()]
        with tarfile.open(place / "before.tar", "w") as archive:
            for path in dict.fromkeys([*changed, system.RESOLV]):
                if path not in added and self._node.path(path).exists():
                    archive.add(self._node.path(path), path.lstrip("/"))
        back = network.back_script(change, self._now, added, str(place / "before.tar"), str(place))
        self._write(str(place / "back"), back, 0o700)
        self._write(str(place / "apply"), network.apply_script(change), 0o700)
        for name, text in network.back_units(str(place / "back"), self._asked.minutes).items():
            self._write(str(self._node.path(f"{UNITS}/{name}")), text, 0o644)
        self._run(["systemctl", "daemon-reload"])
        self._run(["systemctl", "enable", "--now", f"{network.BACK}.timer"])  # before anything else changes
        self._put(steps)
        for path in others:
            self._node.path(path).unlink()
        self._run(
            ["systemd-run", "--no-block", f"--unit={network.APPLY}", "--collect", "/bin/sh", str(place / "apply")]
        )

    def _run(self, argv: list[str]) -> None:
        self._node.start(argv).result()

    @staticmethod
    def _write(path: str, text: str, mode: int) -> None:
        with beneath.at(beneath.ROOT, path) as place:
            place.write(text.encode(), mode)
