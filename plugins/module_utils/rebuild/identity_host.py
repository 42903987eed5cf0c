# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The identity of a node: its files, and those of sshd, which count only if sshd takes them and lets Ansible in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.capture import homes, look
from ansible_collections.gpulab.node.plugins.module_utils.core import account_files
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import connection, files, identity, record, tree
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.outcome import Outcome
from ansible_collections.gpulab.node.plugins.module_utils.system.hosts_file import PATH as HOSTS

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.files import Entry
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.module_utils.rebuild.asked import Judged, WithAccounts
    from ansible_collections.gpulab.node.plugins.module_utils.rebuild.files import Step

SSH = "/etc/ssh/"
KEYS, PRIVATE = f"{SSH}ssh_host_", "_key"
FOR_THE_INSTALLATION = f"{SSH}sshd_config.d/00-gpulab-reinstall.conf"  # what let Ansible in until now
MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")
HOSTNAME, KERNELS = "/etc/hostname", "/proc/sys/kernel/hostname"
UNITS = ("ssh.service", "sshd.service")
RUNTIME = "/run/sshd"


def restore(node: Node, asked: WithAccounts, *, check: bool, state: Path = record.DIRECTORY) -> dict[str, Any]:
    """Give a node its name, its id and its keys again."""
    return _Work(node, asked, state).run(check=check)


class _Work:
    def __init__(self, node: Node, asked: WithAccounts, state: Path) -> None:
        self._node = node
        self._asked = asked
        self._record = state / record.PLACE.name
        self._ids = tree.Ids(node)
        self._outcome = Outcome()
        self._contents = asked.decoded()
        known = record.read(self._record)["files"]
        if HOSTS in self._contents and HOSTS not in known:
            self._contents[HOSTS] = self._hosts(self._contents[HOSTS])
        entries = [self._entry(one) for one in asked.entries if self._is_ours(one["path"])]
        context = files.Node(same_release=True, restored=known)
        self._plan = files.plan(entries, self._now, lambda _path: "", context, self._ids)
        self._known = known

    def _hosts(self, captured: bytes) -> bytes:
        texts = [one.decode("utf-8", "surrogateescape") for one in (captured, self._node.data(HOSTS) or b"")]
        return identity.merged_hosts(*texts).encode("utf-8", "surrogateescape")

    def _is_ours(self, path: str) -> bool:
        """Tell whether a file belongs to this machine; the id of another one would be the same twice in a network."""
        if path not in MACHINE_IDS:
            return True
        before, now = self._asked.machine.dmi_uuid, look.machine(self._node)["dmi_uuid"]
        if before.lower() == now.lower() and (now or self._node.container()):
            return True
        self._outcome.lack(identity.SECTION, path, "this is another machine, which has an id of its own")
        return False

    def _entry(self, entry: Judged) -> Judged:
        content = self._contents.get(entry["path"])
        return entry if content is None else {**entry, "sha256": tree.sha256(content), "size": len(content)}

    def _now(self, entry: Judged) -> tree.Now:
        return tree.now(self._node, entry)

    def run(self, *, check: bool) -> dict[str, Any]:
        changing = self._plan.of(files.PUT, files.RIGHTS)
        before = "".join(f"{step.entry['path']} {self._now(step.entry).mode or 'absent'}\n" for step in changing)
        after = "".join(f"{step.entry['path']} {step.entry['mode']}\n" for step in changing)
        self._outcome.show("identity", before, after)
        for step in changing:
            self._outcome.change("write", step.entry["path"])
        name = self._new_name()
        if name:
            self._outcome.change("set", f"the host name {name}")
        captured = {one["path"] for one in self._asked.entries}
        ours = [FOR_THE_INSTALLATION] if self._node.exists(FOR_THE_INSTALLATION) else []
        removed = [path for path in [*self._leftover_keys(), *ours] if path not in captured]
        for path in removed:
            self._outcome.change("delete", path)
        for step in self._plan.of(files.LEAVE):
            self._outcome.lack(identity.SECTION, step.entry["path"], step.why)
        if not check:
            self._apply(changing, removed, name)
        return self._outcome.result()

    def _leftover_keys(self) -> list[str]:
        """Return keys that the new system made for itself, as long as those of before have not come back."""
        private = {one["path"] for one in self._asked.entries if one["path"].startswith(KEYS)}
        if not any(path.endswith(PRIVATE) for path in private) or private & set(self._known):
            return []
        there = [f"{SSH}{name}" for name in self._node.names(SSH)]
        return [path for path in there if path.startswith(KEYS) and path not in private]

    def _new_name(self) -> str:
        wanted = self._contents.get(HOSTNAME, b"").decode("utf-8", "replace").strip()
        return wanted if wanted and HOSTNAME not in self._known and wanted != self._node.text(KERNELS) else ""

    def _apply(self, changing: list[Step], removed: list[str], name: str) -> None:
        done = {step.entry["path"] for step in self._plan.of(files.SAME)}
        for step in changing:
            if not step.entry["path"].startswith(SSH):
                self._put(step)
                done.add(step.entry["path"])
        if name:
            self._node.start(["hostname", name]).result()
        of_ssh = [step for step in changing if step.entry["path"].startswith(SSH)]
        if (of_ssh or removed) and self._apply_ssh(of_ssh, removed):
            done |= {step.entry["path"] for step in of_ssh}
        record.add(self._record, files=done)

    def _put(self, step: Step) -> None:
        tree.put(self._node, step.entry, self._contents.get(step.entry["path"]), self._ids, step.found)

    def _apply_ssh(self, steps: list[Step], removed: list[str]) -> bool:
        """Change what sshd reads, all at once; where sshd would not take it, all is as before."""
        paths = [*(step.entry["path"] for step in steps), *removed]
        before = {path: _Before(self._node, path) for path in paths}
        for step in steps:
            self._put(step)
        for path in removed:
            self._node.path(path).unlink()
        why = self._fault()
        if why:
            for path in paths:
                before[path].back()
            self._outcome.lack(identity.SECTION, "sshd", f"its settings and keys stay those of the new system: {why}")
            return False
        for unit in UNITS:  # a reload lets sessions be
            self._node.start(["systemctl", "try-reload-or-restart", unit]).result()
        return True

    def _fault(self) -> str:
        self._node.path(RUNTIME).mkdir(mode=0o755, parents=True, exist_ok=True)
        tested = self._node.start(["sshd", "-t"]).result()
        if tested is None:  # there is no sshd
            return ""
        if tested[0]:
            return (tested[2].strip().splitlines() or ["sshd -t failed"])[-1]
        user, way = self._asked.user, connection.read(self._node)
        client = way.client if way else "127.0.0.1"
        shown = self._node.start(["sshd", "-T", "-C", f"user={user},host={client},addr={client}"]).output() or ""
        groups = [*self._groups(user), *self._former_groups(user)]
        return identity.shuts_out(identity.settings(shown), user, groups, way.port if way else None)

    def _former_groups(self, user: str) -> list[str]:
        """Return the groups that a user has again as soon as the accounts have come back."""
        accounts = self._asked.accounts
        account = next((one for one in accounts.users if one.name == user), None)
        primary = [one.name for one in accounts.groups if account and one.gid == account.gid]
        return [*account.groups, *primary] if account else []

    def _groups(self, user: str) -> list[str]:
        own = {one.gid for one in homes.accounts(self._node) if one.name == user}
        groups = account_files.groups(self._node.text(account_files.GROUP))
        return [group.name for group in groups if group.gid in own or user in group.members]


class _Before:
    """A file as it was, and the way back to it."""

    def __init__(self, node: Node, path: str) -> None:
        self._node, self._place = node, node.path(path)
        self._entry: Entry | None = None
        if self._place.is_file():
            status = self._place.lstat()
            self._entry = {
                "path": path,
                "kind": tree.FILE,
                "mode": f"{status.st_mode & 0o7777:04o}",
                "owner": "",
                "uid": status.st_uid,
                "group": "",
                "gid": status.st_gid,
                "size": status.st_size,
            }
            self._content = self._place.read_bytes()

    def back(self) -> None:
        if self._entry is None:
            self._place.unlink()
        else:
            tree.put(self._node, self._entry, self._content, tree.AsWritten())
