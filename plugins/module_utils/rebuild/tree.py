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
import shutil
import stat
import struct
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.capture import homes
from ansible_collections.gpulab.node.plugins.module_utils.capture.digests import digest
from ansible_collections.gpulab.node.plugins.module_utils.capture.walk import ATTRIBUTES, GET_FLAGS, IMMUTABLE

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

FILE, LINK, DIRECTORY, OTHER = "file", "link", "directory", "other"
SET_FLAGS = 0x40086602  # FS_IOC_SETFLAGS of linux/fs.h
BLOCK = 1 << 16
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


class Ids:
    """The numbers that owners have on a node, by name; a name that it does not know has the number it had."""

    def __init__(self, node: Node) -> None:
        """Read passwd and group."""
        self._users = {one.name: one.uid for one in homes.accounts(node)}
        lines = homes.lines(node, homes.GROUP, 3)
        self._groups = {fields[0]: number for fields in lines if (number := homes.number(fields[2])) is not None}

    def of(self, entry: dict[str, Any]) -> tuple[int, int]:
        """Return the numbers of the user and the group of an entry of a manifest."""
        return self._users.get(entry["owner"], entry["uid"]), self._groups.get(entry["group"], entry["gid"])


class AsWritten(Ids):
    """The numbers that an entry has, whatever its names."""

    def __init__(self) -> None:
        """Read nothing."""

    def of(self, entry: dict[str, Any]) -> tuple[int, int]:
        """Return them."""
        return entry["uid"], entry["gid"]


def now(place: Path, entry: dict[str, Any]) -> Now:
    """Return what is at a place; the content is read only where it can be the captured one."""
    try:
        status = place.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return Now()
    mode = status.st_mode
    kind = FILE if stat.S_ISREG(mode) else LINK if stat.S_ISLNK(mode) else DIRECTORY if stat.S_ISDIR(mode) else OTHER
    found = ""
    if kind == FILE and entry["kind"] == FILE and status.st_size == entry["size"]:
        found = (digest(place, "sha256") or b"").hex()
    attributes = {}
    for name, attribute in ATTRIBUTES.items():
        with contextlib.suppress(OSError):
            attributes[name] = base64.b64encode(os.getxattr(place, attribute, follow_symlinks=False)).decode()
    return Now(
        kind,
        found,
        str(place.readlink()) if kind == LINK else "",
        f"{stat.S_IMODE(mode):04o}",
        status.st_uid,
        status.st_gid,
        status.st_size,
        (status.st_dev, status.st_ino),
        attributes,
    )


def has_content(entry: dict[str, Any], found: Now) -> bool:
    """Tell whether a path holds what was captured, whatever its rights."""
    if entry["kind"] != found.kind:
        return False
    if entry["kind"] == LINK:
        return bool(entry["target"] == found.target)
    return entry["kind"] == DIRECTORY or bool(entry["sha256"] == found.sha256)


def has_rights(entry: dict[str, Any], found: Now, ids: Ids) -> bool:
    """Tell whether a path has the rights and the owner that were captured."""
    if (found.uid, found.gid) != ids.of(entry):
        return False
    wanted = {name: entry[name] for name in ATTRIBUTES if name in entry}
    return entry["kind"] == LINK or (found.mode == entry["mode"] and found.attributes == wanted)


def put(place: Path, entry: dict[str, Any], content: Path | bytes | None, ids: Ids) -> None:
    """Let a place be what was captured; content is a file's, or where it lies. Directories above it are made.

    What is there before is replaced at once, or left whole: a directory is never replaced by something else.
    """
    above(place)
    if entry["kind"] == DIRECTORY:
        if not place.is_dir():
            place.mkdir(0o700)
    else:
        _unseal(place)
        draft = _link(place, entry) if entry["kind"] == LINK else _file(place, entry, content)
        try:
            rights(draft, entry, ids)
            _replace(draft, place)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        if entry.get("immutable"):
            _seal(place)
        return
    rights(place, entry, ids)


def above(place: Path) -> None:
    """Make the directories above a place that are missing: for everybody to read."""
    for one in reversed(place.parents):
        if not one.exists():
            one.mkdir(0o755)
            one.chmod(0o755)


def _replace(draft: Path, place: Path) -> None:
    """Put a draft in a place; a file that is a mount of its own, as a container's /etc/hosts, is written in place."""
    try:
        draft.replace(place)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        with draft.open("rb") as source, place.open("wb") as stream:
            shutil.copyfileobj(source, stream)
        shutil.copystat(draft, place)
        draft.unlink()


def _link(place: Path, entry: dict[str, Any]) -> Path:
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".gpulab-") as directory:
        draft = Path(directory) / "link"
        draft.symlink_to(entry["target"])
        final = place.parent / f"{Path(directory).name}.link"
        draft.replace(final)
    return final


def _file(place: Path, entry: dict[str, Any], content: Path | bytes | None) -> Path:
    handle, draft = tempfile.mkstemp(dir=place.parent, prefix=".gpulab-")
    with os.fdopen(handle, "wb") as stream:
        if isinstance(content, Path):
            with content.open("rb") as source:
                for block in iter(lambda: source.read(BLOCK), b""):
                    if entry.get("sparse") and not block.strip(b"\0"):
                        stream.seek(len(block), os.SEEK_CUR)
                    else:
                        stream.write(block)
            stream.truncate()
        else:
            stream.write(content or b"")
    return Path(draft)


def rights(place: Path, entry: dict[str, Any], ids: Ids) -> None:
    """Give a place the owner, the mode and the attributes that were captured. Raises OSError."""
    os.lchown(place, *ids.of(entry))
    if entry["kind"] == LINK:
        return
    for name, attribute in ATTRIBUTES.items():
        if name in entry:
            os.setxattr(place, attribute, base64.b64decode(entry[name]), follow_symlinks=False)
        else:
            with contextlib.suppress(OSError):
                os.removexattr(place, attribute, follow_symlinks=False)
    place.chmod(int(entry["mode"], 8))  # after the owner, which takes special bits away


def _unseal(place: Path) -> None:
    _flags(place, lambda flags: flags & ~IMMUTABLE)


def _seal(place: Path) -> None:
    _flags(place, lambda flags: flags | IMMUTABLE)


def _flags(place: Path, change: Any) -> None:
    """Change a file's flags, where it is one and its file system has such."""
    try:
        handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    try:
        (flags,) = struct.unpack("l", fcntl.ioctl(handle, GET_FLAGS, struct.pack("l", 0)))
        if change(flags) != flags:
            fcntl.ioctl(handle, SET_FLAGS, struct.pack("l", change(flags)))
    except OSError as error:
        if error.errno not in WITHOUT:
            raise
    finally:
        os.close(handle)


def sha256(data: bytes) -> str:
    """Return the digest by which contents are known."""
    return hashlib.sha256(data).hexdigest()
