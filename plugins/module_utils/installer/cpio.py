# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write cpio archives of the form newc, which the kernel unpacks as its first root file system.

https://docs.kernel.org/driver-api/early-userspace/buffer-format.html
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO, Callable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

MAGIC = b"070701"
LARGEST = (1 << 32) - 1  # bytes of one file: its size is 8 hex digits
CHUNK = 1 << 20
_ALIGNED = 4


@dataclass(frozen=True)
class Member:
    """What an archive says of one file: its name without a leading slash, its mode as of stat(2), its size in bytes.

    links is 2 for a file that has another name in the archive, too.
    """

    name: bytes
    mode: int
    owner: tuple[int, int] = (0, 0)
    time: int = 0
    size: int = 0
    device: tuple[int, int] = (0, 0)
    links: int = 1


_END = Member(b"TRAILER!!!", 0)


class Writer:
    """Writes an archive, one member after the other. What is given in one order makes the same bytes each time."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        """Take what the bytes are written with."""
        self._write = write
        self._inode = 0
        self._linked: dict[bytes, int] = {}

    def add(self, member: Member, data: Iterable[bytes] = ()) -> None:
        """Add a member with its content in parts. Raises ValueError where that has another size, or does not fit."""
        self._inode += 1
        if member.links > 1:
            self._linked[member.name] = self._inode
        self._header(member, self._inode)
        written = 0
        for part in data:
            self._write(part)
            written += len(part)
        if written != member.size:
            message = f"{member.name!r} has {written} bytes, but had {member.size}"
            raise ValueError(message)
        self._write(b"\0" * (-written % _ALIGNED))

    def link(self, member: Member, target: bytes) -> None:
        """Add another name of a file that was added before with more than one link."""
        self._header(replace(member, size=0, links=2), self._linked[target])

    def end(self) -> None:
        """Write the end of the archive."""
        self._header(_END, 0)

    def _header(self, member: Member, inode: int) -> None:
        if member.size > LARGEST:
            message = f"{member.name!r} is too large for this form: {member.size} bytes"
            raise ValueError(message)
        numbers = (inode, member.mode, *member.owner, member.links, member.time & LARGEST, member.size)
        fields = (*numbers, 0, 0, *member.device, len(member.name) + 1, 0)
        header = MAGIC + b"".join(b"%08x" % one for one in fields) + member.name + b"\0"
        self._write(header + b"\0" * (-len(header) % _ALIGNED))


def parts(stream: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield size bytes of a file in parts, or as many as it has."""
    while size > 0:
        part = stream.read(min(CHUNK, size))
        if not part:
            return
        size -= len(part)
        yield part


def pack(root: Path, without: Collection[str], writer: Writer) -> None:
    """Add all below a directory on its own file system, as it is now.

    without names directories, relative to root, that are added empty. Sockets and FIFOs are left out.
    """
    seen: dict[tuple[int, int], bytes] = {}
    for path in _below(root, root.stat().st_dev, [root / name for name in without]):
        found = path.lstat()
        kind, file = stat.S_IFMT(found.st_mode), (found.st_dev, found.st_ino)
        name, owner = os.fsencode(path.relative_to(root)), (found.st_uid, found.st_gid)
        member = Member(name, found.st_mode, owner, int(found.st_mtime))
        if kind == stat.S_IFREG and file in seen:
            writer.link(member, seen[file])
        elif kind == stat.S_IFREG:
            seen[file] = name
            with path.open("rb") as stream:
                whole = replace(member, size=found.st_size, links=min(found.st_nlink, 2))
                writer.add(whole, parts(stream, found.st_size))
        elif kind == stat.S_IFLNK:
            target = os.fsencode(os.readlink(path))  # noqa: PTH115 - Path would normalize it
            writer.add(replace(member, size=len(target)), [target])
        elif kind in (stat.S_IFCHR, stat.S_IFBLK):
            writer.add(replace(member, device=(os.major(found.st_rdev), os.minor(found.st_rdev))))
        elif kind == stat.S_IFDIR:
            writer.add(member)
    writer.end()


def _below(directory: Path, device: int, without: list[Path]) -> Iterator[Path]:
    for path in sorted(directory.iterdir()):
        yield path
        found = path.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_dev == device and path not in without:
            yield from _below(path, device, without)
