# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One path of a node: what it is now, and how it becomes what was captured. No link is followed."""

from __future__ import annotations

import base64
import contextlib
import errno
import fcntl
import hashlib
import os
import posixpath
import stat
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.capture import homes
from ansible_collections.gpulab.node.plugins.module_utils.capture.digests import digest
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.files import DIRECTORY, FILE, LINK
from ansible_collections.gpulab.node.plugins.module_utils.capture.walk import ATTRIBUTES, GET_FLAGS, IMMUTABLE
from ansible_collections.gpulab.node.plugins.module_utils.core import account_files, beneath

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.files import Entry
    from ansible_collections.gpulab.node.plugins.module_utils.core.beneath import Draft, Place
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

OTHER = "other"
SET_FLAGS = 0x40086602  # FS_IOC_SETFLAGS of linux/fs.h
BLOCK = 1 << 16
NO_WAY = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}  # to a path: a directory is missing, or a link instead
WITHOUT = {errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.EPERM}  # a file system that has no such thing


@dataclass(frozen=True)
class Now:
    """What is at a path; kind is empty where there is nothing. inode is (device, number)."""

    kind: str = ""
    sha256: str = ""
    target: str = ""
    mode: str = ""
    uid: int = 0
    gid: int = 0
    size: int = 0
    inode: tuple[int, int] = (0, 0)
    attributes: dict[str, str] = field(default_factory=dict)


NOTHING = Now()


class Ids:
    """The numbers that owners have on a node, by name; a name that it does not know has the number it had."""

    def __init__(self, node: Node) -> None:
        """Read passwd and group."""
        self._users = {one.name: one.uid for one in homes.accounts(node)}
        self._groups = {one.name: one.gid for one in account_files.groups(node.text(account_files.GROUP))}

    def of(self, entry: Entry) -> tuple[int, int]:
        """Return the numbers of the user and the group of an entry of a manifest."""
        return self._users.get(entry["owner"] or "", entry["uid"]), self._groups.get(entry["group"] or "", entry["gid"])


class AsWritten(Ids):
    """The numbers that an entry has, whatever its names."""

    def __init__(self) -> None:
        """Read nothing."""

    def of(self, entry: Entry) -> tuple[int, int]:
        """Return them."""
        return entry["uid"], entry["gid"]


def now(node: Node, entry: Entry) -> Now:
    """Return what is at the path of an entry; the content is read only where it can be the captured one."""
    try:
        with beneath.at(node.root, entry["path"]) as place, place.held() as held:
            return _now(held, entry)
    except OSError as error:
        if error.errno in NO_WAY:
            return NOTHING
        raise


def _now(held: int, entry: Entry) -> Now:
    status, way = os.fstat(held), beneath.way(held)
    mode = status.st_mode
    kind = FILE if stat.S_ISREG(mode) else LINK if stat.S_ISLNK(mode) else DIRECTORY if stat.S_ISDIR(mode) else OTHER
    found = ""
    if kind == FILE and entry["kind"] == FILE and status.st_size == entry["size"]:
        found = _digest(held)
    attributes = {}
    for name, attribute in ATTRIBUTES.items():
        with contextlib.suppress(OSError):
            attributes[name] = base64.b64encode(os.getxattr(way, attribute)).decode()
    return Now(
        kind,
        found,
        beneath.link(held) if kind == LINK else "",
        f"{stat.S_IMODE(mode):04o}",
        status.st_uid,
        status.st_gid,
        status.st_size,
        _inode(held),
        attributes,
    )


def _digest(descriptor: int) -> str:
    return (digest(Path(beneath.way(descriptor)), "sha256") or b"").hex()


def _inode(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def has_content(entry: Entry, found: Now) -> bool:
    """Tell whether a path holds what was captured, whatever its rights."""
    if entry["kind"] != found.kind:
        return False
    if entry["kind"] == LINK:
        return bool(entry["target"] == found.target)
    return entry["kind"] == DIRECTORY or bool(entry["sha256"] == found.sha256)


def has_rights(entry: Entry, found: Now, ids: Ids) -> bool:
    """Tell whether a path has the rights and the owner that were captured."""
    if (found.uid, found.gid) != ids.of(entry):
        return False
    wanted = {name: value for name, value in entry.items() if name in ATTRIBUTES}
    return entry["kind"] == LINK or (found.mode == entry["mode"] and found.attributes == wanted)


def put(node: Node, entry: Entry, content: Path | bytes | None, ids: Ids, found: Now | None = None) -> tuple[int, int]:
    """Let the path of an entry be what was captured, and return (device, inode) of it. Raises OSError.

    content is a file's, or where it lies. Directories above are made. found is what was at the path when that was
    decided: ChangedError says that it is another one now. What is there is replaced at once, or left whole: a directory
    is never replaced by something else. What has the content already gets its rights.
    """
    if found is not None and has_content(entry, found):
        return _correct(node, entry, ids, found)
    with beneath.at(node.root, entry["path"], make=True) as place:
        if entry["kind"] == DIRECTORY:
            place.make()
            with place.held() as held:
                return _give(place, held, entry, ids)
        if found is not None:
            _compare(place, found)
        with place.draft(target=entry["target"] if entry["kind"] == LINK else None) as draft:
            if entry["kind"] == FILE:
                _fill(draft, entry, content)
            return _put(place, draft, entry, ids)


def _compare(place: Place, found: Now) -> None:
    status = place.status()
    if (status and (status.st_dev, status.st_ino)) != (found.inode if found.kind else None):
        raise beneath.ChangedError(place.name)


def _put(place: Place, draft: Draft, entry: Entry, ids: Ids) -> tuple[int, int]:
    _rights(draft.way, entry, ids)
    _unseal(place)
    draft.put()
    if entry.get("immutable"):
        _flags(draft.descriptor, lambda flags: flags | IMMUTABLE)
    return _inode(draft.descriptor)


def _correct(node: Node, entry: Entry, ids: Ids, found: Now) -> tuple[int, int]:
    """Give what has the right content the owner, the mode and the attributes that were captured. Raises OSError.

    Whoever may change the name of a file or its content may have other names of it, or have it open: such a file is
    replaced by a copy.
    """
    with beneath.at(node.root, entry["path"]) as place, place.held(found.inode) as held:
        if entry["kind"] != FILE:
            return _give(place, held, entry, ids)
        if place.roots and beneath.is_roots(os.fstat(held)):
            _rights(beneath.way(held), entry, ids)
            return found.inode
        with place.draft() as draft:
            _fill(draft, entry, Path(beneath.way(held)))
            if _digest(draft.descriptor) != entry["sha256"]:
                raise beneath.ChangedError(place.name)
            return _put(place, draft, entry, ids)


def _give(place: Place, held: int, entry: Entry, ids: Ids) -> tuple[int, int]:
    """Give a directory or a link its rights in place."""
    if entry["kind"] == DIRECTORY:
        place.give(held, ids.of(entry))
    _rights(beneath.way(held), entry, ids)
    return _inode(held)


def read(node: Node, entry: Entry, ids: Ids, found: Now) -> bytes:
    """Return the content of the file at the path of an entry, whose owner may read it then. Raises OSError."""
    with beneath.at(node.root, entry["path"]) as place, place.opened(found.inode) as opened:
        status = os.fstat(opened)
        if not (place.roots or status.st_uid == ids.of(entry)[0] or status.st_mode & stat.S_IROTH):
            raise PermissionError(errno.EPERM, "a file of somebody else's is there", place.name)
        return beneath.content(opened)


def keep(node: Node, path: str, beside: str, found: Now) -> None:
    """Copy a file to another name in its directory, with its owner, its mode and its time. Raises OSError."""
    with beneath.at(node.root, path) as place, place.opened(found.inode) as opened:
        status = os.fstat(opened)
        with place.beside(posixpath.basename(beside)).draft() as draft:
            draft.write(beneath.content(opened))
            os.fchown(draft.descriptor, status.st_uid, status.st_gid)
            os.fchmod(draft.descriptor, stat.S_IMODE(status.st_mode))
            os.utime(draft.descriptor, ns=(status.st_atime_ns, status.st_mtime_ns))
            draft.put()


def join(node: Node, path: str, other: str, inodes: dict[str, tuple[int, int]]) -> None:
    """Let a path be one file with another; inodes has (device, inode) of both. Raises OSError."""
    with (
        beneath.at(node.root, other) as source,
        source.held(inodes[other]) as held,
        beneath.at(node.root, path) as place,
        place.held(inodes[path]),
        place.draft(of=held) as draft,
    ):
        draft.put()


def _fill(draft: Draft, entry: Entry, content: Path | bytes | None) -> None:
    if not isinstance(content, Path):
        draft.write(content or b"")
        return
    with os.fdopen(os.dup(draft.descriptor), "wb") as stream, content.open("rb") as source:
        for block in iter(lambda: source.read(BLOCK), b""):
            if entry.get("sparse") and not block.strip(b"\0"):
                stream.seek(len(block), os.SEEK_CUR)
            else:
                stream.write(block)
        stream.truncate()


def _rights(way: str, entry: Entry, ids: Ids) -> None:
    """Give what a way leads to the owner, the mode and the attributes that were captured. Raises OSError."""
    os.chown(way, *ids.of(entry))
    if entry["kind"] == LINK:
        return
    for name, attribute in ATTRIBUTES.items():
        value = entry.get(name)
        if value is not None:
            os.setxattr(way, attribute, base64.b64decode(str(value)))
        else:
            with contextlib.suppress(OSError):
                os.removexattr(way, attribute)
    os.chmod(way, int(entry["mode"], 8))  # noqa: PTH101 - after the owner, which takes special bits away


def _unseal(place: Place) -> None:
    """Let a file be replaced that is immutable."""
    with contextlib.suppress(OSError), place.opened() as opened:
        if place.roots or os.fstat(opened).st_nlink == 1:
            _flags(opened, lambda flags: flags & ~IMMUTABLE)


def _flags(descriptor: int, change: Any) -> None:
    """Change a file's flags, where its file system has such."""
    try:
        (flags,) = struct.unpack("l", fcntl.ioctl(descriptor, GET_FLAGS, struct.pack("l", 0)))
        if change(flags) != flags:
            fcntl.ioctl(descriptor, SET_FLAGS, struct.pack("l", change(flags)))
    except OSError as error:
        if error.errno not in WITHOUT:
            raise


def sha256(data: bytes) -> str:
    """Return the digest by which contents are known."""
    return hashlib.sha256(data).hexdigest()
