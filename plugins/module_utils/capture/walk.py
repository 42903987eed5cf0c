# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The walk over the root file systems: each path into one bin, once, without a change of the node.

Nothing is opened but files that a package may have brought otherwise, that are captured, or that describe an
environment. What lies on another file system is left out, and so is a bind mount: its files are met where they lie.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Callable

from ansible_collections.gpulab.node.plugins.module_utils.capture import bins, homes, leaves
from ansible_collections.gpulab.node.plugins.module_utils.capture.confidential import BLOCK, Search
from ansible_collections.gpulab.node.plugins.module_utils.capture.rules import Rules
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.files import (
    DIRECTORY,
    FILE,
    LINK,
    Entry,
    Remainder,
)
from ansible_collections.gpulab.node.plugins.module_utils.core import beneath

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.capture.environments import OnDisk
    from ansible_collections.gpulab.node.plugins.module_utils.capture.owned import Packages
    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.environments import Environment
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

GET_FLAGS, IMMUTABLE = 0x80086601, 0x10  # FS_IOC_GETFLAGS, FS_IMMUTABLE_FL of linux/fs.h
ATTRIBUTES = {
    "acl": "system.posix_acl_access",
    "default_acl": "system.posix_acl_default",
    "capability": "security.capability",
}
_BIN_OF_FATE = {leaves.COMES_BACK: bins.GPULAB, leaves.CACHE: bins.CACHE}
Cover = Callable[[str, os.stat_result], bool]


@dataclass(frozen=True)
class Captured:
    """Why a path is captured: the section it belongs to, and whether it is a secret whatever its mode."""

    section: str
    secret: bool = False


@dataclass
class Wishes:
    """What decides about the bins of paths.

    rules maps patterns to what is captured, or to the reason why nobody misses such files; acknowledged maps them to
    the lab's reason; homes are what ~ stands for. gpulab maps them to the fates of what a run leaves, see leaves.py.
    covers is asked about what is left: (bin, whether it answers for a path). largest is the size in bytes of a captured
    file.
    """

    rules: list[tuple[str, Captured | str]]
    acknowledged: list[tuple[str, str]] = field(default_factory=list)
    homes: list[str] = field(default_factory=list)
    gpulab: list[tuple[str, str]] = field(default_factory=list)
    covers: list[tuple[str, Cover]] = field(default_factory=list)
    largest: int = 64 << 20


@dataclass
class Found:
    """What a walk found.

    files are the captured paths; counts and sizes are by bin; remainder has what is in no bin; owners and groups are
    the ids that own paths of no package.
    """

    files: list[Entry] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    remainder: list[Remainder] = field(default_factory=list)
    owners: set[int] = field(default_factory=set)
    groups: set[int] = field(default_factory=set)
    environments: list[Environment] = field(default_factory=list)


@dataclass
class _Rest:
    """What lies in a directory and is in no bin; whole tells whether that is all that lies there, but for caches.

    empty has the directories in it that hold nothing, each with its status: what is left over holds such, too.
    """

    files: int = 0
    bytes: int = 0
    whole: bool = True
    owner: str = ""
    why: str = ""
    parts: list[_Rest] = field(default_factory=list)
    path: str = ""
    empty: list[tuple[str, os.stat_result]] = field(default_factory=list)

    def add(self, part: _Rest) -> None:
        """Add what lies below."""
        if part.files:
            self.files += part.files
            self.bytes += part.bytes
            self.parts.append(part)
        self.whole = self.whole and part.whole
        self.empty += part.empty

    def forget_parts(self) -> None:
        """Keep of a directory that is left over as a whole no more than the line that says so: files are millions."""
        if self.whole and self.files > 1:
            self.why, self.parts = self._why(), []

    def told(self) -> Iterator[Remainder]:
        """Yield a line for each topmost directory that is left over as a whole, and for each such file."""
        if not self.files:
            return
        if self.parts and (not self.whole or self.files == 1):
            for part in self.parts:
                yield from part.told()
            return
        yield Remainder(files=self.files, bytes=self.bytes, path=self.path, owner=self.owner, why=self._why())

    def _why(self) -> str:
        """Return the reason that all of it has; empty where there are several, or none."""
        reasons = {part.why for part in self._ends()}
        return reasons.pop() if len(reasons) == 1 else ""

    def _ends(self) -> Iterator[_Rest]:
        for part in self.parts:
            yield from part._ends()  # noqa: SLF001
        if not self.parts:
            yield self


class Walk:
    """One walk."""

    def __init__(
        self, node: Node, packages: Packages, wishes: Wishes, environment_at: Callable[..., OnDisk | None]
    ) -> None:
        """Prepare it; environment_at(directory, names) returns the environment that is there, or None."""
        self._node = node
        self._packages = packages
        self._wishes = wishes
        self._environment_at = environment_at
        self._rules = Rules(wishes.rules, wishes.homes)
        self._gpulab = Rules(wishes.gpulab, wishes.homes)
        self._acknowledged = Rules(wishes.acknowledged, wishes.homes)
        self._others: set[str] = set()
        self.found = Found()

    def run(self, tops: list[str], mounts: set[str]) -> Found:
        """Walk over file systems by the places where they are mounted; mounts are the places of all mounts."""
        self._others = mounts
        for top in tops:
            rest = self._directory(top, self._node.path(top).lstat(), None)
            self._capture(rest.empty, None)
            self.found.remainder.extend(rest.told())
        return self.found

    def _directory(self, path: str, status: os.stat_result, environment: OnDisk | None) -> _Rest:
        rest = _Rest(path=path, owner=homes.user(self._node, status.st_uid))
        try:
            with os.scandir(self._node.path(path)) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except FileNotFoundError:  # gone meanwhile
            return _Rest()
        except OSError as error:
            return self._unreadable(path, status, error)
        names = {entry.name for entry in listed}
        started = None if path in self._packages else self._environment_at(path, names)
        if started is not None and (place := self._bin(path, status, None)[0]) != bins.CACHE:
            environment = started.as_made() if place == bins.GPULAB else started
            if place != bins.GPULAB:
                self.found.environments.append(started.record)
        before = len(self.found.files)
        for entry in listed:
            below = f"{path.rstrip('/')}/{entry.name}"
            if below in self._others:  # its server may not answer
                rest.whole = False
                continue
            try:
                its = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # gone meanwhile
                continue
            except OSError as error:
                rest.add(self._unreadable(below, status, error))
                continue
            if stat.S_ISDIR(its.st_mode):
                rest.add(self._directory(below, its, environment))
            else:
                rest.add(self._file(below, its, environment))
        return self._closed(rest, status, len(self.found.files) > before, environment)

    def _closed(self, rest: _Rest, status: os.stat_result, holds_captured: bool, environment: OnDisk | None) -> _Rest:  # noqa: FBT001
        """Put a directory itself into a bin. One of no package is captured if it holds captured files, or nothing."""
        name, rule = self._bin(rest.path, status, environment)
        if name is None and holds_captured:
            name = bins.CAPTURED
        if name is None:
            rest.empty = [] if rest.files else [*rest.empty, (rest.path, status)]
            rest.forget_parts()
            return rest
        if name == bins.CAPTURED:
            self._capture([(rest.path, status)], rule)
        else:
            self._count(name, status)
        if name != bins.CACHE:
            rest.whole = False
        self._capture(rest.empty, None)
        rest.empty = []
        return rest

    def _capture(self, directories: list[tuple[str, os.stat_result]], rule: Captured | None) -> None:
        for path, status in directories:
            with contextlib.suppress(OSError):  # gone meanwhile, or another one
                self.found.files.append(record(self._node, path, rule))
            self._count(bins.CAPTURED, status)

    def _file(self, path: str, status: os.stat_result, environment: OnDisk | None) -> _Rest:
        name, rule = self._bin(path, status, environment)
        if name in (bins.CAPTURED, bins.CHANGED):
            if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
                return self._left(path, status, "it is neither file, link nor directory")
            if stat.S_ISREG(status.st_mode) and status.st_size > self._wishes.largest:
                return self._left(path, status, f"it is larger than {self._wishes.largest >> 20} MiB")
            try:
                entry = record(self._node, path, rule)
            except FileNotFoundError:  # gone meanwhile
                return _Rest()
            except OSError as error:
                return self._left(path, status, f"it cannot be read: {error.strerror}")
            self.found.files.append({**entry, "package": self._packages.name(path)} if name == bins.CHANGED else entry)
        if name is None:
            return self._left(path, status, "")
        self._count(name, status)
        return _Rest(whole=name == bins.CACHE)

    def _unreadable(self, path: str, status: os.stat_result, error: OSError) -> _Rest:
        """Put what cannot be read into the bin that it belongs in without a look at it; status is the directory's."""
        name, _rule = self._bin(path, status, None)
        if name in (bins.CACHE, bins.ACKNOWLEDGED):
            self._count(name, status)
            return _Rest(whole=name == bins.CACHE)
        return self._left(path, status, f"it cannot be read: {error.strerror}")

    def _left(self, path: str, status: os.stat_result, why: str) -> _Rest:
        self.found.owners.add(status.st_uid)
        self.found.groups.add(status.st_gid)
        return _Rest(1, status.st_size, owner=homes.user(self._node, status.st_uid), why=why, path=path)

    def _count(self, name: str, status: os.stat_result) -> None:
        self.found.counts[name] += 1
        if stat.S_ISREG(status.st_mode):
            self.found.sizes[name] += status.st_size
        if name != bins.PACKAGE:
            self.found.owners.add(status.st_uid)
            self.found.groups.add(status.st_gid)

    def _bin(self, path: str, status: os.stat_result, environment: OnDisk | None) -> tuple[str | None, Captured | None]:
        """Return the bin of a path, None where it belongs in none, and the rule by which it is captured."""
        owned = path in self._packages
        if owned and self._packages.unchanged(path, status):
            return bins.PACKAGE, None
        rule = self._rules.find(path)
        capture = rule if isinstance(rule, Captured) else None
        if owned:
            return bins.CHANGED, capture or Captured("packages")
        fate = self._gpulab.find(f"{path}/" if stat.S_ISDIR(status.st_mode) else path)
        if fate in _BIN_OF_FATE:
            return _BIN_OF_FATE[fate], None
        if rule is not None:
            return (bins.CAPTURED if capture else bins.CACHE), capture
        return self._covered(path, status, environment), None

    def _covered(self, path: str, status: os.stat_result, environment: OnDisk | None) -> str | None:
        """Return the bin of a path that something else than a capture brings back, or that may be lost."""
        if environment is not None and environment.covers(os.path.relpath(path, environment.record.path)):
            return bins.LOCK
        for name, covers in self._wishes.covers:
            if covers(path, status):
                return name
        return None if self._acknowledged.find(path) is None else bins.ACKNOWLEDGED


def record(node: Node, path: str, rule: Captured | None) -> Entry:
    """Return what the manifest says of a captured path."""
    with beneath.at(node.root, path, follow=False) as place, place.held() as held:
        return _record(node, path, held, rule or Captured("files"))


def _record(node: Node, path: str, held: int, rule: Captured) -> Entry:
    status = os.fstat(held)
    found: Entry = {
        "path": path,
        "kind": _kind(path, status.st_mode),
        "mode": f"{stat.S_IMODE(status.st_mode):04o}",
        "owner": homes.user(node, status.st_uid),
        "uid": status.st_uid,
        "group": homes.group(node, status.st_gid),
        "gid": status.st_gid,
        "size": status.st_size,
        "section": rule.section,
    }
    if found["kind"] == LINK:
        return {**found, "target": beneath.link(held)}
    real = beneath.way(held)
    for name, attribute in ATTRIBUTES.items():
        with contextlib.suppress(OSError):
            found[name] = base64.b64encode(os.getxattr(real, attribute)).decode()  # type: ignore[literal-required]
    return found if found["kind"] == DIRECTORY else _with_content(found, real, status, rule)


def _kind(path: str, mode: int) -> str:
    for kind, is_one in ((LINK, stat.S_ISLNK), (DIRECTORY, stat.S_ISDIR), (FILE, stat.S_ISREG)):
        if is_one(mode):
            return kind
    raise OSError(errno.EINVAL, "it is neither file, link nor directory", path)  # somebody put it in its place


def _with_content(entry: Entry, real: str, status: os.stat_result, rule: Captured) -> Entry:
    found: Entry = {**entry}
    if status.st_nlink > 1:
        found["links"], found["identity"] = status.st_nlink, f"{status.st_dev:x}:{status.st_ino}"
    if status.st_blocks * 512 < status.st_size:
        found["sparse"] = True
    is_secret, digest, immutable = _read(real, entry["path"], status.st_size)
    if immutable:
        found["immutable"] = True
    if rule.secret or not status.st_mode & stat.S_IROTH or is_secret:
        return {**found, "secret": True}
    return {**found, "sha256": digest}


def _read(real: str, path: str, size: int) -> tuple[bool, str, bool]:
    """Return whether a file holds a secret, the SHA-256 of so many bytes, and whether it is immutable."""
    digest, search = hashlib.sha256(), Search(path)
    flags = struct.pack("l", 0)
    descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOATIME)
    with os.fdopen(descriptor, "rb") as stream:
        with contextlib.suppress(OSError):
            flags = fcntl.ioctl(descriptor, GET_FLAGS, flags)
        while size > 0 and (block := stream.read(min(size, BLOCK))):  # a file may grow without end
            size -= len(block)
            search.add(block)
            digest.update(block)
    return search.found, digest.hexdigest(), bool(struct.unpack("l", flags)[0] & IMMUTABLE)
