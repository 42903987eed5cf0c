# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The captured files of a node: contents arrive first, then all is put in its place in one go."""

from __future__ import annotations

import base64
import os
import posixpath
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.capture import homes
from ansible_collections.gpulab.node.plugins.module_utils.capture.digests import digest
from ansible_collections.gpulab.node.plugins.module_utils.capture.owned import Packages
from ansible_collections.gpulab.node.plugins.module_utils.core import beneath, installed_packages
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.rebuild import refuse
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import files, record, release, tree
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.outcome import Outcome

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.module_utils.rebuild.asked import Asked, Judged, Part
    from ansible_collections.gpulab.node.plugins.module_utils.rebuild.files import Plan, Step

SKELETON = "/etc/skel"
BY_UUID = ("/dev/disk/by-uuid", "/dev/disk/by-partuuid")
MAPPED = "/dev/mapper"
SECURITY = ("/usr/lib/x86_64-linux-gnu/security", "/usr/lib/aarch64-linux-gnu/security", "/usr/lib64/security",
            "/usr/lib/security", "/lib/security")  # fmt: skip
SUDOERS = "/etc/sudoers"
FOR_THE_INSTALLATION = f"{SUDOERS}.d/gpulab-reinstall"  # what let Ansible use sudo until now
STAYS = "it stays: without it, Ansible cannot use sudo"
CHOICES = "/var/lib/dpkg/alternatives", "/var/lib/alternatives"
CHANGING = (files.PUT, files.MERGE, files.RIGHTS, files.CHOOSE)
SHOWN = 200  # lines of a diff


def stage(host: str, parts: list[Part], state: Path = record.DIRECTORY) -> None:
    """Take parts of contents. Raises Refusal R042 for a damaged one."""
    place = _staged(state)
    place.mkdir(0o700, parents=True, exist_ok=True)
    state.chmod(0o700)
    for part in parts:
        draft = place / f"{part.sha256}.part"
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | (0 if part.start else os.O_TRUNC), 0o600)
        try:
            os.pwrite(handle, base64.b64decode(part.data), part.start)
        except OSError as error:
            raise refuse("R042", path=part.path, host=host) from error
        finally:
            os.close(handle)
        if part.last:
            if (digest(draft, "sha256") or b"").hex() != part.sha256:
                draft.unlink()
                raise refuse("R042", path=part.path, host=host)
            draft.replace(place / part.sha256)


def _staged(state: Path) -> Path:
    return state / "content"


def restore(node: Node, asked: Asked, *, check: bool, state: Path = record.DIRECTORY) -> dict[str, Any]:
    """Bring back files, as far as their contents have arrived: wanted are the digests of those that have not.

    Nothing changes as long as one is wanted.
    """
    work = _Work(node, asked, state)
    outcome = work.outcome()
    wanted = work.wanted()
    if not check and not wanted:
        work.apply(outcome)
    return outcome.result(wanted=wanted)


class _Work:
    """One look at a node, and what follows from it."""

    def __init__(self, node: Node, asked: Asked, state: Path) -> None:
        self._node = node
        self._asked = asked
        self._state = state
        self._known = record.read(state / record.PLACE.name)
        self._packages: Packages | None = None
        self._people = {
            one.home.rstrip("/")
            for one in homes.accounts(node)
            if one.uid and one.home.strip("/") and not one.shell.endswith(homes.NO_LOGIN)
        }
        self._places = homes.Places(node)
        self._ids = tree.Ids(node)
        there = {name.lower() for directory in BY_UUID for name in node.names(directory)}
        there |= {f"{MAPPED}/{name}".lower() for name in node.names(MAPPED)}
        self._context = files.Node(
            same_release=not release.difference(node, asked.machine.system),
            restored=self._known["files"],
            covered=lambda path: not self._places.on_root_disk(path),
            real=self._is_real,
            of_people=lambda path: any(path.startswith(f"{home}/") for home in self._people),
            version=self._version,
            there=there,
        )
        self._versions: dict[str, str] | None = None
        self._inodes: dict[str, tuple[int, int]] = {}  # of the files that are there as they were
        self.plan: Plan = files.plan(asked.entries, self._now, self._origin, self._context, self._ids)
        self.plan.steps = [self._checked(step) for step in self.plan.steps]

    def _now(self, entry: Judged) -> tree.Now:
        return tree.now(self._node, entry)

    def _is_real(self, directory: str) -> bool:
        """Tell whether the way to a directory, as far as it is there, leads through directories only."""
        place = self._node.root
        for name in directory.strip("/").split("/"):
            place = place / name
            if place.is_symlink() or (place.exists() and not place.is_dir()):
                return False
        return True

    def _version(self, package: str) -> str | None:
        if self._versions is None:
            self._versions = versions(self._node)
        return self._versions.get(package)

    def _origin(self, path: str) -> str:
        if self._packages is None:
            self._packages = Packages(self._node)
        place = self._node.path(path)
        if path in self._packages and self._packages.unchanged(path, place.lstat()):
            return files.PACKAGE
        home = next((home for home in self._people if path.startswith(f"{home}/")), None)
        if home:
            own, model = (digest(one, "sha256") for one in (place, self._node.path(f"{SKELETON}{path[len(home) :]}")))
            return files.SKELETON if own is not None and own == model else ""
        return ""

    def _checked(self, step: Step) -> Step:
        """Leave a file whose new content would lock people out, and a choice that nobody offers now."""
        path = step.entry["path"]
        if step.kind == files.CHOOSE:
            return self._choice(step)
        if step.kind != files.PUT or step.entry["kind"] != tree.FILE or not path.startswith(files.PAM):
            return step
        missing = sorted(one for one in step.entry.get("modules", ()) if not self._has_module(one))
        if missing:
            return files.Step(files.LEAVE, step.entry, f"it asks for {', '.join(missing)}, which is not there")
        return step

    def _choice(self, step: files.Step) -> files.Step:
        """Leave a choice that nobody offers now; a later release names a program below /usr that was in /bin."""
        path, target = step.entry["path"], step.entry.get("target", "")
        offers = [
            place for place in (f"{one}/{posixpath.basename(path)}" for one in CHOICES) if self._node.exists(place)
        ]
        if not offers or not self._node.exists(target):
            return files.Step(files.LEAVE, step.entry, f"no package offers {target or None} now")
        offered = "".join(map(self._node.text, offers)).splitlines()
        if target in offered or f"/usr{target}" not in offered:
            return step
        entry: Judged = {**step.entry, "target": f"/usr{target}"}
        return files.Step(files.SAME if self._node.link(path) == entry["target"] else files.CHOOSE, entry)

    def _has_module(self, name: str) -> bool:
        if name.startswith("/"):
            return self._node.exists(name)
        return any(self._node.exists(f"{directory}/{name}") for directory in SECURITY)

    def outcome(self) -> Outcome:
        """Return what changes and what is left."""
        outcome = Outcome()
        steps = self.plan.of(*CHANGING)
        for step in steps:
            outcome.change("change" if step.kind == files.RIGHTS else "write", step.entry["path"])
        for path, other in self.plan.links.items():
            if not any(step.entry["path"] == path for step in steps):
                outcome.change("change", f"{path} to one file with {other}")
        for programs in self._commands():
            outcome.change("run", " ".join(programs[0]))
        if self._is_leftover() and FOR_THE_INSTALLATION in self._known["files"]:
            outcome.lack(files.SECTION, FOR_THE_INSTALLATION, STAYS)
        elif self._is_leftover():
            outcome.change("delete", FOR_THE_INSTALLATION)
        for step in self.plan.of(files.LEAVE):
            outcome.lack(files.SECTION, step.entry["path"], step.why)
        for step in self.plan.of(files.PUT):
            if step.beside:
                why = f"the new release's own is kept as {step.entry['path']}{files.BESIDE}"
                outcome.lack(files.SECTION, step.entry["path"], why)
        before = [f"{step.entry['path']} {_shown(self._now(step.entry))}" for step in steps[:SHOWN]]
        after = [f"{step.entry['path']} {self._wanted(step)}" for step in steps[:SHOWN]]
        outcome.show("captured files", "\n".join(before) + "\n", "\n".join(after) + "\n")
        return outcome

    def _wanted(self, step: Step) -> str:
        entry = step.entry
        owner = "{}:{}".format(*self._ids.of(entry))
        return f"{entry['kind']} {entry['mode']} {owner} {entry.get('target') or entry['size']}"

    def _commands(self) -> list[tuple[tuple[str, ...], ...]]:
        paths = [step.entry["path"] for step in self.plan.of(files.PUT)]
        return files.commands([*paths, *self._known["pending"]])

    def wanted(self) -> list[str]:
        """Return the digests of the contents that are needed and not here."""
        needed = {step.entry["sha256"] for step in self.plan.of(files.PUT, files.MERGE) if "sha256" in step.entry}
        return sorted(one for one in needed if not (_staged(self._state) / one).is_file())

    def apply(self, outcome: Outcome) -> None:
        """Put all in its place, and note it."""
        place = self._state / record.PLACE.name
        commands = self._commands()
        record.set_pending([step.entry["path"] for step in self.plan.of(files.PUT)] if commands else [], place)
        same = self.plan.of(files.SAME)
        self._inodes = {step.entry["path"]: step.found.inode for step in same}
        done = {step.entry["path"] for step in same}
        try:
            for step in self.plan.of(*CHANGING):
                done |= {step.entry["path"]} if self._bring(step, outcome) else set()
            for path, other in self.plan.links.items():
                self._one_file(path, other, outcome)
        finally:
            record.add(place, files=done)
        if self._is_leftover() and FOR_THE_INSTALLATION not in self._known["files"]:
            self._remove_leftover(outcome, place)
        for programs in commands:
            self._run(programs, outcome)
        record.set_pending([], place)
        shutil.rmtree(_staged(self._state), ignore_errors=True)

    def _bring(self, step: Step, outcome: Outcome) -> bool:
        """Put one path in its place; what changed meanwhile, or a file system does not take, is named."""
        entry, path = step.entry, step.entry["path"]
        content: Path | bytes | None = _staged(self._state) / entry["sha256"] if "sha256" in entry else None
        try:
            if step.kind == files.CHOOSE:
                return self._choose(entry, outcome)
            if step.kind == files.MERGE and isinstance(content, Path):
                now = tree.read(self._node, entry, self._ids, step.found)
                content = files.merged_keys(content.read_bytes(), now)
            if step.beside:
                tree.keep(self._node, path, f"{path}{files.BESIDE}", step.found)
            if step.kind == files.PUT and path.startswith(SUDOERS) and isinstance(content, Path):
                return self._put_sudoers(entry, content, outcome)
            self._inodes[path] = tree.put(self._node, entry, content, self._ids, step.found)
        except OSError as error:
            outcome.lack(files.SECTION, path, _why(error))
            return False
        return True

    def _choose(self, entry: Judged, outcome: Outcome) -> bool:
        name = posixpath.basename(entry["path"])
        return self._run(((("update-alternatives", "--set", name, entry["target"])),), outcome)

    def _put_sudoers(self, entry: Judged, content: Path, outcome: Outcome) -> bool:
        """Put a file of sudo's; it counts only if it is valid, and who Ansible connects as may do what they could."""
        place = self._node.path(entry["path"])
        checked = self._node.start(["visudo", "--check", "--quiet", f"--file={content}"]).result()
        if checked is not None and checked[0]:
            outcome.lack(files.SECTION, entry["path"], "visudo finds it faulty")
            return False
        before = place.read_bytes() if place.is_file() else None
        could = self._may_use_sudo()
        tree.put(self._node, entry, content, self._ids)
        if could and not self._may_use_sudo():
            if before is None:
                place.unlink()
            else:
                former: Judged = {**entry, "mode": "0440"}
                tree.put(self._node, former, before, self._ids)
            outcome.lack(files.SECTION, entry["path"], f"{self._asked.user} could not use sudo any more")
            return False
        return True

    def _is_leftover(self) -> bool:
        captured = any(entry["path"] == FOR_THE_INSTALLATION for entry in self._asked.entries)
        return self._node.exists(FOR_THE_INSTALLATION) and not captured

    def _remove_leftover(self, outcome: Outcome, noted: Path) -> None:
        """Remove what the installer let Ansible use sudo by, if it can use sudo without it. This is tried once."""
        place = self._node.path(FOR_THE_INSTALLATION)
        draft = place.with_name(f".{place.name}")  # sudo reads no file with a dot in its name
        place.replace(draft)
        if self._asked.user == "root" or self._may_use_sudo():
            draft.unlink()
        else:
            draft.replace(place)
            record.add(noted, files=[FOR_THE_INSTALLATION])
            outcome.lack(files.SECTION, FOR_THE_INSTALLATION, STAYS)

    def _may_use_sudo(self) -> bool:
        user = self._asked.user
        answer = self._node.start(["sudo", "--list", f"--other-user={user}"]).output() if user != "root" else None
        return answer is not None and "may run the following" in answer

    def _one_file(self, path: str, other: str, outcome: Outcome) -> None:
        if not {path, other} <= self._inodes.keys() or self._inodes[path] == self._inodes[other]:
            return  # one of them did not come back, and is named; or both are one file
        try:
            tree.join(self._node, path, other, self._inodes)
        except OSError as error:
            outcome.lack(files.SECTION, path, f"it is no longer one file with {other}: {_why(error)}")

    def _run(self, programs: tuple[tuple[str, ...], ...], outcome: Outcome) -> bool:
        """Run the first program that is there; whether it came to its end."""
        for argv in programs:
            done = self._node.start(list(argv)).result()
            if done is not None and done[0] == 0:
                return True
            if done is not None:
                said = (done[2].strip() or done[1].strip() or "it failed").splitlines()[-1]
                outcome.lack(files.SECTION, " ".join(argv), said)
                return False
        return True


def versions(node: Node) -> dict[str, str]:
    """Return the versions of installed packages by name, and by name:architecture, as dpkg's lists of files have it."""
    of_dpkg, of_rpm = (node.start(list(query)) for query in (installed_packages.DPKG, installed_packages.RPM))
    found = {rpm.name: rpm.version for rpm in installed_packages.rpms(of_rpm.output() or "")}
    for name, deb in installed_packages.debs(of_dpkg.output() or "").items():
        if deb.status == "installed":
            found.update(dict.fromkeys((name, f"{name.partition(':')[0]}:{deb.architecture}"), deb.version))
    return found


def _why(error: OSError) -> str:
    if isinstance(error, beneath.ChangedError):
        return "it changed while it was restored"
    return f"it cannot be written: {error.strerror}"


def _shown(now: tree.Now) -> str:
    if not now.kind:
        return "absent"
    return f"{now.kind} {now.mode} {now.uid}:{now.gid} {now.target or now.size}"
