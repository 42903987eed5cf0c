# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes a capture: beside the others first, then read back, and only then it is the latest."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import captures, own_files, signature
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import manifest as manifests
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import rebuild_state as states
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.secrets import Cipher

_LOCK, _NEW, _OLD = ".lock", ".new", ".old"
_NO_LINK = {errno.EMLINK, errno.EPERM, errno.EOPNOTSUPP}  # this file has no more links, this file system has none


@contextlib.contextmanager
def open_store(directory: Path, host: str, keep: int) -> Iterator[Store]:
    """Let one capture of a host be written, and keep this many. Raises Refusal R017 where another one is at work, R020.

    What a killed run left behind is removed, and so is a capture that is not finished at the end.
    """
    place = captures.place(directory, host)
    with _writing(place):
        own_files.make_directory(place)
        place.chmod(0o700)
        lock = os.open(place / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        os.fchmod(lock, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise refuse("R017", host=host) from error
        with _writing(place):
            _clear(place)
        try:
            yield Store(place, keep)
        finally:
            with contextlib.suppress(OSError):
                _clear(place)
    finally:
        os.close(lock)


class Store:
    """Writes one capture of a host.

    known has each content, by SHA-256, that need not be read from the node: the latest capture has it unchanged.
    damage says what is wrong with that capture, which does not hinder a new one.
    """

    def __init__(self, place: Path, keep: int) -> None:
        """Read the latest capture."""
        self.known: dict[str, Path] = {}
        self.damage: list[str] = []
        self._place, self._keep, self._draft = place, keep, place / _NEW
        try:
            former = captures.latest_name(place)
            if former:  # what it holds counts by its SHA-256 on the node, so it needs no signature here
                self._remember(captures.read(place / former, unsigned=former))
        except Refusal as refusal:
            self.damage.append(refusal.cause)

    def _remember(self, former: captures.Capture) -> None:
        found = captures.sha256_sums(former.path)
        for entry in filter(manifests.has_content, former.manifest.files):
            path = former.content(entry["path"])
            if found.get(path) == entry["sha256"]:
                self.known[entry["sha256"]] = path
            else:
                self.damage.append(f"{captures.shown(path, self._place)} is missing or was changed")

    def put(self, path: str, data: bytes) -> None:
        """Store the content of a file of the node. Raises Refusal R020."""
        sha256 = hashlib.sha256(data).hexdigest()
        if sha256 in self.known:
            self.link(path, sha256)
        else:
            with _writing(self._draft):
                own_files.write(self._content(path), data)

    def link(self, path: str, sha256: str) -> None:
        """Store a content that is known; the same content takes no space again. Raises Refusal R020."""
        with _writing(self._draft):
            target = self._content(path)
            own_files.make_directory(target.parent)
            try:
                target.hardlink_to(self.known[sha256])
            except OSError as error:
                if error.errno not in _NO_LINK:
                    raise
                own_files.write(target, self.known[sha256].read_bytes())

    def _content(self, path: str) -> Path:
        if not manifests.is_path(path):
            raise refuse("R006", path=self._draft, detail=f"the node has the path {path!a}")
        return self._draft / captures.FILES / path[1:]

    def finish(self, manifest: Mapping[str, Any], secrets: Mapping[str, bytes], cipher: Cipher) -> captures.Capture:
        """Write manifest and secrets, read all back, and let this capture be the latest. Raises Refusal R006 and R020.

        Its name is the time in the manifest ("made", ISO 8601 in UTC), a second later where that is taken.
        """
        archive, text = cipher.pack(secrets), manifests.text(dict(manifest))
        parts = {captures.MANIFEST: text, cipher.name: archive}
        told = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in parts.items())
        sums, final_name = told.encode("ascii"), self._free_name(manifest["made"])
        signed = signature.signed(sums, self._place.name, final_name)
        with _writing(self._draft):
            for name, data in {**parts, captures.SUMS: sums, signature.NAME: signed}.items():
                own_files.write(self._draft / name, data)
            for path in captures.tree(self._draft):
                if path.is_dir() or path.stat().st_nlink == 1:  # what is linked is on the disk already
                    own_files.sync(path)
        draft = captures.read(self._draft, final_name)
        draft.verify()
        if secrets.keys() != manifests.secret_paths(draft.manifest.files) or (
            cipher.readable and draft.secrets(cipher) != secrets
        ):
            raise refuse("R006", path=self._draft, detail=f"{cipher.name} does not hold the secrets that were read")
        with _writing(self._place):
            final = self._place / final_name
            self._draft.rename(final)
            link = self._place / f"{_NEW}.{captures.LATEST}"
            link.symlink_to(final.name)
            own_files.sync(self._place)  # the capture is there for good before the link leads to it
            link.replace(self._place / captures.LATEST)
            own_files.sync(self._place)
        with contextlib.suppress(OSError, Refusal):  # the next run tries again
            self._prune(final.name)
        return captures.read(final)

    def _free_name(self, made: str) -> str:
        time, taken = datetime.fromisoformat(made), captures.names(self._place)
        while f"{time:{captures.TIME}}" in taken:
            time += timedelta(seconds=1)
        return f"{time:{captures.TIME}}"

    def _prune(self, newest: str) -> None:
        rebuild, needed = states.read(self._place), {newest}
        if rebuild and not rebuild.reached(states.STATES[-1]):
            needed.add(rebuild.capture)  # the node comes back from it
        others = [name for name in captures.names(self._place) if name not in needed]
        for name in others[: max(0, len(others) + len(needed) - max(1, self._keep))]:
            old = self._place / f"{_OLD}.{name}"
            (self._place / name).rename(old)  # half of it is never taken for a capture
            shutil.rmtree(old)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise refuse("R020", path=path, detail=error.strerror) from error


def _clear(place: Path) -> None:
    """Remove what is not finished."""
    for path in place.glob(".*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != _LOCK:
            path.unlink()
