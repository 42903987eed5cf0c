# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a Btrfs has beside its subvolumes: its topmost directory, which nothing shows where only subvolumes are mounted.

The kernel is asked for entries of its trees: struct btrfs_ioctl_search_args of linux/btrfs.h, struct btrfs_dir_item of
linux/btrfs_tree.h. Root alone may ask.
"""

from __future__ import annotations

import fcntl
import os
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TREE_SEARCH = 0xD0009411
TOPMOST, DIRECTORY = 5, 256  # the tree, and its first directory
DIR_INDEX, ROOT_ITEM = 96, 132  # types of keys: an entry of a directory, and what it leads to where that is a subvolume
_SIZE = 4096
_KEY = struct.Struct("=7Q4I4Q")
_HEADER = struct.Struct("=3Q2I")
_ENTRY = struct.Struct("<QBQQHHB")
_MOST = (1 << 64) - 1


def beside_subvolumes(place: Path) -> list[str]:
    """Return the names of what is in the topmost directory and no subvolume; place is anywhere on the file system.

    Raises OSError.
    """
    found, after = [], 0
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        while True:
            buffer = bytearray(_key(after).ljust(_SIZE, b"\0"))
            fcntl.ioctl(descriptor, TREE_SEARCH, buffer)
            entries = list(_entries(bytes(buffer)))
            found += [name for _index, kind, name in entries if kind != ROOT_ITEM]
            if not entries:
                return found
            after = entries[-1][0] + 1
    finally:
        os.close(descriptor)


def _key(after: int) -> bytes:
    """Return what asks for the entries from an index on."""
    numbers = (TOPMOST, DIRECTORY, DIRECTORY, after, _MOST, 0, _MOST)
    return _KEY.pack(*numbers, DIR_INDEX, DIR_INDEX, _SIZE, 0, 0, 0, 0, 0)


def _entries(answer: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield the entries in an answer: (index, what kind it leads to, name)."""
    count, at = _KEY.unpack_from(answer)[9], _KEY.size
    for _number in range(count):
        _transaction, _directory, index, _kind, size = _HEADER.unpack_from(answer, at)
        at += _HEADER.size
        _object, leads_to, _offset, _made, _data, length, _type = _ENTRY.unpack_from(answer, at)
        name = answer[at + _ENTRY.size : at + _ENTRY.size + length]
        yield index, leads_to, os.fsdecode(name)
        at += size
