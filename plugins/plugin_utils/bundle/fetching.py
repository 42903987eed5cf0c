# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that a bundle is made of, and how they come: what has come is kept, and what is wrong comes again."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ansible.module_utils.urls import open_url
from ansible_collections.gpulab.node.plugins.module_utils.bundle.folder import MOST_NAMED
from ansible_collections.gpulab.node.plugins.module_utils.core import download
from ansible_collections.gpulab.node.plugins.module_utils.core.files import free_bytes, sha256
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import first
from ansible_collections.gpulab.node.plugins.module_utils.models.store import digests
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.folder import WORK
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

AT_ONCE = 8
GIT = "git:"
SECONDS = 60.0  # without an octet
WRONG_AT_MOST = 2  # times that a whole file may have another SHA-256
MEGABYTE = 10**6
MARGIN = 1.1  # of the space that files take, for what a file system adds


@dataclass(frozen=True, order=True)
class File:
    """A file of a bundle: its path there, whence it comes, its bytes (0 where nobody says), its SHA-256.

    Instead of that, it may be GIT with the name that Git has for its contents. headers are for its server alone.
    """

    path: str
    url: str
    size: int
    sha256: str
    headers: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)


def missing(directory: Path, files: Iterable[File]) -> list[File]:
    """Return the files that are not there, or not as they are to be; one of each path."""
    unique = {file.path: file for file in files}
    return sorted(file for file in unique.values() if not _is_there(directory / file.path, file.sha256))


def with_size(file: File) -> File:
    """Return a file with the bytes that its server says, where no index does; as it is where it says nothing."""
    if file.size:
        return file
    try:
        with contextlib.closing(open_url(file.url, method="HEAD", timeout=SECONDS)) as answer:
            return replace(file, size=int(answer.headers.get("Content-Length") or 0))
    except OSError:  # to fetch it will say why
        return file


def check_space(directory: Path, files: Iterable[File]) -> None:
    """Raise Refusal B002 where these files do not fit."""
    need = sum(file.size for file in files) * MARGIN
    free = free_bytes(directory)
    if need > free:
        raise refuse("B002", need=round(need / MEGABYTE), path=directory, free=round(free / MEGABYTE))


def fetch(directory: Path, files: Iterable[File]) -> None:
    """Fetch files; each appears whole and verified, or not at all. Raises Refusal B020, which names all that fail."""
    parts = directory / WORK / "parts"
    parts.mkdir(parents=True, exist_ok=True)

    def one(file: File) -> str:
        part = parts / file.sha256
        for _try in range(WRONG_AT_MOST):
            try:
                _go_on(file, part)
            except OSError as error:
                return f"{file.path} ({error})"
            if _matches(part, file.sha256):
                (directory / file.path).parent.mkdir(parents=True, exist_ok=True)
                part.replace(directory / file.path)
                return ""
            part.unlink()
        return f"{file.path} (what {urlsplit(file.url).hostname} sends has another SHA-256 than its index says)"

    by_content: dict[str, list[File]] = {}
    for file in files:
        by_content.setdefault(file.sha256, []).append(file)  # one after the other: they come through the same part
    with ThreadPoolExecutor(AT_ONCE) as pool:
        told = chain.from_iterable(pool.map(lambda alike: [one(file) for file in alike], by_content.values()))
    failed = list(filter(None, told))
    if failed:
        raise refuse("B020", count=len(failed), names=first(failed, MOST_NAMED, "; "))


def _go_on(file: File, part: Path) -> None:
    """Fetch what is left of a file. Raises OSError."""
    if part.exists() and part.stat().st_size > file.size:
        part.unlink()
    if file.size:
        download.go_on(file.url, part, file.size, SECONDS, until=inf, headers=dict(file.headers))
    else:
        download.save(file.url, part, SECONDS)


def _is_there(path: Path, digest: str) -> bool:
    return path.is_file() and not path.is_symlink() and _matches(path, digest)


def _matches(path: Path, digest: str) -> bool:
    """Tell whether a file is the one with this SHA-256, or with this name of Git's."""
    return f"{GIT}{digests(path)[1]}" == digest if digest.startswith(GIT) else sha256(path) == digest
