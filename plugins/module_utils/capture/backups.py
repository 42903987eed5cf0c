# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backups that hold files of a node: which files they hold as they are now, and whether they can be read back.

A file counts as saved when the newest snapshot of this host has it with its size, mtime and ctime; for a copy by rsync,
when the copy has its size and mtime. Some of these files are read back from each backup and compared.
"""

from __future__ import annotations

import os
import posixpath
import random
import socket
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.capture import backup_programs, homes
from ansible_collections.gpulab.node.plugins.module_utils.core.child import DONE, Child
from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import is_below
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals import values
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.capture import refuse
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import masked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.capture.backup_programs import Program, Saved, Snapshot
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

RSYNC = "rsync"
READ_BACK = 5  # files of each backup
MOST_TRIED = 500  # to find these
LARGEST = 16 << 20  # bytes of a file that is read back
PATIENCE = 10.0  # seconds for a file system to answer
_SECOND = 10**9


class Receipts:
    """What the backups of a node hold."""

    def __init__(self, backups: list[Backup]) -> None:
        """Take them; records is for the manifest."""
        self._backups = backups
        self.records = [one.record for one in backups]

    def covers(self, path: str, status: os.stat_result) -> bool:
        """Tell whether a backup has the file as it is now."""
        return any(one.covers(path, status) for one in self._backups)


class Backup:
    """One backup: record is {path, program, repository, snapshot, taken, age_hours, files, bytes, read_back}.

    snapshot, taken (ISO 8601), age_hours, files and bytes are None for a copy by rsync, which does not say them.
    """

    def __init__(self, receipt: dict[str, Any]) -> None:
        """Begin the record."""
        self.path = posixpath.normpath(receipt["path"])
        self.record = {
            "path": self.path,
            "program": receipt["program"],
            "repository": receipt["repository"],
            **dict.fromkeys(("snapshot", "taken", "age_hours", "files", "bytes")),
            "read_back": 0,
        }

    def covers(self, path: str, status: os.stat_result) -> bool:
        """Tell whether it has the file as it is now."""
        return is_below(path, self.path) and self._has(path, status)

    def _has(self, path: str, status: os.stat_result) -> bool:
        raise NotImplementedError

    def _content(self, path: str) -> bytes:
        raise NotImplementedError

    def read_back(self, paths: Iterable[str]) -> None:
        """Compare some of the files that it covers. Raises Refusal R019 where one is not what the node has."""
        for path in paths:
            if self.record["read_back"] == READ_BACK:
                return
            before = _status(path)
            if before is None or not stat.S_ISREG(before.st_mode) or before.st_size > LARGEST:
                continue
            if not self.covers(path, before):
                continue
            with open(path, "rb", opener=_without_links) as stream:
                own = stream.read()
            after = _status(path)
            if after is None or not self.covers(path, after):
                continue  # it changed meanwhile
            if self._content(path) != own:
                raise refuse("R019", path=self.path, detail=f"its {path!a} is not what the node has")
            self.record["read_back"] += 1


class Copy(Backup):
    """A copy by rsync, in a directory on another disk of the node."""

    def _has(self, path: str, status: os.stat_result) -> bool:
        copy = _status(self._place(path))
        if copy is None or stat.S_IFMT(copy.st_mode) != stat.S_IFMT(status.st_mode):
            return False
        if stat.S_ISDIR(status.st_mode):
            return True
        coarse = copy.st_mtime_ns % _SECOND == 0  # a file system that keeps whole seconds
        mtime = status.st_mtime_ns - status.st_mtime_ns % _SECOND if coarse else status.st_mtime_ns
        return (copy.st_size, copy.st_mtime_ns) == (status.st_size, mtime)

    def _content(self, path: str) -> bytes:
        with open(self._place(path), "rb", opener=_without_links) as stream:
            return stream.read()

    def _place(self, path: str) -> str:
        return posixpath.join(str(self.record["repository"]), posixpath.relpath(path, self.path))


class Kept(Backup):
    """A snapshot in a repository."""

    def __init__(self, receipt: dict[str, Any], program: Program) -> None:
        """Find the newest snapshot of this host that holds the path, and read what is in it."""
        super().__init__(receipt)
        self._program = program
        self._snapshot, self._files = self._newest()
        taken = backup_programs.nanoseconds(self._snapshot.taken)
        sizes = [one.size or 0 for one in self._files.values() if one.kind == stat.S_IFREG]
        self.record.update(
            snapshot=self._snapshot.id,
            taken=f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(taken // _SECOND))}Z",
            age_hours=round((time.time() - taken / _SECOND) / 3600, 1),
            files=len(sizes),
            bytes=sum(sizes),
        )

    def _newest(self) -> tuple[Snapshot, dict[str, Saved]]:
        host = socket.gethostname()
        for of, snapshot in self._program.snapshots():
            if _short(of) == _short(host):
                files = dict(self._program.files(snapshot.id, self.path))
                if files:
                    return snapshot, files
        raise refuse("R019", path=self.path, detail=f"no snapshot of {host} in the repository holds it")

    def _has(self, path: str, status: os.stat_result) -> bool:
        saved = self._files.get(path)
        if saved is None or saved.kind != stat.S_IFMT(status.st_mode):
            return False
        return saved.kind == stat.S_IFDIR or (
            saved.size in (None, status.st_size)
            and abs(saved.mtime - status.st_mtime_ns) <= self._program.rounding
            and abs(saved.ctime - status.st_ctime_ns) <= self._program.rounding
        )

    def _content(self, path: str) -> bytes:
        return self._program.content(self._snapshot.id, path)

    def some(self) -> list[str]:
        """Return some of its files, others each time."""
        files = [path for path, saved in self._files.items() if saved.kind == stat.S_IFREG and saved.size is not None]
        return random.SystemRandom().sample(files, min(len(files), MOST_TRIED))


def read(node: Node, receipts: list[dict[str, Any]]) -> Receipts:
    """Read the backups that receipts name: {path, program (restic, borg or rsync), repository, password_file}.

    Raises Refusal R019 where one cannot be read back, or lies on the disk that a reinstall wipes; I031 where a
    repository's address has a password in it.
    """
    places = homes.Places(node)
    return Receipts([_backup(places, receipt) for receipt in receipts])


def _backup(places: homes.Places, receipt: dict[str, Any]) -> Backup:
    path, repository, program = receipt["path"], receipt["repository"], receipt["program"]
    if masked(repository) != repository:
        way = "Remove it from the address, and let the program read it from a file of its own on the node"
        raise values.refuse("I031", variable="capture_receipts", way=way)
    local = _local(repository)
    if program == RSYNC and local is None:
        raise refuse("R019", path=path, detail=f"{repository} is not a directory of the node")
    if local is not None and places.on_root_disk(places.followed(local)):
        raise refuse("R019", path=path, detail=f"{local} is on the root disk, which a reinstall wipes")
    password_file = receipt.get("password_file")
    if password_file and not Path(password_file).is_file():
        raise refuse("R019", path=path, detail=f"{password_file} is not there")
    if program == RSYNC:
        return _copy(receipt, str(local))
    try:
        with backup_programs.opened(receipt) as opened:
            kept = Kept(receipt, opened)
            kept.read_back(kept.some())
    except backup_programs.FailedError as error:
        raise refuse("R019", path=path, detail=error) from error
    return kept


def _copy(receipt: dict[str, Any], place: str) -> Copy:
    child = Child(lambda emit: emit(Path(place).is_dir()), PATIENCE)
    if child.wait() != DONE or child.messages != [True]:
        raise refuse(
            "R019", path=receipt["path"], detail=f"{place} is no directory, or its file system does not answer"
        )
    copy = Copy({**receipt, "repository": place})
    copy.read_back(_some_below(copy.path))
    return copy


def _some_below(path: str) -> Iterator[str]:
    """Yield some files below a directory, from all over it."""
    left, tried, dice = [path], 0, random.SystemRandom()
    while left and tried < MOST_TRIED:
        directory = left.pop(dice.randrange(len(left)))
        try:
            entries = list(os.scandir(directory))
        except OSError:  # it is a file, or gone
            entries = []
        left += [one.path for one in entries if one.is_dir(follow_symlinks=False)]
        files = [one.path for one in entries if one.is_file(follow_symlinks=False)]
        for file in dice.sample(files, min(len(files), READ_BACK)):
            tried += 1
            yield file


def _local(repository: str) -> str | None:
    """Return the directory of a repository on the node; None where it is elsewhere."""
    for scheme in ("local:", "file://"):
        if repository.startswith(scheme):
            return repository[len(scheme) :]
    return repository if repository.startswith("/") else None


def _short(host: str) -> str:
    return host.partition(".")[0]


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _without_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
