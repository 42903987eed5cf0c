# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The proof of the store by SHA-256, a slice each night, so that every blob is read whole within 30 days; and a list.

Where no program has a blob mapped, it is read past the memory in which the kernel keeps files: the disk counts.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.models import refuse
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import first
from ansible_collections.gpulab.node.plugins.module_utils.models import record
from ansible_collections.gpulab.node.plugins.module_utils.models.store import Store
from ansible_collections.gpulab.node.plugins.module_utils.models.wanted import SHOWN, gigabytes, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

NIGHTS = 25  # in which all is read: a node may be off for five of thirty
OLDEST = 28 * 86400.0  # seconds after which a blob is read whatever the size of the slice
BETWEEN_NOTES = 60.0  # seconds: what was read is written down so often
_BLOCK = 1 << 20


def blobs(store: Store) -> dict[str, Path]:
    """Return the blobs that snapshots lead to, named FOLDER/SHA-256; some may be gone."""
    return {
        f"{folder}/{Path(target).name}": store.blob(folder, Path(target).name)
        for folder, revision in store.snapshots()
        for target in store.links(folder, revision).values()
    }


def slice_of(sizes: dict[str, int], checked: dict[str, record.Checked], now: float) -> list[str]:
    """Return what to read this night: those not read for longest, a share of all bytes, and all that are overdue.

    A reading of the future is of a clock that went wrong, so nobody knows how old it is.
    """
    known = {name: now - one.at for name, one in checked.items() if one.at <= now}
    ages = {name: known.get(name, float("inf")) for name in sizes}
    share, read, chosen = sum(sizes.values()) / NIGHTS, 0, []
    for name in sorted(sizes, key=lambda name: (-ages[name], name)):
        if read >= share and ages[name] < OLDEST:
            break
        chosen.append(name)
        read += sizes[name]
    return chosen


def prove(store: Store) -> list[Refusal]:
    """Read a slice, and return what is wrong with the store: M002 and M008."""
    named = blobs(store)
    sizes = {name: path.stat().st_size for name, path in named.items() if path.is_file()}
    fresh: dict[str, record.Checked] = {}
    noted = time.monotonic()
    for name in slice_of(sizes, record.read().blobs, time.time()):
        fresh[name] = record.Checked(time.time(), sizes[name], damaged=_sha256(named[name]) != named[name].name)
        if time.monotonic() - noted > BETWEEN_NOTES:
            _note(fresh)
            noted = time.monotonic()
    checked = _note(fresh)
    others = {name for name, size in sizes.items() if name in checked and checked[name].size != size}
    damaged = others | {name for name, one in checked.items() if one.damaged}
    return list(_findings(store, damaged, set(named) - set(sizes)))


def _note(fresh: dict[str, record.Checked]) -> dict[str, record.Checked]:
    """Write down what was read, and return all that is known."""
    with record.changing() as kept:
        kept.blobs.update(fresh)
    return kept.blobs


def _findings(store: Store, damaged: set[str], gone: set[str]) -> Iterator[Refusal]:
    for folder, revision in store.snapshots():
        linked = {path: f"{folder}/{Path(target).name}" for path, target in store.links(folder, revision).items()}
        for code, names in (("M002", damaged), ("M008", gone)):
            files = sorted(path for path, name in linked.items() if name in names)
            if files:
                yield refuse(code, name=f"{name_of(folder)}@{revision[:8]}", files=first(files, SHOWN))


def _sha256(path: Path) -> str:
    """Read a file from the disk; empty where the disk does not hand it out.

    Its time of access, by which people see what is unused, stays as it is.
    """
    found = hashlib.sha256()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | (os.O_NOATIME if os.geteuid() == 0 else 0))
        with os.fdopen(descriptor, "rb") as stream:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            for block in iter(lambda: stream.read(_BLOCK), b""):
                found.update(block)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)  # what others read stays in memory instead
    except OSError:
        return ""
    return found.hexdigest()


def listed(store: Store) -> Iterator[str]:
    """Yield a line for each snapshot: since when it is there, when a file was last read, its size, who uses it."""
    yield "since       last read   size      repository@revision, and who has files of it open"
    for folder, revision in store.snapshots():
        paths = {store.blob(folder, Path(target).name) for target in store.links(folder, revision).values()}
        there = [path.stat() for path in paths if path.is_file()]
        since = _day(store.snapshot(folder, revision).stat().st_mtime)
        read = _day(max((status.st_atime for status in there), default=0.0))
        size = gigabytes(sum(status.st_size for status in there))
        users = "; ".join(store.in_use(folder, revision))
        yield f"{since}  {read}  {size:8}  {name_of(folder)}@{revision}{f'  {users}' if users else ''}"


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(seconds))


def main(arguments: list[str]) -> int:
    """Run as a program: night or list. Returns the exit status."""
    kept = record.read()
    if not kept.directory:
        sys.stdout.write("the store is empty\n")
        return 0
    store = Store(Path(kept.directory), kept.blobs)
    if arguments == ["list"]:
        for line in listed(store):
            sys.stdout.write(f"{line}\n")
        return 0
    found = prove(store)
    for refusal in found:
        sys.stdout.write(f"{refusal}\n")
    return 1 if found else 0
