# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put what GRUB shall start once on a node, choose it for the next boot, and take all of it back.

As long as it is there, nobody but root can log in, and a timer takes it back: the run may die. So does the next boot of
this system, whether the installer refused or something went round GRUB: what was chosen must not start weeks later.
"""

from __future__ import annotations

import os
import shutil
import stat
from typing import TYPE_CHECKING, Any, Callable

from ansible_collections.gpulab.node.plugins.module_utils.core import files, owned_block
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.reinstall import refuse
from ansible_collections.gpulab.node.plugins.module_utils.system import boot_once

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.module_utils.system.boot_once import Place

Call = Callable[[list[str]], tuple[int, str, str]]  # exit status, output, errors
NOLOGIN = ("/run/nologin", "/etc/nologin")  # gpulab writes the first, which a boot removes
RELEASE = "/run/gpulab/reinstall-release.sh"
BACK = "/etc/gpulab-reinstall-back.sh"  # what the next boot of this system runs, by this unit
BACK_UNIT = "/etc/systemd/system/gpulab-reinstall-back.service"
BACK_LINK = "/etc/systemd/system/multi-user.target.wants/gpulab-reinstall-back.service"
UNIT, REBOOT = "gpulab-reinstall-release", "gpulab-reinstall-reboot"
MARK = "gpulab: "  # how gpulab's message begins
MARGIN = 64 << 20  # bytes that stay free
UUIDS = "/dev/disk/by-uuid"
_CHUNK = 1 << 20
_BACK = f"""\
# Written by gpulab: takes back a reinstall after which this system starts again.
[Unit]
Description=Take back a reinstall that left this system as it was
After=local-fs.target
Before=ssh.service sshd.service

[Service]
Type=oneshot
TimeoutStartSec=60
ExecStart=/bin/sh {BACK}
"""


class BootOnce:
    """What GRUB starts once on one node; call runs a command there."""

    def __init__(self, node: Node, call: Call, host: str) -> None:
        """Take the node; host is its name in refusals."""
        self._node, self._call, self._host = node, call, host

    def look(self) -> dict[str, Any]:
        """Return {obstacle, places (paths), here ({name: SHA-256}), armed, boot_id}; nothing is changed."""
        place = self._place_there()
        return {
            "obstacle": boot_once.obstacle(self._node) or self._no_editor(),
            "places": [one.path for one in self._places()],
            "here": self._sums(place) if place else {},
            "armed": self._variables().get(boot_once.NEXT) == boot_once.ENTRY,
            "boot_id": self._node.text("/proc/sys/kernel/random/boot_id"),
        }

    def put(self, given: dict[str, dict[str, Any]]) -> bool:
        """Let the directory hold these files and no others; return whether something changed.

        given has {sha256, size, source} by name; source is where the file was copied to, None where it is there.
        Raises Refusal R025 without space, R070 where a file did not arrive whole, and where others could read it.
        """
        before = self._place_there()
        here = self._sums(before) if before else {}
        if here == {name: one["sha256"] for name, one in given.items()}:
            return False
        place = self._with_space(sum(one["size"] for one in given.values()), before)
        directory = self._node.path(place.path)
        for other in boot_once.PLACES:
            if other != place.path:
                shutil.rmtree(self._node.path(other), ignore_errors=True)
        directory.mkdir(mode=0o700, exist_ok=True)
        files.set_rights(directory, 0o700)
        for name in {path.name for path in directory.iterdir()} - set(given):
            (directory / name).unlink()
        for name, one in given.items():
            if one["source"] is not None:
                self._take(directory / name, one["source"], one["sha256"])
        if self._sums(place) != {name: one["sha256"] for name, one in given.items()}:
            raise refuse("R070", host=self._host, detail="not all files are there")
        for path in (directory, *(directory / name for name in given)):
            if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise refuse("R070", host=self._host, detail=f"others may read {path}")
        return True

    def _take(self, target: Path, source: str, sha256: str) -> None:
        draft = target.with_name(f".{target.name}.new")
        draft.touch(0o600)
        with open(source, "rb") as stream, draft.open("wb") as out:  # noqa: PTH123 - where Ansible copied it to
            shutil.copyfileobj(stream, out, _CHUNK)
            out.flush()
            os.fsync(out.fileno())
        os.unlink(source)  # noqa: PTH108
        files.set_rights(draft, 0o600)
        if files.sha256(draft) != sha256:
            draft.unlink()
            raise refuse("R070", host=self._host, detail=f"{target.name} has another checksum")
        draft.rename(target)

    def arm(self, module: Any, title: str, names: list[str], arguments: Iterable[str]) -> bool:
        """Choose the entry for the next boot; names are of the kernel and its archives. Return whether it was not.

        module is an AnsibleModule, by whose temporary directory files are replaced. Raises Refusal R024 where the
        environment is not as it should be then; all is as before in that case.
        """
        reason = boot_once.obstacle(self._node) or self._no_editor()
        place = self._place_there()
        if reason or place is None or not set(names) <= set(self._node.names(place.path)):
            raise refuse("R024", host=self._host, detail=reason or "the installer is not on the node")
        entry = boot_once.entry(place, title, names[0], names[1:], arguments)
        before = self._variables()
        changed = self._write_menu(module, entry)
        wanted = {**before, boot_once.NEXT: boot_once.ENTRY}
        if before == wanted and not changed:
            return False
        self._let_a_boot_take_it_back()
        self._edit("set", f"{boot_once.NEXT}={boot_once.ENTRY}")
        os.sync()
        found, wrong = self._variables(), self._menu_fault()
        if found != wanted or wrong:
            self.disarm(module)
            raise refuse("R024", host=self._host, detail=wrong or f"its environment holds {found} and not {wanted}")
        return True

    def disarm(self, module: Any) -> bool:
        """Take everything back that put, arm and lock did; return whether something was there."""
        changed = False
        if self._variables().get(boot_once.NEXT) == boot_once.ENTRY:
            self._edit("unset", boot_once.NEXT)
            changed = True
        changed |= self._write_menu(module, "")
        for path in map(self._node.path, boot_once.PLACES):
            if path.is_dir():
                shutil.rmtree(path)
                changed = True
        for path in map(self._node.path, (BACK_LINK, BACK_UNIT, BACK)):
            if path.is_symlink() or path.exists():
                path.unlink()
                changed = True
        return self._unlock() or changed

    def _let_a_boot_take_it_back(self) -> None:
        for path, text, mode in ((BACK, self._release_script(), 0o700), (BACK_UNIT, _BACK, 0o644)):
            place = self._node.path(path)
            files.make_directory(place.parent)
            place.write_text(text, encoding="utf-8")
            place.chmod(mode)
        link = self._node.path(BACK_LINK)
        files.make_directory(link.parent)
        link.unlink(missing_ok=True)
        link.symlink_to(f"../{link.name}")

    def lock(self, message: str, seconds: int) -> bool:
        """Let nobody but root log in, for this time unless it is said again; return whether the lock is new.

        Who is in stays in, and so do connections that are kept. A lock of somebody else's stays as it is. Raises
        Refusal R071 where nothing would open it again.
        """
        release = self._node.path(RELEASE)
        files.make_directory(release.parent)
        release.write_text(self._release_script(), encoding="utf-8")
        release.chmod(0o700)
        self._call(["systemctl", "stop", f"{UNIT}.timer"])
        done = self._call(["systemd-run", f"--unit={UNIT}", "--collect", f"--on-active={seconds}", "/bin/sh", RELEASE])
        if done[0] != 0:
            raise refuse("R071", host=self._host, detail=(done[2] or done[1] or "systemd-run failed").strip())
        if any(self._node.exists(path) for path in NOLOGIN):
            return False
        path = self._node.path(NOLOGIN[0])
        path.write_text(f"{MARK}{message}\n", encoding="utf-8")
        path.chmod(0o644)
        return True

    def _unlock(self) -> bool:
        release, nologin = self._node.path(RELEASE), self._node.path(NOLOGIN[0])
        mine = self._node.text(NOLOGIN[0]).startswith(MARK.strip())
        if not mine and not release.exists():
            return False
        self._call(["systemctl", "stop", f"{UNIT}.timer"])
        if mine:
            nologin.unlink()
        if release.exists():
            release.unlink()
        return True

    def reboot(self, seconds: int = 3) -> None:
        """Reboot in some seconds, so that who asked gets an answer. Raises Refusal R024 and R071."""
        if self._variables().get(boot_once.NEXT) != boot_once.ENTRY:
            raise refuse("R024", host=self._host, detail="the installer is not chosen for the next boot any more")
        done = self._call(
            ["systemd-run", f"--unit={REBOOT}", "--collect", f"--on-active={seconds}", "systemctl", "reboot"]
        )
        if done[0] != 0:
            raise refuse("R071", host=self._host, detail=(done[2] or done[1] or "systemd-run failed").strip())

    def _places(self) -> list[Place]:
        return boot_once.places(self._node, uuids(self._node))

    def _place_there(self) -> Place | None:
        """Return the place that has a directory of gpulab's."""
        return next((one for one in self._places() if self._node.is_dir(one.path)), None)

    def _with_space(self, size: int, before: Place | None) -> Place:
        """Return the first place with room for so many bytes. Raises Refusal R025."""
        seen = []
        for place in self._places():
            directory = self._node.path(place.path)
            there = sum(path.stat().st_size for path in directory.iterdir()) if place == before else 0
            sizes = os.statvfs(directory.parent)
            free = sizes.f_bavail * sizes.f_frsize + there
            if free >= size + MARGIN:
                return place
            seen.append(f"{directory.parent} has {free >> 20} MiB free")
        need = f"{(size + MARGIN) >> 20} MiB are needed where GRUB can read them"
        raise refuse("R025", host=self._host, detail=f"{need}, and {', '.join(seen) or 'there is no such place'}")

    def _sums(self, place: Place) -> dict[str, str]:
        return {path.name: files.sha256(path) for path in self._node.path(place.path).iterdir() if path.is_file()}

    # The environment and the menu

    def _editor(self) -> str | None:
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
        return next(filter(None, (shutil.which(name, path=path) for name in boot_once.EDITORS)), None)

    def _no_editor(self) -> str:
        return "" if self._editor() else f"it has no {boot_once.EDITORS[0]}"

    def _environment(self) -> Path | None:
        of_grub = boot_once.directory(self._node)
        return self._node.path(boot_once.environment(self._node, of_grub)) if of_grub else None

    def _variables(self) -> dict[str, str]:
        """Return GRUB's variables, as its own program reads them."""
        path, editor = self._environment(), self._editor()
        if path is None or editor is None or not path.is_file():
            return {}
        return boot_once.variables(self._call([editor, str(path), "list"])[1])

    def _edit(self, *words: str) -> None:
        rc, output, errors = self._call([str(self._editor()), str(self._environment()), *words])
        if rc != 0:
            raise refuse("R024", host=self._host, detail=f"grub-editenv {words[0]}: {(errors or output).strip()}")

    def _menu(self) -> Path | None:
        of_grub = boot_once.directory(self._node)
        return self._node.path(f"{of_grub}/custom.cfg") if of_grub else None

    def _write_menu(self, module: Any, entry: str) -> bool:
        """Let the block in custom.cfg hold the entry, none where it is empty; return whether that changed it."""
        path = self._menu()
        if path is None:
            return False
        before = path.read_text(encoding="utf-8", errors="surrogateescape") if path.is_file() else None
        after = owned_block.merged(before, entry, boot_once.OWNER)
        if after == before:
            return False
        files.put(module, path, after, files.mode_of(path))
        return True

    def _menu_fault(self) -> str:
        """Say what GRUB's own program finds wrong with custom.cfg; nothing where it is not there to ask."""
        checker = next(filter(None, map(shutil.which, ("grub-script-check", "grub2-script-check"))), None)
        if checker is None:
            return ""
        rc, output, errors = self._call([checker, str(self._menu())])
        return f"custom.cfg cannot be read: {(errors or output).strip()}" if rc != 0 else ""

    def _release_script(self) -> str:
        environment, editor = self._environment(), self._editor()
        chosen = f"{boot_once.NEXT}={boot_once.ENTRY}"
        unset = [
            f"if '{editor}' '{environment}' list | grep -qx '{chosen}'; then",
            f"  '{editor}' '{environment}' unset {boot_once.NEXT}",
            "fi",
        ]
        begin, end = (mark.format(owner=boot_once.OWNER) for mark in (owned_block.BEGIN, owned_block.END))
        menu = self._menu()
        out = [
            f"if grep -qxF '{begin}' '{menu}' && grep -qxF '{end}' '{menu}'; then",
            f"  sed -i '/^{begin}$/,/^{end}$/d' '{menu}'",
            f"  [ -s '{menu}' ] || rm -f '{menu}'",
            "fi",
        ]
        lines = [
            "# Written by gpulab: takes back a reinstall whose run died, or whose installer did not install.",
            *(unset if environment and editor else []),
            *(out if menu else []),
            *(f"rm -rf '{self._node.path(path)}'" for path in boot_once.PLACES),
            f"if grep -q '^{MARK}' '{self._node.path(NOLOGIN[0])}'; then",
            f"  rm -f '{self._node.path(NOLOGIN[0])}'",
            "fi",
            f"rm -f {' '.join(str(self._node.path(path)) for path in (BACK_LINK, BACK_UNIT, BACK, RELEASE))}",
        ]
        return "\n".join([*lines, ""])


def uuids(node: Node) -> dict[str, str]:
    """Return the UUIDs of file systems by the number of their device, as "259:2"."""
    found = {}
    for uuid in node.names(UUIDS):
        name = os.path.basename(node.resolve(f"{UUIDS}/{uuid}"))  # noqa: PTH119
        number = node.text(f"/sys/class/block/{name}/dev")
        if number:
            found[number] = uuid
    return found
