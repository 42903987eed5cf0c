# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disks of a node that were kept, and what servers export: assembled, unlocked and mounted as before."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.capture import disks, homes
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.files import FILE
from ansible_collections.gpulab.node.plugins.module_utils.core import beneath, commands
from ansible_collections.gpulab.node.plugins.module_utils.core.fstab import SWAP, parse
from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import mounts, swaps
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import files, record, storage, tree
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.outcome import Outcome
from ansible_collections.gpulab.node.plugins.module_utils.storage.host import Reader

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.disks import Device, Disks
    from ansible_collections.gpulab.node.plugins.module_utils.core.account_files import User
    from ansible_collections.gpulab.node.plugins.module_utils.core.fstab import Line
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.module_utils.rebuild.asked import Judged, WithDisks

FSTAB, CRYPTTAB = "/etc/fstab", "/etc/crypttab"
KEYS = "/etc/cryptsetup-keys.d"  # where systemd looks for the key of a volume for which crypttab names none
DEVICES_FILE = "/etc/lvm/devices/system.devices"
SECONDS = "90"  # for one mount
_ENTRY: Judged = {
    "path": FSTAB,
    "kind": FILE,
    "mode": "0644",
    "owner": "root",
    "uid": 0,
    "group": "root",
    "gid": 0,
    "size": 0,
}


def restore(node: Node, asked: WithDisks, *, check: bool, state: Path = record.DIRECTORY) -> dict[str, Any]:
    """Assemble and mount what is there; name what is not."""
    return _Work(node, asked, state).run(check=check)


class _Work:
    def __init__(self, node: Node, asked: WithDisks, state: Path) -> None:
        self._node = node
        self._record = state / record.PLACE.name
        self._known = record.read(self._record)["files"]
        self._ids = tree.Ids(node)
        self._outcome = Outcome()
        self._before = asked.disks
        self._user = asked.user
        self._contents = asked.decoded()
        self._unlocked: list[list[str]] = []
        if CRYPTTAB in self._contents:
            now = self._text_now(CRYPTTAB)
            text, self._unlocked, lacking = storage.crypttab(self._text(CRYPTTAB), self._before, now)
            self._contents[CRYPTTAB] = text.encode("utf-8", "surrogateescape")
            self._lack(lacking)
        for path in (path for path in disks.ARRAYS if path in self._contents):
            present = disks.read(node, self._call)
            text = storage.arrays(self._text(path), self._before, self._text_now(path), present)
            self._contents[path] = text.encode("utf-8", "surrogateescape")
        self._now = self._text_now(FSTAB)
        self._fstab = storage.wanted(self._text(FSTAB), self._before, self._now)
        self._lack(self._fstab.lacking)
        entries = [self._entry(one) for one in asked.entries if one["path"] != FSTAB]
        context = files.Node(same_release=True, restored=self._known)
        self._plan = files.plan(entries, self._at, lambda _path: "", context, self._ids)

    def _lack(self, lacking: list[tuple[str, str]]) -> None:
        for name, why in lacking:
            self._outcome.lack(storage.SECTION, name, why)

    def _text(self, path: str) -> str:
        return self._contents.get(path, b"").decode("utf-8", "surrogateescape")

    def _text_now(self, path: str) -> str:
        return (self._node.data(path) or b"").decode("utf-8", "surrogateescape")

    def _entry(self, entry: Judged) -> Judged:
        content = self._contents.get(entry["path"])
        return entry if content is None else {**entry, "sha256": tree.sha256(content), "size": len(content)}

    def _at(self, entry: Judged) -> tree.Now:
        return tree.now(self._node, entry)

    def _call(self, argv: list[str]) -> tuple[int, str, str]:
        return self._node.start(argv).result() or (127, "", f"{argv[0]} is not there, or does not answer")

    @property
    def _settled(self) -> set[str]:
        """The places whose lines came back before."""
        return {line.place for line in [*self._fstab.lines, *self._fstab.tiers] if _name(line) in self._known}

    @property
    def _lines(self) -> list[Line]:
        """The lines to mount: not those that somebody removed after they came back."""
        there = {line.place for line in parse(self._now)}
        every = [*self._fstab.lines, *self._fstab.tiers]
        return [line for line in every if line.place in there or line.place not in self._settled]

    def run(self, *, check: bool) -> dict[str, Any]:
        for step in self._plan.of(files.PUT, files.RIGHTS):
            self._outcome.change("write", step.entry["path"])
            if not check:
                content = self._contents.get(step.entry["path"])
                tree.put(self._node, step.entry, content, self._ids, step.found)
        if not check:
            arrays = [one.entry["path"] for one in self._plan.of(files.PUT) if one.entry["path"] in disks.ARRAYS]
            if arrays:  # the work files then makes the initramfs again: it has the names of arrays of its own
                record.set_pending(arrays, self._record)
            record.add(self._record, files=[one.entry["path"] for one in self._plan.steps if one.kind != files.LEAVE])
        self._bring_up(check=check)
        failing = self._mount_all(check=check)
        text = storage.merged(self._text_now(FSTAB), self._fstab, failing, self._settled)
        if not check and text != self._text_now(FSTAB):  # what did not mount gets nofail, what mounts now loses it
            self._write_fstab(text)
        if text != self._now:
            self._outcome.change("write", FSTAB)
            self._outcome.show(FSTAB, _shown(self._now), _shown(text))
        if not check:
            came = [_name(line) for line in self._lines if line.place not in failing]
            record.add(self._record, files=came)
        return self._outcome.result()

    def _write_fstab(self, text: str) -> None:
        entry: Judged = {**_ENTRY, "size": len(text)}
        tree.put(self._node, entry, text.encode("utf-8", "surrogateescape"), self._ids)
        self._call(["systemctl", "daemon-reload"])

    # What lies between disks and file systems

    def _bring_up(self, *, check: bool) -> None:
        self._assemble(check=check)
        self._activate(check=check)
        self._unlock(check=check)
        if self._unlocked and not check:
            self._activate(check=check)  # groups that lie in what was unlocked
        if any(storage.members(self._before, "zfs_member")):
            self._import_pools(check=check)
        if not check and any(storage.members(self._before, "btrfs")):
            self._call(["btrfs", "device", "scan"])

    def _assemble(self, *, check: bool) -> None:
        """Assemble arrays that are whole; mdadm starts none here of which a disk is missing."""
        now = disks.read(self._node, self._call)
        known = {one.uuid for one in storage.members(self._before, "linux_raid_member")}
        if not _idle(now, known):
            return
        if check:
            self._outcome.change("arrange", "arrays")
            return
        rc, _output, errors = self._call(["mdadm", "--assemble", "--scan", "--no-degraded"])
        if len(_idle(disks.read(self._node, self._call), known)) < len(_idle(now, known)):
            self._outcome.change("arrange", "arrays")
        if rc:
            self._outcome.lack(storage.SECTION, "arrays", _last(errors, "mdadm did not assemble all of them"))

    def _activate(self, *, check: bool) -> None:
        if not any(storage.members(self._before, "LVM2_member")):
            return
        if self._node.exists(DEVICES_FILE) and not check:
            self._call(["vgimportdevices", "--all"])
        volumes = Reader(self._node, self._call).devices().volumes
        for group in sorted({name.split("/")[2] for name, active in volumes.items() if not active}):
            self._do(["vgchange", "--activate", "y", group], "arrange", group, check=check)

    def _unlock(self, *, check: bool) -> None:
        for name, _device, *more in self._unlocked:
            if self._node.exists(f"/dev/mapper/{name}"):
                continue
            key = more[0] if more else "none"
            if key in ("none", "-") and not self._node.exists(f"{KEYS}/{name}.key"):
                unit = f"systemd-cryptsetup@{name}.service"
                self._outcome.lack(
                    storage.SECTION, name, f"somebody has to type its passphrase: systemctl start {unit}"
                )
                continue
            if not check:
                self._call(["systemctl", "daemon-reload"])
            rc, escaped, _errors = self._call(["systemd-escape", name])
            unit = f"systemd-cryptsetup@{(escaped.strip() if rc == 0 else '') or name}.service"
            self._do(["systemctl", "start", unit], "load", name, check=check)

    def _import_pools(self, *, check: bool) -> None:
        pools = {one.label for one in storage.members(self._before, "zfs_member")}
        there = set(self._call(["zpool", "list", "-H", "-o", "name"])[1].split())
        for pool in sorted(pools - there):
            self._do(["zpool", "import", pool], "arrange", pool, check=check)

    def _do(self, argv: list[str], action: str, name: str, *, check: bool) -> None:
        """Run a command, and note that something changed, or why it did not; in check mode, that it would."""
        rc, _output, errors = (0, "", "") if check else self._call(argv)
        if rc:
            self._outcome.lack(storage.SECTION, name, _last(errors, f"{argv[0]} failed"))
        else:
            self._outcome.change(action, name)

    # Mounts

    def _mount_all(self, *, check: bool) -> set[str]:
        """Mount what is to be mounted, and return the places where that failed."""
        missing = [line for line in self._lines if storage.NOAUTO not in line.options and not self._is_mounted(line)]
        if check:
            for line in missing:
                self._outcome.change("arrange", line.place)
        if check or not missing:
            return set()
        text = storage.merged(self._text_now(FSTAB), self._fstab, {line.place for line in missing}, self._settled)
        if text != self._text_now(FSTAB):
            self._write_fstab(text)  # with nofail: a power cut now hinders no boot
        failing = set()
        for line in missing:
            why = self._swap_on(line) if line.type == SWAP else self._mount(line)
            if why:
                failing.add(line.place)
                self._outcome.lack(storage.SECTION, line.place, why)
            else:
                self._outcome.change("arrange", line.place)
        return failing

    def _is_mounted(self, line: Line) -> bool:
        if line.type == SWAP:
            return self._path_of(line.source) in swaps(self._node.text("/proc/swaps"))
        return any(mount.place == line.place for mount in mounts(self._node.text("/proc/self/mountinfo")))

    def _path_of(self, source: str) -> str:
        tag, _equals, value = source.partition("=")
        links = {"UUID": "by-uuid", "LABEL": "by-label", "PARTUUID": "by-partuuid", "PARTLABEL": "by-partlabel"}
        return self._node.resolve(f"/dev/disk/{links[tag]}/{value}" if tag in links else source)

    def _swap_on(self, line: Line) -> str:
        rc, _output, errors = self._call(["swapon", line.source])
        return _last(errors, "swapon failed") if rc else ""

    def _mount(self, line: Line) -> str:
        """Mount a line of fstab, and say why that is not so; who connects by a key must find it there, too."""
        why = self._make_place(line.place)
        if why:
            return why
        keys = self._keys_below(line.place)
        rc, _output, errors = self._call(["timeout", "--signal=KILL", SECONDS, "mount", line.place])
        if rc:
            return _last(errors, "mount failed")
        if not self._is_mounted(line):  # with nofail, mount says nothing of a device that is not there
            return f"{line.source} is not there"
        if keys is None:
            return ""
        try:
            self._let_in(*keys)
        except OSError as error:
            self._call(["umount", line.place])
            return f"{self._user} could not log in any more: {keys[0]} cannot be written there: {error.strerror}"
        return ""

    def _make_place(self, path: str) -> str:
        """Make the directory to mount on; say why not. mount(8) goes there by name, as root."""
        try:
            with beneath.at(self._node.root, path, make=True) as place:
                place.make(0o755)
            with beneath.at(self._node.root, f"{path}/-") as inside:
                return "" if inside.led else "people may put another directory in its place"
        except OSError as error:
            return f"its directory cannot be made: {error.strerror}"

    def _keys_below(self, place: str) -> tuple[str, bytes, User] | None:
        """Return the file of keys that a mount would hide from who Ansible connects as."""
        account = next((one for one in homes.accounts(self._node) if one.name == self._user), None)
        if account is None or not f"{account.home}/".startswith(f"{place.rstrip('/')}/"):
            return None
        path = posixpath.join(account.home, ".ssh/authorized_keys")
        content = self._node.data(path)
        return (path, content, account) if content else None

    def _let_in(self, path: str, keys: bytes, account: User) -> None:
        """Add the keys to those that are there now; what is missing on the way is made. Raises OSError."""
        root, owner = self._node.root, (account.uid, account.gid)
        for directory, mode in ((account.home, 0o755), (posixpath.dirname(path), 0o700)):
            with beneath.at(root, directory, make=True) as place:
                place.make(mode, owner)
        before = self._node.data(path) or b""
        if set(files.merged_keys(before, keys).splitlines()) == set(before.splitlines()):
            return
        with beneath.at(root, path) as place:
            before = place.read() if place.status() else b""
            place.write(files.merged_keys(before, keys), 0o600, owner)
        self._outcome.change("write", path)


def _idle(section: Disks, known: set[str]) -> list[Device]:
    """Return the members of these arrays of which nothing is made."""
    return [one for one in storage.members(section, "linux_raid_member") if not one.below and one.uuid in known]


def _name(line: Line) -> str:
    return record.name_of_mount(line.place)


def _last(errors: str, otherwise: str) -> str:
    return (errors.strip().splitlines() or [otherwise])[-1]


def _shown(text: str) -> str:
    """Return an fstab without the passwords that its options may have."""
    lines = []
    for line in text.splitlines():
        found = parse(line)
        shown = commands.shown_options(",".join(found[0].options)) if found else ""
        lines.append(str(found[0].with_(options=[shown])) if found and found[0].options else line)
    return "".join(f"{line}\n" for line in lines)
