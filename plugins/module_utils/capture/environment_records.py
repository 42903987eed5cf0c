# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is installed in a Python environment, as the installers have recorded it. No program of it is run.

That is *.dist-info (PyPA, "Recording installed projects"), *.egg-info and *.egg-link of setuptools, and conda-meta.
"""

from __future__ import annotations

import base64
import binascii
import csv
import json
import os
import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import unquote

from ansible_collections.gpulab.node.plugins.module_utils.capture import digests
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.environments import OwnPackage
from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.environment_packages import (
    EGG_LINK,
    normalized,
    record_kind,
)
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import for_people
from ansible_collections.gpulab.node.plugins.module_utils.environments import conda

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

META = "conda-meta"
LARGEST = 64 << 20  # bytes of a file that describes packages; the RECORD of the largest has a few MiB
SITE = re.compile(r"lib(?:64)?/(?:python|pypy)[\d.]+t?(?:/site-packages)?|include/(?:site/)?python[\d.]+t?")


class _Digests(TypedDict, total=False):
    sha256: str | None
    sha256_in_prefix: str | None


class _Path(_Digests):
    _path: str


class _Paths(TypedDict, total=False):
    paths: list[_Path]


class _OfConda(TypedDict, total=False):
    url: str | None
    md5: str | None
    sha256: str | None
    depends: list[str]
    files: list[str]
    paths_data: _Paths


class CondaRecord(_OfConda):
    """What conda records of a package that it installed."""

    name: str
    version: str


class _Directory(TypedDict, total=False):
    editable: bool


class _Repository(TypedDict):
    vcs: str
    commit_id: str


class _Archive(TypedDict, total=False):
    hash: str | None
    hashes: dict[str, str]


class _Origin(TypedDict, total=False):
    subdirectory: str
    dir_info: _Directory
    vcs_info: _Repository
    archive_info: _Archive


class Direct(_Origin):
    """Where a package was installed from: PyPA, "Recording the direct URL origin"."""

    url: str


@dataclass(frozen=True)
class File:
    """A file as its package's installer recorded it.

    digest is (algorithm, bytes), size in bytes; None where it is not recorded. since is when the package was installed.
    """

    since: float
    digest: tuple[str, bytes] | None = None
    size: int | None = None


@dataclass(frozen=True)
class Package:
    """A package: its line of a lock, or, where no lock brings it back, what is known of it instead (own)."""

    files: dict[str, File]
    line: str = ""
    own: OwnPackage | None = None

    @property
    def comes_back(self) -> bool:
        """Whether its files come back: an editable install has none but those that say where its source lies."""
        return bool(self.line) or bool(self.own and self.own.editable)


class Directory:
    """The directory of an environment; paths are relative to it."""

    def __init__(self, node: Node, path: str) -> None:
        """Read nothing yet."""
        self._node, self.path = node, path

    def real(self, path: str) -> Path:
        """Return where a path is."""
        return self._node.path(posixpath.join(self.path, path))

    def names(self, path: str) -> list[str]:
        """List a directory."""
        return self._node.names(posixpath.join(self.path, path))

    def text(self, path: str) -> str | None:
        """Return the text of a regular file; None where it cannot be read."""
        try:
            with os.fdopen(digests.opened(self.real(path)), "rb") as stream:
                data = stream.read(LARGEST + 1)
        except OSError:
            return None
        return data.decode("utf-8", "surrogateescape") if len(data) <= LARGEST else None

    def json(self, path: str) -> Any:
        """Return what a file in JSON holds; None where it holds none."""
        try:
            return json.loads(self.text(path) or "")
        except (ValueError, RecursionError):
            return None

    def changed(self, path: str) -> float:
        """Return when a file was changed; 0 where it is not there."""
        try:
            return self.real(path).lstat().st_mtime
        except OSError:
            return 0.0


class Packages:
    """The packages of an environment: by_conda, and by_pip, uv and setuptools.

    only are the names of the records that count, None where all do. unreadable are files that should describe a
    package.
    """

    def __init__(self, directory: Directory, only: frozenset[str] | None, *, has_conda: bool) -> None:
        """Read them."""
        self._at = directory
        self._only = only
        self.unreadable: list[str] = []
        self.by_conda = [*self._conda_packages()] if has_conda else []
        self.by_pip = [*self._pip_packages({name for package in self.by_conda for name in package.files})]

    def _conda_packages(self) -> Iterator[Package]:
        found: dict[str, dict[str, Any]] = {}
        since: dict[str, float] = {}
        for name in self._at.names(META):
            if not name.endswith(".json") or name.startswith(".") or not self._counts(name):
                continue
            record = self._at.json(f"{META}/{name}")
            if any(records.faults(record, CondaRecord)):
                self.unreadable.append(f"{META}/{name}")
            else:
                found[record["name"]] = record
                since[record["name"]] = self._at.changed(f"{META}/{name}")
        for one in conda.in_order(list(found.values())):
            url, name, version = (str(one.get(key) or "") for key in ("url", "name", "version"))
            digest = one.get("sha256") or one.get("md5")
            line = for_people(f"{url}#{digest}" if digest else url)
            if not url.startswith(("https://", "http://", "oci://", "s3://")):
                own = _own(name, version, url, "it was not downloaded, or nobody recorded from where", editable=False)
                yield Package(dict(_conda_files(one, since[name])), own=own)
            else:
                yield Package(dict(_conda_files(one, since[name])), line)

    def _pip_packages(self, by_conda: set[str]) -> Iterator[Package]:
        for site in self._sites():
            for name in self._at.names(site):
                kind, place = record_kind(name), posixpath.join(site, name)
                if not kind or not self._counts(name):
                    continue
                if f"{place}/METADATA" in by_conda or f"{place}/PKG-INFO" in by_conda:
                    continue
                package = self._egg_link(place) if kind == EGG_LINK else self._pip_package(site, place)
                if package is None:
                    self.unreadable.append(place)
                else:
                    yield package

    def _counts(self, name: str) -> bool:
        return self._only is None or name in self._only

    def _sites(self) -> Iterator[str]:
        for lib in ("lib", "lib64"):
            if not self._at.real(lib).is_symlink():
                for name in self._at.names(lib):
                    site = f"{lib}/{name}/site-packages"
                    if SITE.fullmatch(site) and self._at.real(site).is_dir():
                        yield site

    def _egg_link(self, place: str) -> Package | None:
        """Return a package of ``setup.py develop``; its source has the rest."""
        source = (self._at.text(place) or "").partition("\n")[0].strip()
        name = posixpath.basename(place)[: -len(".egg-link")]
        files = {place: File(self._at.changed(place))}
        return Package(files, own=_own(name, "", source, "its source lies there", editable=True)) if source else None

    def _pip_package(self, site: str, place: str) -> Package | None:
        described = self._at.text(f"{place}/METADATA") or self._at.text(f"{place}/PKG-INFO") or self._at.text(place)
        headers = (described or "").partition("\n\n")[0]
        found = [re.search(rf"^{field}:\s*(\S+)\s*$", headers, re.MULTILINE) for field in ("Name", "Version")]
        if not all(found):
            return None
        name, version = (str(match[1]) for match in found if match)
        files = dict(self._recorded(site, place))
        if "direct_url.json" not in self._at.names(place):
            return Package(files, f"{normalized(name)}=={version}")
        source = self._at.json(f"{place}/direct_url.json")
        if any(records.faults(source, Direct)):
            return None
        url = source["url"]
        if url.startswith("file:"):
            editable = source.get("dir_info", {}).get("editable", False)
            why = "its source lies there" if editable else "it was installed from there"
            path = unquote(re.sub(r"^file:(?://)?", "", url))
            return Package(files, own=_own(name, version, path, why, editable=editable))
        return Package(files, for_people(f"{normalized(name)} @ {_address(url, source)}"))

    def _recorded(self, site: str, place: str) -> Iterator[tuple[str, File]]:
        """Yield what belongs to a package of pip; entries that lead out of the environment are left out."""
        record, older = self._at.text(f"{place}/RECORD"), self._at.text(f"{place}/installed-files.txt")
        if record is not None:
            since = self._at.changed(f"{place}/RECORD")
            for row in _rows(record):
                path = self._inside(site, row[0]) if row else None
                if path:
                    yield path, File(since, *_digest_and_size(*row[1:3]))
        elif older is not None:  # paths relative to the egg-info
            since = self._at.changed(f"{place}/installed-files.txt")
            for line in [*older.splitlines(), "installed-files.txt"]:
                path = self._inside(place, line)
                if path:
                    yield path, File(since)

    def _inside(self, start: str, path: str) -> str | None:
        found = posixpath.normpath(posixpath.join(self._at.path, start, path))
        return found[len(self._at.path) + 1 :] if found.startswith(f"{self._at.path}/") else None


def _conda_files(record: dict[str, Any], since: float) -> Iterator[tuple[str, File]]:
    """Yield the files of a record in conda-meta; where a prefix was put into a file, its size is not recorded."""
    for name in record.get("files", ()):
        yield name, File(since)
    for one in record.get("paths_data", {}).get("paths", ()):
        original, here = one.get("sha256"), one.get("sha256_in_prefix")
        try:
            digest = ("sha256", bytes.fromhex(here or original)) if here or original else None
        except ValueError:
            digest = None
        replaced = here not in (None, original) or one.get("prefix_placeholder")
        size = None if replaced or one.get("path_type") != "hardlink" else one.get("size_in_bytes")
        yield one["_path"], File(since, digest, size)


def _rows(record: str) -> list[list[str]]:
    """Return the rows of RECORD; none where it is damaged."""
    try:
        return list(csv.reader(record.splitlines()))
    except csv.Error:
        return []


def _digest_and_size(digest: str = "", size: str = "") -> tuple[tuple[str, bytes] | None, int | None]:
    """Read a digest of RECORD, as sha256=WORD in Base64 for addresses without its end, and a size."""
    algorithm, _equals, word = digest.partition("=")
    try:
        wanted = (algorithm, base64.urlsafe_b64decode(word + "=" * (-len(word) % 4))) if word else None
    except (binascii.Error, ValueError):
        wanted = None
    return wanted, int(size) if size.isdecimal() else None


def _address(url: str, source: dict[str, Any]) -> str:
    """Return the address of a package that was installed by one, as pip freeze writes it."""
    repository, archive = source.get("vcs_info"), source.get("archive_info", {})
    if repository:
        url = f"{repository['vcs']}+{url}@{repository['commit_id']}"
    digest = archive.get("hash") or next((f"{name}={value}" for name, value in archive.get("hashes", {}).items()), "")
    parts = [digest] if digest else []
    parts += [f"subdirectory={source['subdirectory']}"] if source.get("subdirectory") else []
    return f"{url}#{'&'.join(parts)}" if parts else url


def _own(name: str, version: str, path: str, why: str, *, editable: bool) -> OwnPackage:
    return OwnPackage(normalized(name), version, for_people(path), editable, why)
