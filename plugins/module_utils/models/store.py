# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The store on the disk, as huggingface_hub reads its cache, and what comes into it and goes.

DIRECTORY/hub/models--ORG--NAME/blobs/SHA-256             a file; NAME.part while it comes
DIRECTORY/hub/models--ORG--NAME/snapshots/REVISION/FILE   a link to a blob
DIRECTORY/hub/models--ORG--NAME/refs/main                 the revision that a name without one means
DIRECTORY/locks/models--ORG--NAME/REVISION.sha256         the lock; .draft while files come

All of it is root's alone, so names in it lead nowhere else.
"""

from __future__ import annotations

import errno
import grp
import hashlib
import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import beneath
from ansible_collections.gpulab.node.plugins.module_utils.core.files import free_bytes, make_directory
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.models import refuse
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import first
from ansible_collections.gpulab.node.plugins.module_utils.models import holders
from ansible_collections.gpulab.node.plugins.module_utils.models.wanted import SHOWN, Lock, gigabytes, read_lock

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.models.record import Checked
    from ansible_collections.gpulab.node.plugins.module_utils.models.wanted import Entry, Repository

FILE, OPEN, CLOSED = 0o444, 0o755, 0o750
PART, NEW, DRAFT, LOCK = ".part", ".gpulab-new", ".draft", ".sha256"
SPARE = 64 << 20  # bytes that have to stay free
_BLOCK = 1 << 20


class Store:
    """The store in a directory; checked is what is known of its blobs."""

    def __init__(self, directory: Path, checked: Mapping[str, Checked]) -> None:
        """Read nothing yet."""
        self.directory = directory
        self._checked = dict(checked)

    def know(self, checked: Mapping[str, Checked]) -> None:
        """Take note of blobs that were read whole."""
        self._checked.update(checked)

    # where things are

    def at(self, folder: str) -> Path:
        """Return the directory of a repository."""
        return self.directory / "hub" / folder

    def blob(self, folder: str, digest: str) -> Path:
        """Return the place of a blob."""
        return self.at(folder) / "blobs" / digest

    def snapshot(self, folder: str, revision: str) -> Path:
        """Return the place of a snapshot."""
        return self.at(folder) / "snapshots" / revision

    def lock_path(self, folder: str, revision: str, suffix: str = LOCK) -> Path:
        """Return the place of a lock."""
        return self.directory / "locks" / folder / f"{revision}{suffix}"

    # looking

    def check_place(self, mounts: Collection[str]) -> None:
        """Raise Refusal M007 where root may not put the store there; mounts are places that have to be mounted."""
        for mount in mounts:
            if not os.path.ismount(mount):
                raise refuse("M007", directory=self.directory, problem=f"nothing is mounted at {mount}")
        tops = [self.directory, self.directory / "hub", self.directory / "locks"]
        for path in [*tops, *(self.directory / "hub").glob("*"), *(self.directory / "hub").glob("*/*")]:
            if path.is_symlink() or not (path.is_dir() or not path.exists()):
                raise refuse("M007", directory=self.directory, problem=f"{path} is no directory")
            lent = beneath.lent(path)
            if lent is not None:
                raise refuse("M007", directory=self.directory, problem=f"others than root may change names in {lent}")

    def lock(self, repository: Repository) -> Lock | None:
        """Return the lock that an earlier run has made. Raises Refusal M010 where it is none."""
        return self._read(self.lock_path(repository.folder, repository.revision))

    def draft(self, repository: Repository) -> dict[str, str]:
        """Return what is known of files that are still to come."""
        draft = self._read(self.lock_path(repository.folder, repository.revision, DRAFT))
        return draft.files if draft else {}

    @staticmethod
    def _read(path: Path) -> Lock | None:
        return read_lock(path.read_text(encoding="utf-8"), str(path)) if path.is_file() else None

    def has(self, folder: str, digest: str) -> bool:
        """Tell whether a blob is there, as far as its size and the last night tell."""
        known = self._checked.get(f"{folder}/{digest}")
        try:
            status = self.blob(folder, digest).lstat()
        except OSError:
            return False
        if known is not None and (known.damaged or known.size != status.st_size):
            return False
        return stat.S_ISREG(status.st_mode) and beneath.is_roots(status)

    def is_sealed(self, repository: Repository, files: Mapping[str, str], *, is_main: bool) -> bool:
        """Tell whether the snapshot has these files and no others, and whether rights, lock and refs are right."""
        folder, revision = repository.folder, repository.revision
        linked = self.links(folder, revision)
        main = self.at(folder) / "refs/main"
        return (
            linked == {path: _target(path, digest) for path, digest in files.items()}
            and self.lock_path(folder, revision).is_file()
            and (not is_main or (main.is_file() and main.read_text() == revision))
            and self._has_rights(repository)
        )

    def links(self, folder: str, revision: str) -> dict[str, str]:
        """Return where each link of a snapshot leads."""
        top = self.snapshot(folder, revision)
        return {
            str(path.relative_to(top)): os.readlink(path) if path.is_symlink() else ""  # noqa: PTH115 - a text
            for directory, _names, names in os.walk(top)
            for path in (Path(directory, name) for name in names)
        }

    def snapshots(self) -> list[tuple[str, str]]:
        """Return (folder, revision) of all that is there."""
        found = (self.directory / "hub").glob("*/snapshots/*")
        return sorted((path.parts[-3], path.name) for path in found if path.is_dir())

    def check_space(self, needed: int) -> None:
        """Raise Refusal M004 where the disk has not so many bytes for what comes."""
        free = free_bytes(self.directory)
        if needed and needed + SPARE > free:
            raise self.full(needed, free)

    def full(self, needed: int, free: int) -> Exception:
        """Return the refusal for want of space."""
        return refuse("M004", needed=gigabytes(needed), free=gigabytes(free), directory=self.directory)

    def part(self, folder: str, entry: Entry) -> Path:
        """Return where a file is while it comes."""
        name = entry.sha256 or f"{hashlib.sha256(entry.path.encode()).hexdigest()[:32]}-{entry.git or entry.size}"
        return self.at(folder) / "blobs" / f"{name}{PART}"

    def left(self, folder: str, entries: Iterable[Entry]) -> int:
        """Return how many bytes of these files are still to come."""
        parts = ((entry.size, self.part(folder, entry)) for entry in entries)
        return sum(max(0, size - (part.stat().st_size if part.is_file() else 0)) for size, part in parts)

    # changing

    def prepare(self, repository: Repository) -> None:
        """Make the directories of a repository, for those who may read it."""
        place = self.at(repository.folder)
        for path in (self.directory, self.directory / "hub", self.directory / "locks"):
            _make(path)
        place.mkdir(mode=0o700, exist_ok=True)
        os.chown(place, os.geteuid(), gid(repository.group) if repository.group else os.getegid())
        place.chmod(CLOSED if repository.group else OPEN)
        for name in ("blobs", "refs", "snapshots"):
            _make(place / name)
        _make(self.lock_path(repository.folder, "-").parent)

    def take(self, repository: Repository, entry: Entry) -> str:
        """Make a blob of a file that came whole, and return its SHA-256. Raises Refusal M002; the file is gone then."""
        part = self.part(repository.folder, entry)
        digest, git = digests(part)
        if (entry.sha256 and digest != entry.sha256) or (
            not entry.sha256 and len(entry.git) == len(git) and git != entry.git
        ):
            part.unlink()
            detail = f"{entry.path} has {digest}, not {entry.sha256 or f'{entry.git} of Git'}"
            raise refuse("M002", name=repository.name, files=detail)
        part.chmod(FILE)
        with part.open("rb") as stream:
            os.fsync(stream.fileno())
        part.replace(self.blob(repository.folder, digest))
        return digest

    def write_draft(self, repository: Repository, fetched: dict[str, str]) -> None:
        """Keep the digests of files that came."""
        draft = self.lock_path(repository.folder, repository.revision, DRAFT)
        _write(draft, Lock({**self.draft(repository), **fetched}, repository.files).text(repository))

    def seal(self, repository: Repository, files: dict[str, str], *, is_main: bool) -> None:
        """Let the lock, then the snapshot, then refs/main say what is there; let go of what nothing refers to."""
        folder, revision = repository.folder, repository.revision
        _write(self.lock_path(folder, revision), Lock(files, repository.files).text(repository))
        there, new = self.snapshot(folder, revision), self.at(folder) / NEW
        shutil.rmtree(new, ignore_errors=True)
        place = there if there.is_dir() else new
        _make(place)
        wanted = {path: _target(path, digest) for path, digest in files.items()}
        linked = self.links(folder, revision)
        for path in linked.keys() - wanted.keys():
            (there / path).unlink()
        for path in sorted(wanted):
            if linked.get(path) != wanted[path]:
                _link(place / path, wanted[path])
        if place == new:
            new.replace(there)
        if is_main:
            _write(self.at(folder) / "refs/main", revision)
        self.lock_path(folder, revision, DRAFT).unlink(missing_ok=True)
        self._sweep(folder)

    def remove(self, folder: str, revision: str) -> None:
        """Remove a snapshot, or all of a repository where it has no other; what it alone needed goes, too."""
        main = self.at(folder) / "refs/main"
        if main.is_file() and main.read_text() == revision:
            main.unlink()
        gone = self.at(folder) / NEW
        shutil.rmtree(gone, ignore_errors=True)
        if self.snapshot(folder, revision).is_dir():
            self.snapshot(folder, revision).replace(gone)
        self.lock_path(folder, revision).unlink(missing_ok=True)
        shutil.rmtree(gone, ignore_errors=True)
        self._sweep(folder)
        if not any(self.at(folder).glob("snapshots/*")):
            shutil.rmtree(self.at(folder))
            shutil.rmtree(self.lock_path(folder, revision).parent)

    def in_use(self, folder: str, revision: str) -> list[str]:
        """Return who has files of a snapshot open."""
        blobs = {self.at(folder) / "blobs" / Path(target).name for target in self.links(folder, revision).values()}
        held = holders.holders(path for path in blobs if path.is_file())
        return sorted({who for whos in held.values() for who in whos})

    def check_use(self, name: str, folder: str, revision: str) -> None:
        """Raise Refusal M006 where somebody has files of a snapshot open."""
        used = self.in_use(folder, revision)
        if used:
            raise refuse("M006", name=f"{name}@{revision[:8]}", holders=first(used, SHOWN))

    def tidy(self, wanted: Collection[tuple[str, str]]) -> None:
        """Forget what came of snapshots that nobody wants any more; wanted has (folder, revision)."""
        for draft in (self.directory / "locks").glob(f"*/*{DRAFT}"):
            if (draft.parent.name, draft.name[: -len(DRAFT)]) not in wanted:
                draft.unlink()
                self._sweep(draft.parent.name)

    def _sweep(self, folder: str) -> None:
        """Remove blobs that no snapshot and no draft refers to; parts, too, where there is no draft."""
        drafts = [self._read(path) for path in (self.directory / "locks" / folder).glob(f"*{DRAFT}")]
        needed = {digest for draft in drafts if draft for digest in draft.files.values()}
        for at, revision in self.snapshots():
            needed |= {Path(target).name for target in self.links(at, revision).values() if at == folder}
        for path in (self.at(folder) / "blobs").glob("*"):
            if path.name not in needed and not (drafts and path.name.endswith(PART)):
                path.unlink()

    def _has_rights(self, repository: Repository) -> bool:
        status = self.at(repository.folder).stat()
        mode = CLOSED if repository.group else OPEN
        return stat.S_IMODE(status.st_mode) == mode and (not repository.group or status.st_gid == gid(repository.group))


def digests(path: Path) -> tuple[str, str]:
    """Return the SHA-256 of a file, and the SHA-1 by which Git names it."""
    found, git = hashlib.sha256(), hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as stream:
        for block in iter(lambda: stream.read(_BLOCK), b""):
            found.update(block)
            git.update(block)
    return found.hexdigest(), git.hexdigest()


def is_full(error: OSError) -> bool:
    """Tell whether a disk or a quota was full."""
    return errno.ENOSPC in (error.errno, getattr(error.__cause__, "errno", None)) or error.errno == errno.EDQUOT


def gid(group: str) -> int:
    """Return a group's number. Raises Refusal M010 where there is no such group."""
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError as error:
        raise refuse("M010", problems=f"the node has no group {group}") from error


def _target(path: str, digest: str) -> str:
    return f"{'../' * (path.count('/') + 2)}blobs/{digest}"


def _make(path: Path) -> None:
    """Make a directory for everybody to enter, whatever the umask."""
    if not path.is_dir():
        make_directory(path, OPEN)


def _link(path: Path, target: str) -> None:
    _make(path.parent)
    new = path.with_name(f"{path.name}{NEW}")
    new.unlink(missing_ok=True)
    new.symlink_to(target)
    new.replace(path)


def _write(path: Path, text: str) -> None:
    """Write a file for everybody to read, whole or not at all."""
    new = path.with_name(f".{path.name}.new")
    with new.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    new.chmod(0o644)
    new.replace(path)
