# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a device reads as nothing but zeros: whole where it is small, else at many places.

A place is read where something keeps a second copy of what it has at the start of a disk, and in each of many equal
parts, where chance says. Whatever is not zero is somebody's data, known or not.
"""

from __future__ import annotations

import errno
import mmap
import os
import random
import stat
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
WHOLE = 16 * GIB  # a device of at most this is read whole
ENDS = 64 * MIB  # at either end: partition tables, labels and superblocks of nearly everything, and their copies
SAMPLES, SAMPLE = 65536, 4 * KIB
GLANCE = 4096  # samples of a second look, right after the first one
SECONDS = 1200  # for one device; a disk that rotates takes some eight minutes for all samples
# At each copy: partitions begin at sector 63 or at a MiB, and what describes the groups of ext4 comes after it.
COPY = MIB + 64 * KIB
EXT4_BLOCKS = (1, 2, 4, 8, 16, 32, 64)  # KiB
XFS_GROUPS = 128  # the most that a disk is divided into, but for a very large one; the second begins with a copy
XFS_LARGEST = TIB - 4 * KIB
NTFS_TABLE = 3 * GIB
OCFS2 = tuple(GIB << shift for shift in range(0, 11, 2))  # Btrfs has one at 256 GiB, too
BLUESTORE = (GIB, 10 * GIB, 100 * GIB, 1000 * GIB)
_CHUNK = 4 * MIB
_ZEROS = bytes(_CHUNK)


@dataclass(frozen=True)
class Look:
    """A look at a device: what was found, which is nothing on a blank one, and how many bytes of it were read."""

    found: tuple[str, ...] = ()
    read: int = 0


def places(size: int) -> Iterator[tuple[int, int, str]]:
    """Yield the start and the length of what tells of an owner on a device of this size, and whose it is."""
    yield 0, min(ENDS, size), "the start"
    yield max(0, size - ENDS), min(ENDS, size), "the end"
    for start, what in _copies(size):
        if start < size:
            yield start, min(COPY, size - start), what


def _copies(size: int) -> Iterator[tuple[int, str]]:
    for what, found in (("Btrfs", (ENDS,)), ("OCFS2", OCFS2), ("BlueStore", BLUESTORE), ("NTFS", (NTFS_TABLE,))):
        yield from ((start, what) for start in found)
    for block in EXT4_BLOCKS:
        group = 8 * block * block * MIB  # as many blocks as one block has bits
        yield from ((start, "ext4") for start in _groups_of_ext4(group, size))
    yield from ((-(-(size // SAMPLE) // groups) * SAMPLE, "XFS") for groups in range(2, XFS_GROUPS + 1))
    yield from ((start, "XFS") for start in range(XFS_LARGEST, size, XFS_LARGEST))


def _groups_of_ext4(group: int, size: int) -> Iterator[int]:
    """Yield the groups that have a copy of the superblock: the first, the powers of 3, 5 and 7, and the last."""
    yield group
    yield (size - 1) // group * group
    for base in (3, 5, 7):
        number = base
        while number * group < size:
            yield number * group
            number *= base


def stretches(size: int, samples: int = SAMPLES, whole: int = WHOLE) -> list[tuple[int, int]]:
    """Return the start and the length of each stretch to read, in order: by chance others each time."""
    if size <= whole:
        return [(0, size)] if size else []
    chance = random.SystemRandom()
    part = max(SAMPLE, size // samples) if samples else size
    within = max(1, part // SAMPLE)
    found = [(part * number // SAMPLE + chance.randrange(within)) * SAMPLE for number in range(samples)]
    wanted = [(start, min(start + SAMPLE, size)) for start in found if start < size]
    for start, length, _what in places(size):
        first = max(0, start) // SAMPLE * SAMPLE
        wanted.append((first, min(-(-(start + length) // SAMPLE) * SAMPLE, size)))
    return _merged(sorted(wanted))


def _merged(pieces: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return start and length of pieces that have a start and an end, those that meet as one."""
    merged: list[list[int]] = []
    for start, end in pieces:
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return [(start, end - start) for start, end in merged]


def look(path: str, number: str = "", *, samples: int = SAMPLES, whole: int = WHOLE, seconds: float = SECONDS) -> Look:
    """Say what is on a device that no signature tells of: it must be free, and read as nothing but zeros.

    number is the major:minor that it must have, where it is known. The kernel lets a device be opened like this only
    while nothing holds it, in whatever container or namespace.
    """
    try:
        handle, direct = _opened(path)
    except OSError as error:
        return Look((f"it cannot be opened exclusively: {error.strerror}",))
    try:
        if number and number != _number(handle):
            return Look((f"it is another device now ({_number(handle) or 'none'}, not {number})",))
        size = os.lseek(handle, 0, os.SEEK_END)
        return _read(handle, size, stretches(size, samples, whole), seconds, direct=direct)
    except OSError as error:
        return Look((f"unknown data: it cannot be read: {error.strerror}",))
    finally:
        os.close(handle)


def _opened(path: str) -> tuple[int, bool]:
    """Open a device past the kernel's cache, which may be older than what a partition or a volume wrote, if it can."""
    flags = os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(path, flags | os.O_DIRECT), True
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    handle = os.open(path, flags)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
    return handle, False


def _number(handle: int) -> str:
    status = os.fstat(handle)
    return f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}" if stat.S_ISBLK(status.st_mode) else ""


def _read(handle: int, size: int, wanted: list[tuple[int, int]], seconds: float, *, direct: bool) -> Look:
    buffer, end, read = mmap.mmap(-1, _CHUNK), time.monotonic() + seconds, 0
    for first, length in wanted:
        for start in range(first, first + length, _CHUNK):
            if time.monotonic() >= end:
                told = f"{read >> 20} of {size >> 20} MiB could be read within {seconds // 60:.0f} minutes"
                return Look((f"unknown data: only {told}",), read)
            data = _piece(handle, start, min(_CHUNK, first + length - start), buffer)
            if data != _ZEROS[: len(data)]:
                place = start + len(data) - len(data.lstrip(b"\0"))
                return Look((f"unknown data near byte {place} of {size}",), read)
            read += len(data)
            if not direct:
                os.posix_fadvise(handle, start, len(data), os.POSIX_FADV_DONTNEED)
    return Look((), read)


def _piece(handle: int, start: int, length: int, buffer: mmap.mmap) -> bytes:
    """Read a piece whole, in blocks, as one must past the cache. Raises OSError."""
    got = 0
    while got < length:
        blocks = -(-(length - got) // SAMPLE) * SAMPLE
        more = os.preadv(handle, [memoryview(buffer)[got : got + blocks]], start + got)
        if not more:
            raise OSError(errno.EIO, "it ended too early")
        got += more
    return buffer[:length]
