# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The models and data sets of a bundle: the files that a hub has of each repository at its commit.

The hub tells the SHA-256 of large files, and of others what Git calls them; those come to know it when they are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.files import sha256
from ansible_collections.gpulab.node.plugins.module_utils.models import wanted
from ansible_collections.gpulab.node.plugins.module_utils.models.sources import Hub, place_in_bundle
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.fetching import GIT, File
from ansible_collections.gpulab.node.plugins.plugin_utils.core.model_locks import read_locks
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@dataclass(frozen=True)
class Held:
    """A repository that a bundle holds, and its files by their paths in the repository."""

    repository: wanted.Repository
    files: tuple[tuple[str, File], ...]

    def record(self, directory: Path) -> dict[str, Any]:
        """Return what bundle.json says of it: the patterns of its files, and each one's SHA-256 and bytes."""
        told = {path: [_digest(directory, file), file.size] for path, file in self.files}
        return {"patterns": [*self.repository.files], "files": told}


def _digest(directory: Path, file: File) -> str:
    """Return a file's SHA-256. It was compared when it came; a small one, which only Git names, is read once more."""
    return sha256(directory / file.path) if file.sha256.startswith(GIT) else file.sha256


def asked(args: Mapping[str, Any]) -> Iterator[Held]:
    """Yield what a task of the module model_store asks the hub for. Raises Refusal M002, M003, M005, M009 and M010."""
    if not args.get("hub"):  # a directory of the node has all of it
        return
    repositories = args.get("repositories") or []
    locks = read_locks(repositories)
    for given in repositories:
        yield _held(args["hub"], args.get("token") or "", wanted.repository(given, locks))


@cache  # most hosts ask for the same
def _held(address: str, token: str, repository: wanted.Repository) -> Held:
    """Return what a hub has of a repository. Raises Refusal."""
    hub = Hub(address, token)
    listed = {entry.path: entry for entry in hub.entries(repository) or () if repository.takes(entry.path)}
    lock = wanted.read_lock(repository.locked, f"the lock of {repository.name}").files if repository.locked else {}
    gone = sorted(path for path in lock if repository.takes(path) and path not in listed)
    if gone or not listed:
        detail = f"the hub does not have {gone[0] if gone else 'any of its files'}"
        raise refuse("M009", name=repository.name, detail=detail)
    wanted.check_formats(repository, listed)
    files = (
        (path, _file(repository, entry, lock.get(path, ""), hub))
        for path, entry in sorted(listed.items())
        if not lock or path in lock
    )
    return Held(repository, tuple(files))


def _file(repository: wanted.Repository, entry: wanted.Entry, locked: str, hub: Hub) -> File:
    """Return a file of a repository, with the SHA-256 of the lock, or what the hub says. Raises Refusal M002."""
    if locked and entry.sha256 and locked != entry.sha256:
        raise refuse("M002", name=repository.name, files=f"{entry.path}, says the hub")
    digest = locked or entry.sha256 or f"{GIT}{entry.git}"
    path = place_in_bundle(repository, entry.path)
    return File(path, hub.address_of(repository, entry), entry.size, digest, tuple(hub.headers.items()))
