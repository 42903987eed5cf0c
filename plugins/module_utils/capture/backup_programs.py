# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots of restic and Borg, as these programs show them. Nothing is written to a repository, nor to the node.

A password is read by the program itself, from a file; a repository's address stands in the environment, which others
cannot read. Forms of what they print: `restic ls --json`, `borg list --json-lines`; see their manuals.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
import threading
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

DEADLINE = 600.0  # seconds for one command
MOST_ARCHIVES = 50  # of Borg, the newest
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?")
_KINDS = {
    "file": stat.S_IFREG,
    "dir": stat.S_IFDIR,
    "symlink": stat.S_IFLNK,
    "fifo": stat.S_IFIFO,
    "-": stat.S_IFREG,
    "d": stat.S_IFDIR,
    "l": stat.S_IFLNK,
    "p": stat.S_IFIFO,
}


class FailedError(Exception):
    """Why a program could not answer."""


class Saved(NamedTuple):
    """A file as a snapshot has it; times in nanoseconds since 1970. size is None where the snapshot does not say it."""

    kind: int
    size: int | None
    mtime: int
    ctime: int


class Snapshot(NamedTuple):
    """A snapshot: its id, and when it was made (ISO 8601)."""

    id: str
    taken: str


class Program:
    """A repository and the program that reads it. rounding is the precision of its times in nanoseconds."""

    name: str
    rounding: int

    def __init__(self, settings: dict[str, str]) -> None:
        """Take what the program reads from its environment."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RESTIC_", "BORG_"))}
        self._environment = {**kept, **settings, "LC_ALL": "C.UTF-8", "TZ": "UTC"}

    def snapshots(self) -> list[tuple[str, Snapshot]]:
        """Return (host, snapshot), the newest first."""
        raise NotImplementedError

    def files(self, snapshot: str, path: str) -> Iterator[tuple[str, Saved]]:
        """Yield what a snapshot has at and below a path."""
        raise NotImplementedError

    def content(self, snapshot: str, path: str) -> bytes:
        """Return the content of a file from a snapshot."""
        raise NotImplementedError

    def _lines(self, *arguments: str, accepted: tuple[int, ...] = (0,)) -> Iterator[bytes]:
        """Yield what the program prints, line by line."""
        if not shutil.which(self.name, path=self._environment.get("PATH")):
            msg = f"{self.name} is not installed on the node"
            raise FailedError(msg)
        with (
            tempfile.TemporaryFile() as errors,
            subprocess.Popen(
                [self.name, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # without a terminal that it could ask for a password
                env=self._environment,
            ) as process,
        ):
            timer = threading.Timer(DEADLINE, process.kill)
            timer.start()
            try:
                yield from process.stdout or ()
                code = process.wait()
            finally:
                timer.cancel()
                process.kill()
            if code not in accepted:
                errors.seek(0)
                lines = errors.read().decode("utf-8", "replace").split("\n")
                said = [line.strip() for line in lines if line.strip()] or ["it did not end in time"]
                msg = f"{self.name}: {said[-1]}"
                raise FailedError(msg)

    def _json(self, *arguments: str) -> Any:
        try:
            return json.loads(b"".join(self._lines(*arguments)))
        except ValueError as error:
            msg = f"{self.name} printed no JSON"
            raise FailedError(msg) from error


class Restic(Program):
    """A repository of restic."""

    name, rounding = "restic", 0

    def __init__(self, repository: str, password_file: str | None) -> None:
        """Read this repository."""
        password = {"RESTIC_PASSWORD_FILE": password_file} if password_file else {}
        super().__init__({"RESTIC_REPOSITORY": repository, **password})

    def snapshots(self) -> list[tuple[str, Snapshot]]:
        """Return (host, snapshot), the newest first."""
        found = self._json("snapshots", "--json", "--no-lock", "--no-cache")
        ordered = sorted(found or [], key=lambda one: nanoseconds(one["time"]), reverse=True)
        return [(one["hostname"], Snapshot(one["id"], one["time"])) for one in ordered]

    def files(self, snapshot: str, path: str) -> Iterator[tuple[str, Saved]]:
        """Yield what a snapshot has at and below a path."""
        for line in self._lines("ls", "--json", "--recursive", "--no-lock", "--no-cache", "--", snapshot, path):
            one = json.loads(line)
            if one.get("struct_type") == "node":
                size = one.get("size", 0) if one["type"] == "file" else None
                times = nanoseconds(one["mtime"]), nanoseconds(one["ctime"])
                yield one["path"], Saved(_KINDS.get(one["type"], 0), size, *times)

    def content(self, snapshot: str, path: str) -> bytes:
        """Return the content of a file from a snapshot."""
        return b"".join(self._lines("dump", "--no-lock", "--no-cache", "--", snapshot, path))


class Borg(Program):
    """A repository of Borg; its own directory is for what the program writes down for itself."""

    name, rounding = "borg", 2_000  # Borg shows microseconds, rounded

    def __init__(self, repository: str, password_file: str | None, own: str) -> None:
        """Read this repository."""
        password = {"BORG_PASSCOMMAND": f"cat -- {shlex.quote(password_file)}"} if password_file else {}
        settings = {
            "BORG_REPO": repository,
            "BORG_BASE_DIR": own,
            "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
            "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes",
        }
        super().__init__({**settings, **(password or {"BORG_PASSPHRASE": ""})})

    def snapshots(self) -> list[tuple[str, Snapshot]]:
        """Return (host, snapshot), the newest first."""
        shown = ("--json", "--format", "{hostname}", "--last", str(MOST_ARCHIVES))
        found = self._json("list", "--bypass-lock", *shown)["archives"]
        return [(one["hostname"], Snapshot(one["name"], one["start"])) for one in reversed(found)]

    def files(self, snapshot: str, path: str) -> Iterator[tuple[str, Saved]]:
        """Yield what a snapshot has at and below a path."""
        fields = "{type}{path}{source}{size}{mtime}{ctime}"
        arguments = ("--json-lines", "--format", fields, f"::{snapshot}", f"pp:{path.lstrip('/')}")
        for line in self._lines("list", "--bypass-lock", *arguments, accepted=(0, 1)):  # 1: it has no such path
            one = json.loads(line)
            size = one["size"] if one["type"] == "-" and not one["source"] else None  # of further hard links: 0
            times = nanoseconds(one["mtime"]), nanoseconds(one["ctime"])
            yield f"/{one['path']}", Saved(_KINDS.get(one["type"], 0), size, *times)

    def content(self, snapshot: str, path: str) -> bytes:
        """Return the content of a file from a snapshot."""
        return b"".join(self._lines("extract", "--bypass-lock", "--stdout", f"::{snapshot}", f"pp:{path.lstrip('/')}"))


@contextlib.contextmanager
def opened(receipt: dict[str, Any]) -> Iterator[Program]:
    """Let the repository of a receipt be read. Raises FailedError while it is used."""
    with tempfile.TemporaryDirectory(prefix="gpulab-") as own:
        try:
            repository, password_file = receipt["repository"], receipt.get("password_file")
            if receipt["program"] == Restic.name:
                yield Restic(repository, password_file)
            else:
                yield Borg(repository, password_file, own)
        except (OSError, ValueError, LookupError, TypeError) as error:  # it prints something else than was expected
            msg = f"{receipt['program']}: {error!r}"
            raise FailedError(msg) from error


def nanoseconds(time: str) -> int:
    """Return a time in nanoseconds since 1970; without a zone it is UTC. Raises ValueError."""
    found = _TIME.fullmatch(time)
    if not found:
        raise ValueError(time)
    zone = found[3] if found[3] not in (None, "Z") else "+00:00"
    seconds = int(datetime.fromisoformat(f"{found[1]}{zone}").timestamp())
    return seconds * 10**9 + int((found[2] or "").ljust(9, "0"))
