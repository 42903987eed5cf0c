# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How facts are read from a node: its files below a root directory, and short commands with a deadline."""

from __future__ import annotations

import fcntl
import os
import posixpath
import shutil
import socket
import stat
import struct
import subprocess
from pathlib import Path
from typing import Callable

SECONDS = 3.0  # what one of the commands that facts are read with may take
_SEARCH = ("/usr/local/sbin", "/usr/sbin", "/sbin")  # missing from the PATH of many SSH sessions
_MOST_LINKS = 40  # as in the kernel
_SIOCGIFADDR = 0x8915  # linux/sockios.h; the answer is a struct ifreq
_IFREQ, _IPV4 = "40s", slice(20, 24)


class Job:
    """A command that runs beside the caller's other work."""

    def __init__(self, argv: list[str], seconds: float = SECONDS) -> None:
        """Start the command; one that is not on this node gives no output."""
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), *_SEARCH])
        program = shutil.which(argv[0], path=path)
        if program:
            try:
                self._process = subprocess.Popen(
                    [program, *argv[1:]],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                    env={**os.environ, "LC_ALL": "C", "PATH": path},
                )
            except OSError:  # a file that is no program for this machine
                self._process = None

    def output(self) -> str | None:
        """Return what the command printed; None where it is absent or late."""
        found = self.result()
        return found[1] if found else None

    def result(self) -> tuple[int, str, str] | None:
        """Return exit status, output and errors; None where the command is absent or late."""
        if self._process is None:
            return None
        try:
            output, errors = self._process.communicate(timeout=self._seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()  # and no waiting: it may be stuck in the kernel
            return None
        return self._process.returncode, output.decode("utf-8", "replace"), errors.decode("utf-8", "replace")


class Node:
    """A node's file system from ``root`` on, and its commands (``start(argv)`` returns a Job)."""

    def __init__(self, root: Path = Path("/"), start: Callable[[list[str]], Job] = Job) -> None:
        """Read below ``root``; a test gives a tree of its own."""
        self.root = root
        self.start = start

    def path(self, path: str) -> Path:
        """Return where a path of the node, as /etc/os-release, really lies."""
        return self.root / path.lstrip("/")

    def data(self, path: str) -> bytes | None:
        """Return a regular file's content; None where it cannot be read. A FIFO would block its reader for ever."""
        try:
            if not self.path(path).is_file():  # a device may act on being opened
                return None
            with os.fdopen(os.open(self.path(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
                return stream.read() if stat.S_ISREG(os.fstat(stream.fileno()).st_mode) else None
        except OSError:
            return None

    def text(self, path: str) -> str:
        """Return a file's text without surrounding white space; empty where it cannot be read."""
        return (self.data(path) or b"").decode("utf-8", "replace").strip()

    def number(self, path: str) -> int | None:
        """Return the number a file holds, decimal or 0x."""
        try:
            return int(self.text(path), 0)
        except ValueError:
            return None

    def names(self, path: str) -> list[str]:
        """List a directory, sorted; empty where there is none."""
        try:
            return sorted(entry.name for entry in self.path(path).iterdir())
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        """Say whether something is there."""
        try:
            return self.path(path).exists()
        except OSError:  # in a directory that may not be entered
            return False

    def is_dir(self, path: str) -> bool:
        """Say whether a directory is there."""
        try:
            return self.path(path).is_dir()
        except OSError:
            return False

    def size(self, path: str) -> int | None:
        """Return a file's size in bytes."""
        try:
            return self.path(path).stat().st_size
        except OSError:
            return None

    def link(self, path: str) -> str | None:
        """Return what a symbolic link holds; None where it is none."""
        try:
            return str(self.path(path).readlink())
        except OSError:
            return None

    def ipv4(self, interface: str) -> str | None:
        """Return an interface's first IPv4 address; None below another root, where there is no kernel to ask."""
        if self.root != Path("/"):
            return None
        request = struct.pack(_IFREQ, os.fsencode(interface)[:15])
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
                return socket.inet_ntoa(fcntl.ioctl(asked, _SIOCGIFADDR, request)[_IPV4])
        except OSError:
            return None

    def resolve(self, path: str) -> str:
        """Follow a path's last component through links, absolute ones from this root."""
        for _link in range(_MOST_LINKS):
            target = self.link(path)
            if target is None:
                break
            path = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        return path

    def container(self) -> str | None:
        """Name the container engine around us; None on a machine."""
        if self.text("/run/systemd/container"):
            return self.text("/run/systemd/container")
        for variable in self.text("/proc/1/environ").split("\0"):
            if variable.startswith("container=") and variable != "container=":
                return variable[len("container=") :]
        if self.exists("/run/.containerenv"):
            return "podman"
        return "docker" if self.exists("/.dockerenv") else None
