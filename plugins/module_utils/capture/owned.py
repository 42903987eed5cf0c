# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which paths of a node are of a package, and whether a file is still as the package brought it.

dpkg records names and MD5 digests (/var/lib/dpkg/info/*.list, *.md5sums; conffiles in /var/lib/dpkg/status), rpm also
size and time of change; ucf(1) has the digests of files that packages' scripts hand to it, as they do with sshd_config.
A file is read only where these do not settle it. The links of update-alternatives are the packages' too.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.capture.digests import digest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

DPKG = "/var/lib/dpkg"
UCF = "/var/lib/ucf"
CHOSEN = "/etc/alternatives"
ALTERNATIVES = (f"{DPKG}/alternatives", "/var/lib/alternatives")
GHOST = 1 << 6  # a file of rpm's that the package names, but does not bring
_RPM = "[%{FILENAMES}\\t%{FILEDIGESTS}\\t%{FILESIZES}\\t%{FILEMTIMES}\\t%{FILEFLAGS}\\t%{FILELINKTOS}\\t%{=NAME}\\n]"
ALGORITHMS = {32: "md5", 40: "sha1", 128: "sha512"}  # by the number of hexadecimal digits; others are SHA-256


@dataclass(frozen=True)
class Owned:
    """What a package says of one of its paths. since: when it was unpacked; later changes show in a file's ctime.

    digest is hexadecimal, of MD5, SHA-1, SHA-256 or SHA-512 by its length; empty where the package records none.
    """

    package: str
    digest: str = ""
    since: float = 0.0
    size: int | None = None
    time: int | None = None
    target: str = ""


class Packages:
    """The paths of all packages, under the names where they really lie."""

    def __init__(self, node: Node) -> None:
        """Read the package database."""
        self._node = node
        self._directories: dict[str, str] = {"/": "/"}
        listed = _dpkg(node) if node.exists(f"{DPKG}/info") else _rpm(node)
        self._paths = {self.real(path): owned for path, owned in listed}
        self._paths.update((self.real(path), Owned("alternatives")) for path in _alternatives(node))

    def __contains__(self, path: str) -> bool:
        """Tell whether a package names this path."""
        return path in self._paths

    def name(self, path: str) -> str:
        """Return which package a path is of."""
        return self._paths[path].package

    def real(self, path: str) -> str:
        """Return where a path lies, whatever links lead to its directory, as /bin does on systems of today."""
        directory, _slash, name = path.rpartition("/")
        above = self._directory(directory or "/")
        return f"{above.rstrip('/')}/{name}" if name not in ("", ".") else above

    def _directory(self, path: str) -> str:
        known = self._directories.get(path)
        if known is None:
            known = self.real(path)
            if self._node.link(known) is not None:
                known = self._node.resolve(known)
            self._directories[path] = known
        return known

    def unchanged(self, path: str, status: os.stat_result) -> bool:
        """Tell whether a path of a package is what the package brought, as far as it records that."""
        owned = self._paths[path]
        if stat.S_ISLNK(status.st_mode):
            return not owned.target or self._node.link(path) == owned.target
        if not stat.S_ISREG(status.st_mode) or status.st_ctime <= owned.since:
            return True
        if owned.size is not None and (owned.size, owned.time) == (status.st_size, int(status.st_mtime)):
            return True
        if owned.size not in (None, status.st_size):
            return False
        found = digest(self._node.path(path), ALGORITHMS.get(len(owned.digest), "sha256")) if owned.digest else None
        return found is not None and found.hex() == owned.digest


def _dpkg(node: Node) -> Iterator[tuple[str, Owned]]:
    diverted = _diversions(node)
    conffiles = _conffiles(node)
    for name in node.names(f"{DPKG}/info"):
        if not name.endswith(".list"):
            continue
        package = name[: -len(".list")]
        digests = {}
        for line in _lines(node, f"{DPKG}/info/{package}.md5sums"):
            value, _space, path = line.partition("  ")
            digests[f"/{path}"] = value
        since = node.path(f"{DPKG}/info/{name}").stat().st_mtime
        short = package.partition(":")[0]
        for path in _lines(node, f"{DPKG}/info/{name}"):
            where, by = diverted.get(path, (path, short))
            # An update leaves a conffile that somebody edited before it, so its ctime says nothing.
            value, time = (conffiles[path], 0.0) if path in conffiles else (digests.get(path, ""), since)
            yield where if by != short else path, Owned(package, value, time)
    yield from _ucf(node)


def _ucf(node: Node) -> Iterator[tuple[str, Owned]]:
    registry = (line.partition("\t") for line in _lines(node, f"{UCF}/registry"))
    packages = {path.strip(): package.strip() for package, _tab, path in registry}
    for line in _lines(node, f"{UCF}/hashfile"):
        value, _space, path = line.partition("  ")
        if path in packages:
            yield path, Owned(packages[path], value)


def _lines(node: Node, path: str) -> list[str]:
    return os.fsdecode(node.data(path) or b"").rstrip("\n").split("\n")


def _diversions(node: Node) -> dict[str, tuple[str, str]]:
    """Return where files of other packages lie instead: {path: (the other path, package that takes its place)}."""
    lines = _lines(node, f"{DPKG}/diversions")
    return {path: (other, package) for path, other, package in zip(lines[::3], lines[1::3], lines[2::3])}


def _conffiles(node: Node) -> dict[str, str]:
    found = {}
    for line in _lines(node, f"{DPKG}/status"):
        fields = line.split(" ")
        if line.startswith(" /") and len(fields) in (3, 4):  # " /etc/path digest" and perhaps " obsolete"
            found[fields[1]] = fields[2]
    return found


def _alternatives(node: Node) -> Iterator[str]:
    """Yield the links that update-alternatives made: a state, the link, then names and links of what goes with it.

    Which program a link leads to is somebody's choice where the state is manual; what goes with it follows.
    """
    for directory in ALTERNATIVES:
        for name in node.names(directory):
            lines = _lines(node, f"{directory}/{name}")
            end = lines.index("") if "" in lines else len(lines)
            yield from (line for line in lines[1:end] if line.startswith("/"))
            follow = lines[2:end:2] if lines[0] == "manual" else [name, *lines[2:end:2]]
            yield from (f"{CHOSEN}/{one}" for one in follow)


def _rpm(node: Node) -> Iterator[tuple[str, Owned]]:
    job = node.start(["rpm", "--query", "--all", "--queryformat", _RPM])
    for line in (job.output() or "").splitlines():
        fields = line.split("\t")
        if len(fields) != 7 or int(fields[4]) & GHOST:  # noqa: PLR2004 - as many as _RPM asks for
            continue
        path, value, size, time, _flags, target, package = fields
        # A directory or link has no digest; its size and time say nothing.
        yield path, Owned(package, value, 0.0, int(size) if value else None, int(time) if value else None, target)
