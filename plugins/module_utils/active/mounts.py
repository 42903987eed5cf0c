# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast a data set's directory answers: latency of small files, sequential and random reads. It only reads.

Whole disks are read past the kernel's cache, by fio where the node has it, else by threads of this program. While
somebody works on the node, only the latency is measured.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import shutil
import subprocess
import threading
import time
from itertools import islice
from statistics import median
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.child import DONE, LATE, Child, Emit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.active.shapes import MeasuredMount, Reads
FILES = 64  # whose latency is measured, and which are read
ENTRIES = 10_000  # looked at to find them
SMALL = 1 << 20  # bytes of a small file, at most
BLOCK, DEPTH = 4 << 20, 8  # of sequential reads: bytes, and how many at a time
PAGE, RANDOM_DEPTH = 4096, 16  # the same of random reads
READ_SECONDS = 4.0
RANDOM_SECONDS = 1.5  # one at a time, and again with many
READ_BYTES = 16 << 30
MOST_SAMPLES = 10_000
FIO = "fio"
FIO_NAMES = 4000  # bytes of all names that it takes
FIO_SECONDS = 15.0  # beyond what it shall measure
# Of one file: a server may keep root out of it (root_squash, lost+found), and others may remove it meanwhile.
CLOSED = (PermissionError, FileNotFoundError)


def measure(path: str, seconds: float, busy: str | None = None) -> MeasuredMount:
    """Measure a directory in a child with a deadline: a dead network mount never answers.

    busy says who works on the node; then nothing is read but the beginnings of some files. Returns path and state;
    when done: files looked at; left_out, how many files and directories below it could not be opened; latency_ms
    (median of opening a small file and reading its first 4 KiB); and by (fio or reads), direct (past the kernel's
    cache), bytes, read_mbs (MB/s of reading the largest files in a row), random_ms (median of one read of 4 KiB) and
    random_iops (such reads a second, 16 at a time). left_alone is busy. A figure is None where nothing was read.
    """
    child = Child(lambda emit: _measure(emit, path, busy), seconds)
    outcome = child.wait()
    record: MeasuredMount = {"path": path}
    for message in child.messages:
        record.update(message)
    if outcome == LATE:
        return {**record, "state": "late", "seconds": seconds}
    if outcome != DONE:
        return {**record, "state": "failed", "error": {"code": None, "name": child.reason}}
    return {**record, "state": "done"}


def _measure(emit: Emit, path: str, busy: str | None) -> None:
    listed, left_out = listing(path)
    small = [name for size, name in reversed(listed) if size <= SMALL] or [name for _size, name in listed]
    asked = small[:: max(1, len(small) // FILES)][:FILES]
    times = {name: _milliseconds_to_open(name) for name in asked}
    opened = [elapsed for elapsed in times.values() if elapsed is not None]
    if listed and not opened:
        msg = f"none of {len(asked)} files can be opened"
        raise PermissionError(msg)
    closed = len(asked) - len(opened)
    emit({"files": len(listed) - closed, "left_out": left_out + closed})
    if not opened:
        return
    emit({"latency_ms": round(median(opened), 3)})
    if busy:
        emit({"left_alone": busy})
        return
    largest = [name for size, name in listed[:FILES] if size]
    emit(_by_fio(largest) or _by_reads(largest))


def listing(path: str) -> tuple[list[tuple[int, str]], int]:
    """Find regular files below a directory with their sizes, the largest first, and count what is closed.

    Raises OSError where the directory itself cannot be listed.
    """
    found: list[tuple[int, str]] = []
    looked_at = left_out = 0
    waiting = [path]
    while waiting and looked_at < ENTRIES:
        directory = waiting.pop(0)
        try:
            with os.scandir(directory) as names:
                entries = list(islice(names, ENTRIES - looked_at))
        except CLOSED:
            if directory == path:
                raise
            left_out += 1
            continue
        looked_at += len(entries)
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    found.append((entry.stat(follow_symlinks=False).st_size, entry.path))
            except CLOSED:  # noqa: PERF203 - each entry is left out alone
                left_out += 1
    return sorted(found, reverse=True), left_out


def _open_cold(name: str) -> int | None:
    """Open a file and let the kernel forget what it holds of it; it keeps what others have mapped.

    None where it may not be opened, or is gone.
    """
    try:
        descriptor = os.open(name, os.O_RDONLY)
    except CLOSED:
        return None
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    return descriptor


def _milliseconds_to_open(name: str) -> float | None:
    """Return how long opening a file and reading its beginning takes; None where it cannot be opened."""
    begin = time.monotonic()
    descriptor = _open_cold(name)
    if descriptor is None:
        return None
    os.read(descriptor, PAGE)
    elapsed = time.monotonic() - begin
    os.close(descriptor)
    return elapsed * 1e3


def _by_fio(files: list[str]) -> Reads | None:
    """Let fio read the files, a row and at random; None where the node has none, or it cannot."""
    program = shutil.which(FIO)
    if not program or not files:
        return None
    row = _fio(program, files, READ_SECONDS, "--rw=read", "--bs=1M", "--iodepth=32")
    one = _fio(program, files, RANDOM_SECONDS, "--rw=randread", "--bs=4k", "--iodepth=1")
    many = _fio(program, files, RANDOM_SECONDS, "--rw=randread", "--bs=4k", f"--iodepth={RANDOM_DEPTH}")
    if not row or not one or not many:
        return None
    return {
        "by": FIO,
        "direct": True,
        "bytes": row["io_bytes"],
        "read_mbs": round(row["bw_bytes"] / 1e6, 1),
        "random_ms": round(one["clat_ns"]["percentile"]["50.000000"] / 1e6, 3),
        "random_iops": round(many["iops"]),
    }


def _fio(program: str, files: list[str], seconds: float, *options: str) -> dict[str, Any] | None:
    """Return what fio tells of its reads; it opens the files for reading only."""
    names = ""
    for name in files:
        longer = f"{names}{':' if names else ''}" + name.replace("\\", "\\\\").replace(":", "\\:")
        if len(longer) < FIO_NAMES:
            names = longer
    argv = [
        program, "--name=gpulab", "--readonly", f"--filename={names}", "--direct=1", "--ioengine=libaio",
        "--time_based", f"--runtime={seconds:g}", "--output-format=json", *options,
    ]  # fmt: skip
    try:
        done = subprocess.run(argv, capture_output=True, check=True, timeout=seconds + FIO_SECONDS)
        job = json.loads(done.stdout[done.stdout.index(b"{") :])["jobs"][0]
    except (OSError, ValueError, LookupError, subprocess.SubprocessError):
        return None
    found: dict[str, Any] = job["read"]
    return None if job["error"] else found


def _by_reads(files: list[str]) -> Reads:
    """Read the files by threads, a row and at random."""
    opened = [one for one in map(_Cold, files) if one.descriptor >= 0]
    try:
        total, elapsed, _times = _read(opened, _in_a_row(opened), BLOCK, DEPTH, READ_SECONDS)
        _bytes, _elapsed, waits = _read(opened, _at_random(opened), PAGE, 1, RANDOM_SECONDS)
        many, many_seconds, _times = _read(opened, _at_random(opened), PAGE, RANDOM_DEPTH, RANDOM_SECONDS)
    finally:
        for one in opened:
            one.close()
    return {
        "by": "reads",
        "direct": bool(opened) and all(one.direct for one in opened),
        "bytes": total,
        "read_mbs": round(total / elapsed / 1e6, 1) if total else None,
        "random_ms": round(median(waits) * 1e3, 3) if waits else None,
        "random_iops": round(many / PAGE / many_seconds) if many else None,
    }


class _Cold:
    """A file that is open for reads past the kernel's cache, or emptied of it where its file system has no such."""

    def __init__(self, name: str) -> None:
        """Open it; descriptor is -1 where that cannot be."""
        self.direct = True
        descriptor: int | None = None
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_DIRECT)
        except CLOSED:
            pass
        except OSError:
            self.direct, descriptor = False, _open_cold(name)
        self.descriptor = -1 if descriptor is None else descriptor
        self.size = 0 if descriptor is None else os.fstat(descriptor).st_size

    def close(self) -> None:
        """Close it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)


def _in_a_row(files: list[_Cold]) -> Iterator[tuple[_Cold, int]]:
    for file in files:
        for offset in range(0, file.size, BLOCK):
            yield file, offset


def _at_random(files: list[_Cold]) -> Iterator[tuple[_Cold, int]]:
    """Yield places that are spread over all files, as their sizes are."""
    chosen = random.Random(0)  # noqa: S311 - the same places each time
    weights = [file.size for file in files]
    while files:
        (file,) = chosen.choices(files, weights)
        yield file, chosen.randrange(0, max(1, file.size // PAGE)) * PAGE


def _read(
    files: list[_Cold], places: Iterator[tuple[_Cold, int]], size: int, depth: int, seconds: float
) -> tuple[int, float, list[float]]:
    """Read so much at each place, so many at a time, until time or places end; return bytes, seconds, and waits."""
    lock, begin, total = threading.Lock(), time.monotonic(), 0
    waits: list[float] = []
    buffered = not all(file.direct for file in files)

    def next_place() -> tuple[_Cold, int] | None:
        with lock:
            return None if total >= READ_BYTES else next(places, None)

    def work() -> None:
        nonlocal total
        with mmap.mmap(-1, size) as buffer:  # begins at a page, as direct reads want it
            while time.monotonic() - begin < seconds:
                place = next_place()
                if place is None:
                    return
                file, offset = place
                if buffered:
                    os.posix_fadvise(file.descriptor, offset, size, os.POSIX_FADV_DONTNEED)
                start = time.monotonic()
                got = os.preadv(file.descriptor, [buffer], offset)
                with lock:
                    total += got
                    if len(waits) < MOST_SAMPLES:
                        waits.append(time.monotonic() - start)

    _in_threads(work, depth)
    return total, max(time.monotonic() - begin, 1e-6), waits


def _in_threads(work: Callable[[], None], count: int) -> None:
    """Run it so many times at once. Raises the first OSError of any."""
    errors: list[OSError] = []

    def guarded() -> None:
        try:
            work()
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded) for _thread in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
