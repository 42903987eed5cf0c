# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast a data set's directory answers: latency of opening and reading, and throughput. It only reads."""

from __future__ import annotations

import os
import time
from itertools import islice
from statistics import median
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.core.child import DONE, LATE, Child, Emit

FILES = 64  # whose latency is measured
ENTRIES = 10_000  # looked at to find them
BLOCK = 8 << 20
FIRST_BYTES = 4096
READ_SECONDS = 5.0
READ_BYTES = 4 << 30
# Of one file: a server may keep root out of it (root_squash, lost+found), and others may remove it meanwhile.
CLOSED = (PermissionError, FileNotFoundError)


def measure(path: str, seconds: float) -> dict[str, Any]:
    """Measure a directory in a child with a deadline: a dead network mount never answers.

    Returns path and state; when done: files looked at, latency_ms (median of opening a file and reading its first
    4 KiB), read_mbs (MB/s over the largest files; None where they hold nothing), bytes; left_out, how many files and
    directories below it could not be opened.
    """
    child = Child(lambda emit: _measure(emit, path), seconds)
    outcome = child.wait()
    record: dict[str, Any] = {"path": path}
    for message in child.messages:
        record.update(message)
    if outcome == LATE:
        return {**record, "state": "late", "seconds": seconds}
    if outcome != DONE:
        return {**record, "state": "failed", "error": {"code": None, "name": child.reason}}
    return {**record, "state": "done"}


def _measure(emit: Emit, path: str) -> None:
    listed, left_out = _largest_files(path)
    times = {name: _milliseconds_to_open(name) for name in listed}
    files = {name: elapsed for name, elapsed in times.items() if elapsed is not None}
    if listed and not files:
        msg = f"none of {len(listed)} files can be opened"
        raise PermissionError(msg)
    emit({"files": len(files), "left_out": left_out + len(listed) - len(files)})
    if files:
        emit({"latency_ms": round(median(files.values()), 3)})
        emit(_throughput(list(files)))


def _largest_files(path: str) -> tuple[list[str], int]:
    """Find regular files below a directory, the largest first, and count what could not be looked at.

    Raises OSError where the directory itself cannot be listed.
    """
    found: list[tuple[int, str]] = []
    looked_at = left_out = 0
    waiting = [path]
    while waiting and looked_at < ENTRIES:
        directory = waiting.pop(0)
        try:
            with os.scandir(directory) as listing:
                entries = list(islice(listing, ENTRIES - looked_at))
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
    return [name for _size, name in sorted(found, reverse=True)[:FILES]], left_out


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
    os.read(descriptor, FIRST_BYTES)
    elapsed = time.monotonic() - begin
    os.close(descriptor)
    return elapsed * 1e3


def _throughput(files: list[str]) -> dict[str, Any]:
    """Read one file after the other until enough time or data has passed."""
    begin, total = time.monotonic(), 0
    for name in files:
        descriptor = _open_cold(name)
        if descriptor is None:
            continue
        while time.monotonic() - begin < READ_SECONDS and total < READ_BYTES:
            data = os.read(descriptor, BLOCK)
            total += len(data)
            if not data:
                break
        os.close(descriptor)
    elapsed = time.monotonic() - begin
    return {"bytes": total, "read_mbs": round(total / elapsed / 1e6, 1) if total else None}
