# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Locks that nobody but their owner can take, and who holds a lock file, read from /proc.

flock(2) takes a lock on whatever can be opened, to read alone. So a lock of gpulab's lies where nobody else can open it
and whoever waits for one waits for a time only, and then names the holder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Callable

from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.runs import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

DIRECTORY = Path("/run/gpulab/locks")  # of a node

APT_LOCKS = (
    Path("/var/lib/dpkg/lock-frontend"),
    Path("/var/lib/dpkg/lock"),
    Path("/var/lib/apt/lists/lock"),
    Path("/var/cache/apt/archives/lock"),
)
# Files that hold the process id of the dnf that works, which dnf itself waits for; then RPM's own lock.
DNF_PIDS = (
    Path("/var/lib/dnf/rpmdb_lock.pid"),
    Path("/var/cache/dnf/metadata_lock.pid"),
    Path("/var/cache/dnf/download_lock.pid"),
)
RPM_LOCKS = (Path("/var/lib/rpm/.rpm.lock"), Path("/usr/lib/sysimage/rpm/.rpm.lock"))
# 1: POSIX  ADVISORY  WRITE 23533 00:45:1820826 0 EOF
_LOCK = re.compile(r"^\d+: (?!->)\S+ +\S+ +\S+ +(-?\d+) [0-9a-f]+:[0-9a-f]+:(\d+) ", re.MULTILINE)
SECONDS = 60.0  # what a short piece of work of somebody else may take
_LOOK_AGAIN = 0.05
COMMAND_LENGTH = 100  # of a holder's command, as it is shown


@dataclass(frozen=True)
class LockHolder:
    """A process that holds a lock; unit is its systemd unit, or empty; user is the name or number of who runs it."""

    pid: int
    command: str
    unit: str
    path: str
    user: str = ""

    def __str__(self) -> str:
        """Return it in one line."""
        unit = f" of {self.unit}" if self.unit else ""
        command = self.command if len(self.command) <= COMMAND_LENGTH else f"{self.command[: COMMAND_LENGTH - 1]}…"
        user = f" of user {self.user}" if self.user else ""
        return f"{self.path} is held by process {self.pid} ({command}){user}{unit}"


def opened(path: Path) -> int:
    """Open a lock file of our own, made where it is missing; nobody else can. Returns its descriptor."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if os.fstat(descriptor).st_uid == os.geteuid():
        os.fchmod(descriptor, 0o600)
    return descriptor


def place(name: str, directory: Path = DIRECTORY) -> Path:
    """Return where a lock of the node lies: in a directory for root alone."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.chmod(0o700)
    return directory / name


@contextlib.contextmanager
def held(path: Path, seconds: float = SECONDS, take: Callable[[int, int], None] = fcntl.flock) -> Iterator[None]:
    """Hold a lock; one that somebody else holds is waited for so long. Raises Refusal S022, which names the holder.

    take is fcntl.lockf for a file that other programs lock so.
    """
    descriptor = opened(path)
    try:
        deadline = time.monotonic() + seconds
        while True:
            try:
                take(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except (BlockingIOError, PermissionError) as error:  # fcntl(2) says either of a lock that is held
                if time.monotonic() >= deadline:
                    raise refuse(
                        "S022", holder=find_holder((path,)) or f"{path} is held", seconds=round(seconds)
                    ) from error
            time.sleep(_LOOK_AGAIN)
        yield
    finally:
        os.close(descriptor)


def parse_locks(table: str) -> dict[int, set[int]]:
    """Read /proc/locks: processes that hold a lock, by inode; those that wait for one (->) are left out."""
    holders: dict[int, set[int]] = {}
    for pid, inode in _LOCK.findall(table):
        holders.setdefault(int(inode), set()).add(int(pid))
    return holders


def find_holder(paths: tuple[Path, ...] = APT_LOCKS, proc: Path = Path("/proc")) -> LockHolder | None:
    """Return the process that holds one of the lock files, or None.

    An inode number is unique on its file system only, so the process must have the file open too.
    """
    try:
        table = parse_locks((proc / "locks").read_text(errors="replace"))
    except OSError:  # a kernel that tells nobody
        return None
    for path in filter(Path.exists, paths):
        for pid in sorted(table.get(path.stat().st_ino, ())):
            if _has_open(proc / str(pid), path):
                return holder(proc / str(pid), path)
    return None


def find_named(paths: tuple[Path, ...] = DNF_PIDS, proc: Path = Path("/proc")) -> LockHolder | None:
    """Return the running process that one of the files names, or None."""
    for path in filter(Path.exists, paths):
        pid = path.read_text(errors="replace").strip()
        if pid.isdigit() and (proc / pid).exists():
            return holder(proc / pid, path)
    return None


def holder(process: Path, path: Path) -> LockHolder:
    """Return who a process is, by its directory in /proc, that holds a file."""
    return LockHolder(int(process.name), _command(process), _unit(process), str(path), _user(process))


def _user(process: Path) -> str:
    try:
        return pwd.getpwuid(process.stat().st_uid).pw_name
    except (OSError, KeyError):
        return ""


def _has_open(process: Path, path: Path) -> bool:
    try:
        return any(link.readlink() == path for link in (process / "fd").iterdir())
    except OSError:  # it ended meanwhile, or is not ours to look at
        return False


def _command(process: Path) -> str:
    try:
        return " ".join((process / "cmdline").read_text(errors="replace").replace("\0", " ").split())
    except OSError:
        return "has ended"


def _unit(process: Path) -> str:
    try:
        cgroup = (process / "cgroup").read_text().splitlines()[-1]
    except (OSError, IndexError):
        return ""
    return next((name for name in reversed(cgroup.split("/")) if name.endswith((".service", ".scope"))), "")
