# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds a lock file, read from /proc."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

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
COMMAND_LENGTH = 100  # of a holder's command, as it is shown


@dataclass(frozen=True)
class Holder:
    """A process that holds a lock; unit is its systemd unit, or empty."""

    pid: int
    command: str
    unit: str
    path: str

    def __str__(self) -> str:
        """Return it in one line."""
        unit = f" of {self.unit}" if self.unit else ""
        command = self.command if len(self.command) <= COMMAND_LENGTH else f"{self.command[: COMMAND_LENGTH - 1]}…"
        return f"{self.path} is held by process {self.pid} ({command}){unit}"


def parse_locks(table: str) -> dict[int, set[int]]:
    """Read /proc/locks: processes that hold a lock, by inode; those that wait for one (->) are left out."""
    holders: dict[int, set[int]] = {}
    for pid, inode in _LOCK.findall(table):
        holders.setdefault(int(inode), set()).add(int(pid))
    return holders


def find_holder(paths: tuple[Path, ...] = APT_LOCKS, proc: Path = Path("/proc")) -> Holder | None:
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
                return Holder(pid, _command(proc / str(pid)), _unit(proc / str(pid)), str(path))
    return None


def find_named(paths: tuple[Path, ...] = DNF_PIDS, proc: Path = Path("/proc")) -> Holder | None:
    """Return the running process that one of the files names, or None."""
    for path in filter(Path.exists, paths):
        pid = path.read_text(errors="replace").strip()
        if pid.isdigit() and (proc / pid).exists():
            return Holder(int(pid), _command(proc / pid), _unit(proc / pid), str(path))
    return None


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
