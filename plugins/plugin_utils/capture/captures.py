# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The captures of a host on the controller, as they are read: each whole and unchanged, or refused.

<directory>/<host>/<UTC>/   manifest.json, SHA256SUMS of it and of the archive, a signature of these, secrets.vault or
                            secrets.age, files/
<directory>/<host>/latest   a link to one of them
A name that begins with a dot is a capture that is being written or removed.
"""

from __future__ import annotations

import hashlib
import re
import stat
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.plugin_utils.capture import manifest as manifests
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import signature
from ansible_collections.gpulab.node.plugins.plugin_utils.capture.secrets import Age, Vault
from ansible_collections.gpulab.node.plugins.plugin_utils.core.host_file import file_name
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.secrets import Cipher

LATEST, MANIFEST, SUMS, FILES = "latest", "manifest.json", "SHA256SUMS", "files"
TIME = "%Y%m%dT%H%M%SZ"  # the name of a capture
_NAME = re.compile(r"\d{8}T\d{6}Z")
ARCHIVES = (Vault.name, Age.name)


@dataclass(frozen=True)
class Capture:
    """A capture that is whole.

    document is its manifest as it was written, archive the file with the secrets, and sums has the SHA-256 of both.

    Others may change its files at any time, so what is read of them is compared each time.
    """

    path: Path
    document: dict[str, Any]
    archive: Path
    sums: dict[str, str]
    is_signed: bool = True

    @cached_property
    def manifest(self) -> manifests.Manifest:
        """What the capture holds."""
        return manifests.typed(self.document)

    def content(self, path: str) -> Path:
        """Return where the content of a file of the node lies."""
        return self.path / FILES / path.lstrip("/")

    def data(self, path: str) -> bytes:
        """Return the content of a file of the node that is not secret. Raises Refusal R006."""
        return self._read(self.content(path), self._contents[path])

    @cached_property
    def _contents(self) -> dict[str, str]:
        return {entry["path"]: entry["sha256"] for entry in filter(manifests.has_content, self.manifest.files)}

    def _read(self, file: Path, sha256: str) -> bytes:
        try:
            data = file.read_bytes()
        except OSError as error:
            raise refuse("R006", path=self.path, detail=error.strerror) from error
        if hashlib.sha256(data).hexdigest() != sha256:
            raise refuse("R006", path=self.path, detail=f"{shown(file, self.path)} was changed")
        return data

    def verify(self) -> None:
        """Read every file. Raises Refusal R006 where one is missing, has another content, or is not of the capture."""
        sums = {self.path / name: sha256 for name, sha256 in self.sums.items()}
        for entry in filter(manifests.has_content, self.manifest.files):
            sums[self.content(entry["path"])] = entry["sha256"]
        found = sha256_sums(self.path)
        for path in sorted({*sums, *found} - {self.path / SUMS, self.path / signature.NAME}):
            if sums.get(path) != found.get(path):
                fault = "is missing" if path not in found else "was changed" if path in sums else "is not a part of it"
                raise refuse("R006", path=self.path, detail=f"{shown(path, self.path)} {fault}")

    def secrets(self, cipher: Cipher) -> dict[str, bytes]:
        """Return the contents of the secret files, by path. Raises Refusal R006."""
        files = cipher.unpack(self._read(self.archive, self.sums[self.archive.name]), self.archive)
        if files.keys() != manifests.secret_paths(self.manifest.files):
            raise refuse("R006", path=self.path, detail=f"{self.archive.name} does not hold what the manifest names")
        return files


def read(path: Path, name: str | None = None, *, unsigned: str | None = None) -> Capture:
    """Return the capture in a directory, the signature of which is looked at before anything else.

    name is that of the capture, where the directory has another one yet; unsigned is the one that is taken without a
    signature. Raises Refusal R006, R085 to R087, and R018 where its schema is another one.
    """
    try:
        told = (path / SUMS).read_bytes()
        is_signed = signature.is_signed(path, told, name or path.name, unsigned)
        lines = told.decode("ascii").splitlines()
        sums = {name: sha256 for sha256, _space, name in (line.partition("  ") for line in lines)}
        data = (path / MANIFEST).read_bytes()
    except (OSError, ValueError) as error:
        raise refuse("R006", path=path, detail=error) from error
    archives = [name for name in ARCHIVES if name in sums]
    if len(sums) != len((MANIFEST, *archives)) or len(archives) != 1:
        raise refuse("R006", path=path, detail=f"{SUMS} does not name {MANIFEST} and one archive of secrets")
    if hashlib.sha256(data).hexdigest() != sums.get(MANIFEST):
        raise refuse("R006", path=path, detail=f"{MANIFEST} was changed")
    return Capture(path, manifests.read(data, path), path / archives[0], sums, is_signed)


def place(directory: Path, host: str) -> Path:
    """Return where the captures of a host are."""
    return directory / file_name(host)


def names(of_host: Path) -> list[str]:
    """Return the names of a host's captures, the oldest first."""
    if not of_host.is_dir():
        return []
    return sorted(one.name for one in of_host.iterdir() if _NAME.fullmatch(one.name))


def latest(of_host: Path, unsigned: str | None = None) -> Capture | None:
    """Return the newest capture of a host, None where there is none. Raises Refusal as read does."""
    name = latest_name(of_host)
    return read(of_host / name, unsigned=unsigned) if name else None


def latest_name(of_host: Path) -> str | None:
    """Return the name of the newest capture of a host, None where there is none."""
    link = of_host / LATEST
    return link.readlink().name if link.is_symlink() else None


def named(of_host: Path, host: str, name: str | None, unsigned: str | None = None) -> Capture:
    """Return the capture with this name, or the newest. Raises Refusal R001, and as read does."""
    found = None
    if name is None:
        found = latest(of_host, unsigned)
    elif name in names(of_host):
        found = read(of_host / name, unsigned=unsigned)
    if found is None:
        raise refuse("R001", host=host, what=f"capture {name}" if name else "capture", path=of_host)
    return found


def tree(directory: Path) -> Iterator[Path]:
    """Yield each file and directory at and below a directory. Raises Refusal R006 for anything else, and OSError."""
    left = [directory]
    while left:
        path = left.pop()
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            left += path.iterdir()
        elif not stat.S_ISREG(mode):
            raise refuse("R006", path=directory, detail=f"{shown(path, directory)} is neither a file nor a directory")
        yield path


def sha256_sums(directory: Path) -> dict[Path, str]:
    """Return the SHA-256 of each file below a directory. Raises Refusal R006 where one cannot be read."""
    sums = {}
    try:
        for path in tree(directory):
            if not path.is_dir():
                with path.open("rb") as stream:
                    sums[path] = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise refuse("R006", path=directory, detail=error) from error
    return sums


def shown(path: Path, directory: Path) -> str:
    """Return a path below a directory in ASCII."""
    return ascii(str(path.relative_to(directory)))
