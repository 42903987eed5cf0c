# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to come into the store and to go, judged before the first change; and its coming, a slice at a time."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.models import refuse
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import first
from ansible_collections.gpulab.node.plugins.module_utils.models import record
from ansible_collections.gpulab.node.plugins.module_utils.models.store import Store, gid, is_full
from ansible_collections.gpulab.node.plugins.module_utils.models.wanted import (
    SHOWN,
    Entry,
    Lock,
    Repository,
    check_formats,
    folder_of,
    gigabytes,
    name_of,
    read_lock,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ansible_collections.gpulab.node.plugins.module_utils.models.sources import Source


@dataclass
class Coming:
    """A repository that changes: entries are all of its files, to_fetch the paths of those that are not there yet."""

    repository: Repository
    entries: list[Entry]
    to_fetch: list[str] = field(default_factory=list)
    is_main: bool = False

    @property
    def size(self) -> int:
        """How many bytes are to come."""
        return sum(entry.size for entry in self.entries if entry.path in self.to_fetch)


@dataclass(frozen=True)
class Going:
    """A snapshot that is to go."""

    name: str
    folder: str
    revision: str


def coming(store: Store, repositories: Sequence[Repository], sources: Sequence[Source]) -> list[Coming]:
    """Return what changes. Raises Refusal M002, M003, M004, M005, M009 and M010."""
    seen: set[str] = set()
    found = []
    for group in {repository.group for repository in repositories if repository.group}:
        gid(group)
    for repository in repositories:
        is_main = repository.name not in seen
        seen.add(repository.name)
        one = _coming(store, repository, sources, is_main=is_main)
        if one:
            found.append(one)
    parts = [
        store.left(one.repository.folder, [entry for entry in one.entries if entry.path in one.to_fetch])
        for one in found
    ]
    store.check_space(sum(parts))
    return found


def _coming(store: Store, repository: Repository, sources: Sequence[Source], *, is_main: bool) -> Coming | None:
    """Return how a repository changes; None where it does not. No source is asked where all blobs are there."""
    lock = _lock(store, repository)
    if lock:
        check_formats(repository, lock.files)
        if all(store.has(repository.folder, digest) for digest in lock.files.values()):
            if store.is_sealed(repository, lock.files, is_main=is_main):
                return None
            return Coming(repository, [Entry(path, 0, digest) for path, digest in lock.files.items()], is_main=is_main)
    entries = _entries(store, repository, _listed(repository, sources), lock)
    to_fetch = [entry.path for entry in entries if not (entry.sha256 and store.has(repository.folder, entry.sha256))]
    return Coming(repository, entries, to_fetch, is_main)


def _entries(store: Store, repository: Repository, listed: list[Entry], lock: Lock | None) -> list[Entry]:
    """Return those of a source's files that are wanted, with the SHA-256 that is known of them. Raises Refusal."""
    check_formats(repository, (entry.path for entry in listed))
    known = {**store.draft(repository), **(lock.files if lock else _former(store, repository))}
    if lock:
        missing = sorted(lock.files.keys() - {entry.path for entry in listed})
        if missing:
            raise refuse("M009", name=repository.name, detail=f"the source does not have {first(missing, SHOWN)}")
        listed = [entry for entry in listed if entry.path in lock.files]
    others = sorted(
        entry.path for entry in listed if entry.sha256 and known.get(entry.path, entry.sha256) != entry.sha256
    )
    if others:
        raise refuse("M002", name=repository.name, files=f"{first(others, SHOWN)}, says the hub")
    return [replace(entry, sha256=known.get(entry.path) or entry.sha256) for entry in listed]


def _lock(store: Store, repository: Repository) -> Lock | None:
    """Return the lock that says all files: the inventory's, or the node's own for these patterns."""
    if repository.locked:
        given = read_lock(repository.locked, f"the lock of {repository.name}")
        files = {path: digest for path, digest in given.files.items() if repository.takes(path)}
        if not files:
            raise refuse("M010", problems=f"the lock of {repository.name} has none of its files")
        return Lock(files)
    lock = store.lock(repository)
    return lock if lock and lock.patterns == repository.files else None


def _former(store: Store, repository: Repository) -> dict[str, str]:
    """Return what the node's own lock says of files that were chosen by other patterns."""
    lock = store.lock(repository)
    return lock.files if lock else {}


def _listed(repository: Repository, sources: Sequence[Source]) -> list[Entry]:
    """Return the wanted files of a repository as the first source has them that has it."""
    listed = next(
        (entries for entries in (source.entries(repository) for source in sources) if entries is not None), None
    )
    if listed is None:
        detail = (
            "no source has it at this revision" if sources else "neither model_store_folder nor model_store_hub is set"
        )
        raise refuse("M009", name=repository.name, detail=detail)
    entries = [entry for entry in listed if repository.takes(entry.path)]
    if not entries:
        raise refuse("M009", name=repository.name, detail="it has no file that fits its patterns (files)")
    return entries


def going(store: Store, absent: Iterable[str]) -> list[Going]:
    """Return the snapshots that are to go. Raises Refusal M006 where somebody uses one."""
    words = [(folder_of(name), revision) for name, _at, revision in (word.partition("@") for word in absent)]
    found = [
        Going(name_of(folder), folder, revision)
        for folder, revision in store.snapshots()
        if (folder, revision) in words or (folder, "") in words
    ]
    for one in found:
        store.check_use(one.name, one.folder, one.revision)
    return found


def unlisted(store: Store, repositories: Iterable[Repository], gone: Iterable[Going]) -> list[str]:
    """Return the snapshots that the inventory names neither to be there nor not to be."""
    known = {(one.folder, one.revision) for one in repositories} | {(one.folder, one.revision) for one in gone}
    return [
        f"{name_of(folder)}@{revision}" for folder, revision in store.snapshots() if (folder, revision) not in known
    ]


def told(found: Iterable[Coming], gone: Iterable[Going]) -> dict[str, list[str]]:
    """Return what changes, by action, as people read it."""
    return {
        "make": [
            f"{one.repository.label} ({len(one.to_fetch)} of {len(one.entries)} files to fetch, {gigabytes(one.size)})"
            for one in found
        ],
        "delete": [f"{one.name}@{one.revision[:8]}" for one in gone],
    }


def take(store: Store, found: Iterable[Coming], sources: Sequence[Source], seconds: float) -> str | None:
    """Fetch for so many seconds, and seal each repository that is whole; how far it came, None where all is done.

    Raises Refusal M002, M003, M004 and M009.
    """
    try:
        return _take(store, found, sources, seconds)
    except OSError as error:
        if is_full(error):
            raise store.full(0, 0) from error
        raise


@dataclass
class Slice:
    """The time of a call, until a moment of time.monotonic; one file is begun in each."""

    until: float
    has_begun: bool = False

    def is_over(self) -> bool:
        """Tell whether no other file is to begin; otherwise one begins."""
        is_over = self.has_begun and time.monotonic() > self.until
        self.has_begun = True
        return is_over


def _take(store: Store, found: Iterable[Coming], sources: Sequence[Source], seconds: float) -> str | None:
    part = Slice(time.monotonic() + seconds)
    for one in found:
        store.prepare(one.repository)
        known = {**store.draft(one.repository), **{entry.path: entry.sha256 for entry in one.entries if entry.sha256}}
        fetched: dict[str, str] = {}
        try:
            line = _fetch(store, one, sources, known, fetched, part)
        finally:  # also where it fails: the next run goes on from here
            _note(store, one.repository, fetched)
        if line:
            return line
        files = {**known, **fetched}
        store.seal(one.repository, {entry.path: files[entry.path] for entry in one.entries}, is_main=one.is_main)
    return None


def _fetch(  # noqa: PLR0913, PLR0917
    store: Store,
    one: Coming,
    sources: Sequence[Source],
    known: dict[str, str],
    fetched: dict[str, str],
    part: Slice,
) -> str | None:
    """Fetch what is not there, and put its digests into fetched; how far it came, None where all is there."""
    for number, entry in enumerate(one.entries, 1):
        if store.has(one.repository.folder, known.get(entry.path, "-")):
            continue
        if part.is_over() or not _save(store, one.repository, entry, sources, part.until):
            return f"{one.repository.label}: {entry.path}, file {number} of {len(one.entries)}"
        fetched[entry.path] = store.take(one.repository, entry)
    return None


def _save(store: Store, repository: Repository, entry: Entry, sources: Sequence[Source], until: float) -> bool:
    part = store.part(repository.folder, entry)
    source = sources[0] if entry.place else sources[-1]  # a directory, where there is one, comes first
    try:
        return source.save(repository, entry, part, until)
    except Refusal:
        raise
    except OSError as error:
        if is_full(error):
            part.unlink(missing_ok=True)
            raise store.full(entry.size, 0) from error
        raise refuse("M009", name=repository.name, detail=f"{entry.path}: {error}") from error


def _note(store: Store, repository: Repository, fetched: dict[str, str]) -> None:
    """Note the digests of files that came, and that they were read whole just now."""
    if not fetched:
        return
    store.write_draft(repository, fetched)
    folder = repository.folder
    sizes = {f"{folder}/{digest}": store.blob(folder, digest).stat().st_size for digest in fetched.values()}
    fresh = {name: record.Checked(time.time(), size) for name, size in sizes.items()}
    with record.changing() as kept:
        kept.blobs.update(fresh)
    store.know(fresh)


def keep(store: Store, repositories: Iterable[Repository]) -> None:
    """Write down what the store holds now, for the nights and the proof."""
    held = [record.Held(one.name, one.revision) for one in repositories]
    if not held and not store.snapshots():
        records.remove(record.RECORD)
        return
    there = {f"{path.parts[-3]}/{path.name}" for path in (store.directory / "hub").glob("*/blobs/*")}
    with record.changing() as kept:
        kept.directory, kept.repositories = str(store.directory), held
        kept.blobs = {name: checked for name, checked in kept.blobs.items() if name in there}


def plain(one: Coming) -> dict[str, Any]:
    """Return what is to come as data, which coming_of() reads."""
    return {
        "name": one.repository.name,
        "revision": one.repository.revision,
        "entries": [asdict(entry) for entry in one.entries],
        "to_fetch": one.to_fetch,
        "is_main": one.is_main,
    }


def coming_of(data: dict[str, Any], repositories: Iterable[Repository]) -> Coming:
    """Return what is to come, as the look of before found it."""
    wanted = next(one for one in repositories if (one.name, one.revision) == (data["name"], data["revision"]))
    return Coming(wanted, [Entry(**entry) for entry in data["entries"]], data["to_fetch"], data["is_main"])
