# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where files of a repository come from: a directory of the node, such as a stick, a bundle, or a hub over HTTPS.

No link of a directory is followed, for others may have put it there: one as huggingface_hub makes them in its cache
leads to a blob beside it by name alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote
from urllib.request import Request

from ansible_collections.gpulab.node.plugins.module_utils.core import beneath, download
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.models import refuse
from ansible_collections.gpulab.node.plugins.module_utils.models.wanted import MODELS, SHA256, Entry, path_problem
from ansible_collections.gpulab.node.plugins.module_utils.system.certificates import opener

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.models.wanted import Repository

TO_BLOB = re.compile(r"(?:\.\./)+blobs/([0-9a-f]{40}|[0-9a-f]{64})")
TIMEOUT = 60.0  # seconds without an octet
MOST_LISTED = 64 << 20  # bytes that a list of files may have
DENIED = (401, 403)


class Source(Protocol):
    """What has files of repositories."""

    def entries(self, repository: Repository) -> list[Entry] | None:
        """Return the files of a repository at its commit; None where it is not there. Raises Refusal M003 and M009."""

    def save(self, repository: Repository, entry: Entry, path: Path, until: float) -> bool:
        """Go on with a copy of a file, until it is whole or the time (of time.monotonic) is over; whether it is whole.

        Raises OSError, and Refusal M003.
        """


class Folder:
    """A directory with models--ORG--NAME/REVISION/FILE, or a copy of huggingface_hub's cache."""

    def __init__(self, top: Path) -> None:
        """Read nothing yet."""
        self._top = top

    def entries(self, repository: Repository) -> list[Entry] | None:
        """Return the files of a repository."""
        places = (repository.revision, f"snapshots/{repository.revision}")
        return next((entries for entries in (self._entries(repository, place) for place in places) if entries), None)

    def _entries(self, repository: Repository, place: str) -> list[Entry] | None:
        try:
            with beneath.directory(self._top, f"{repository.folder}/{place}", follow=False) as opened:
                return list(self._walk(repository, place, opened))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise refuse("M009", name=repository.name, detail=f"{self._top}: {error.strerror}") from error

    def _walk(self, repository: Repository, place: str, opened: int) -> Any:
        for directory, names, files, descriptor in os.fwalk(".", dir_fd=opened, follow_symlinks=False):
            names[:] = [name for name in names if not (directory == "." and name == ".cache")]  # hf download's
            for name in sorted(files):
                path = os.path.normpath(f"{directory}/{name}")
                yield self._entry(repository, path, f"{place}/{path}", name, descriptor)

    def _entry(self, repository: Repository, path: str, place: str, name: str, descriptor: int) -> Entry:
        status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        problem = path_problem(path)
        if stat.S_ISLNK(status.st_mode):
            match = TO_BLOB.fullmatch(os.readlink(name, dir_fd=descriptor))
            if match:
                place = f"blobs/{match[1]}"
                with beneath.at(self._top, f"{repository.folder}/{place}", follow=False) as blob:
                    status = blob.status() or status
        if problem or not stat.S_ISREG(status.st_mode):
            detail = f"{path!r} in {self._top} is no file, or leads elsewhere"
            raise refuse("M009", name=repository.name, detail=detail)
        return Entry(path, status.st_size, place=place)

    def save(self, repository: Repository, entry: Entry, path: Path, until: float) -> bool:
        """Go on with a copy of a file."""
        begun = path.stat().st_size if path.exists() else 0
        place = f"{repository.folder}/{entry.place}"
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(beneath.at(self._top, place, follow=False))
            source = os.fdopen(os.dup(stack.enter_context(file.opened())), "rb")
            stack.callback(source.close)
            stream = stack.enter_context(path.open("r+b" if begun else "wb"))
            source.seek(begun)
            return download.copy(source, stream, begun, entry.size, until)


class Bundle:
    """The bundle that the node uses; models is what it holds of each, by FOLDER/REVISION (see docs/offline.md)."""

    def __init__(self, address: str, models: dict[str, Any]) -> None:
        """Ask nothing yet: who signed the bundle has signed this."""
        self._address, self._models = address, models
        self._opener = opener()  # as the bundle itself is read

    def entries(self, repository: Repository) -> list[Entry] | None:
        """Return the files of a repository."""
        files = held(self._models, repository)
        return None if files is None else [Entry(path, size, digest) for path, (digest, size) in sorted(files.items())]

    def save(self, repository: Repository, entry: Entry, path: Path, until: float) -> bool:
        """Go on with a copy of a file."""
        address = f"{self._address}/{quote(place_in_bundle(repository, entry.path))}"
        return download.go_on(address, path, entry.size, TIMEOUT, until=until, headers={}, asking=self._ask)

    def _ask(self, url: str, timeout: float, headers: dict[str, str] | None) -> Any:
        return self._opener.open(Request(url, headers=headers or {}), timeout=timeout)  # noqa: S310 - the plan's address


def held(models: Mapping[str, Any], repository: Repository) -> dict[str, list[Any]] | None:
    """Return {path: [SHA-256, bytes]} of a repository, as a bundle has it; None unless it has what is wanted."""
    found = models.get(repository.place)
    return found["files"] if found and found["patterns"] == [*repository.files] else None


def place_in_bundle(repository: Repository, path: str) -> str:
    """Return where a bundle has a file of a repository."""
    return f"{MODELS}/{repository.place}/{path}"


class Hub:
    """A hub with the API of Hugging Face's; token is what it gives its files for, or empty."""

    def __init__(self, address: str, token: str) -> None:
        """Ask nothing yet."""
        self._address = address.rstrip("/")
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def entries(self, repository: Repository) -> list[Entry] | None:
        """Return the files of a repository, after the hub has shown that it hands one out."""
        address = f"{self._address}/api/{repository.kind}/{quote(repository.short)}/revision/{repository.revision}"
        try:
            text = download.fetch(f"{address}?blobs=true", _listed, TIMEOUT, headers=self.headers)
            answer = json.loads(text)
            entries = [_entry(file) for file in answer["siblings"]]
        except OSError as error:
            raise self._refusal(repository, error) from error
        except (ValueError, TypeError, KeyError) as error:
            raise refuse(
                "M009", name=repository.name, detail=f"{self._address} answers with no list of files"
            ) from error
        if answer.get("sha") != repository.revision:
            detail = f"{self._address} has another commit there, {str(answer.get('sha'))[:40]}"
            raise refuse("M009", name=repository.name, detail=detail)
        bad = next((entry.path for entry in entries if path_problem(entry.path)), None)
        if bad is not None:
            raise refuse("M009", name=repository.name, detail=f"the hub names a file {bad!r}, which leads elsewhere")
        self._knock(repository, entries)
        return entries

    def _knock(self, repository: Repository, entries: list[Entry]) -> None:
        """See that the hub hands out a file: it lists those of a gated repository to everybody."""
        smallest = min(
            (entry for entry in entries if repository.takes(entry.path)), key=lambda entry: entry.size, default=None
        )
        if smallest is None:
            return
        try:
            headers = {**self.headers, "Range": "bytes=0-0"}
            download.fetch(self.address_of(repository, smallest), lambda _answer: None, TIMEOUT, headers=headers)
        except OSError as error:
            if getattr(error.__cause__, "code", None) != 416:  # noqa: PLR2004 - an empty file has no such range
                raise self._refusal(repository, error) from error

    def address_of(self, repository: Repository, entry: Entry) -> str:
        """Return the address of a file, which takes the headers."""
        return f"{self._address}/{quote(repository.name)}/resolve/{repository.revision}/{quote(entry.path)}"

    def _refusal(self, repository: Repository, error: OSError) -> Exception:
        cause: Any = error.__cause__
        if getattr(cause, "code", None) in DENIED:
            said = cause.headers.get("X-Error-Message") or cause.headers.get("X-Error-Code") or cause.reason
            token = "with the token" if self.headers else "without a token"
            return refuse("M003", name=repository.name, detail=f"HTTP {cause.code} {token}, {str(said)[:200]}")
        return refuse("M009", name=repository.name, detail=f"{self._address}: {error}")

    def save(self, repository: Repository, entry: Entry, path: Path, until: float) -> bool:
        """Go on with a copy of a file."""
        try:
            address = self.address_of(repository, entry)
            return download.go_on(address, path, entry.size, TIMEOUT, until=until, headers=self.headers)
        except OSError as error:
            if getattr(error.__cause__, "code", None) in DENIED:
                raise self._refusal(repository, error) from error
            raise


def _listed(answer: Any) -> bytes:
    text: bytes = answer.read(MOST_LISTED + 1)
    if len(text) > MOST_LISTED:
        message = f"the list of files has more than {MOST_LISTED} bytes"
        raise OSError(message)
    return text


def _entry(file: dict[str, Any]) -> Entry:
    """Return a file as the hub lists it: large ones with their SHA-256, others with the SHA-1 of Git."""
    large = file.get("lfs") or {}
    size, digest = int(large.get("size") or file["size"]), str(large.get("sha256", ""))
    if digest and not SHA256.fullmatch(digest):
        raise ValueError(digest)
    return Entry(str(file["rfilename"]), size, digest, "" if digest else str(file.get("blobId") or ""))
