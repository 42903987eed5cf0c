# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Python environments that users made: virtual environments (of venv, virtualenv, uv) and conda's, read as files only.

An environment is never asked: its interpreter and its programs belong to a user. What is installed is read from where
the installers record it: *.dist-info (PyPA, "Recording installed projects"), *.egg-info and *.egg-link of setuptools,
and conda-meta. A file of a package counts as unchanged where it has the recorded size and has not changed since the
package was installed, or where its digest is the recorded one.
"""

from __future__ import annotations

import base64
import binascii
import csv
import json
import os
import posixpath
import re
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import unquote

from ansible_collections.gpulab.node.plugins.module_utils.capture import digests, homes
from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.environment_packages import (
    EGG_LINK,
    normalized,
    of_conda,
    record_kind,
)
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import for_people
from ansible_collections.gpulab.node.plugins.module_utils.environments import conda, venv
from ansible_collections.gpulab.node.plugins.module_utils.environments.recorded import Record

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

VENV, UV, CONDA = "venv", "uv", "conda"
SETTINGS, META, PROJECT_LOCK = "pyvenv.cfg", "conda-meta", "uv.lock"
LARGEST = 64 << 20  # bytes of a file that describes packages; the RECORD of the largest has a few MiB
TOGETHER = 10  # seconds within which an installer writes what belongs together
COPIED = "bin/Activate.ps1"  # from Python's own, with its time
TAG = "CACHEDIR.TAG"
_BASIC = frozenset({"bin", "include", "lib", "lib64", "share", SETTINGS, ".gitignore", ".lock", TAG})
_INTERPRETER = re.compile(r"bin/(?:(?:python|pypy)(?:\d(?:\.\d+)?t?)?|\U0001d70bthon)")  # the last is of Python 3.14
_ACTIVATE = re.compile(r"bin/(?:[Aa]ctivate(?:\.\w+)?|activate_this\.py|deactivate\.\w+|pydoc\.bat)")
_SITE = re.compile(r"lib(?:64)?/(?:python|pypy)[\d.]+t?(?:/site-packages)?|include/(?:site/)?python[\d.]+t?")
_STARTUP = re.compile(r"lib(?:64)?/[^/]+/site-packages/(?:_virtualenv\.(?:py|pth)|[^/]+\.virtualenv)")
_EXPORTED = re.compile(r"^\s*export\s+(\w+)", re.MULTILINE)
_OF_ACTIVATE = frozenset({
    "PATH", "PKG_CONFIG_PATH", "PS1", "PYTHONHOME", "SCRIPT_PATH", "TCL_LIBRARY", "TK_LIBRARY", "VIRTUAL_ENV",
    "VIRTUAL_ENV_PROMPT",
})  # fmt: skip
_ACTIVATE_ENDS = re.compile(r"hash -r 2> ?/dev/null(?: \|\| true)?\s*(?:fi\s*)?\Z")


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
class _File:
    """A file as its package's installer recorded it.

    digest is (algorithm, bytes), size in bytes; None where it is not recorded. since is when the package was installed.
    """

    since: float
    digest: tuple[str, bytes] | None = None
    size: int | None = None


@dataclass(frozen=True)
class _Package:
    """A package: its line of a lock, or, where no lock brings it back, what is known of it instead (own)."""

    files: dict[str, _File]
    line: str = ""
    own: dict[str, Any] | None = None

    @property
    def comes_back(self) -> bool:
        """Whether its files come back: an editable install has none but those that say where its source lies."""
        return bool(self.line) or bool(self.own and self.own["editable"])


class Environment:
    """An environment.

    record is {path, kind ("venv", "uv", "conda"), owner (name, or the id as text), python (version, "" where unknown),
    home (where the interpreter of a virtual environment comes from, "" for conda), settings (pyvenv.cfg), project (the
    directory of the uv.lock that a uv environment belongs to, ""), lock (lines for pip; for conda an explicit lock, in
    which those for pip begin with "# pip "), own (packages that no lock brings back: {name, version, path, editable,
    why}), unreadable (files that should describe a package)}. Addresses in it have no secrets.
    """

    def __init__(self, directory: str, kind: str, node: Node, only: frozenset[str] | None = None) -> None:
        """Read what is installed; only: the names of the records of packages, where others do not count."""
        self._node = node
        self._kind = kind
        self._only = only
        self._path = directory
        self._files: dict[str, _File] = {}
        self._unreadable: list[str] = []
        self._seen: dict[str, bool] = {}
        settings = dict(_settings(self._text(SETTINGS) or ""))
        packages = [*self._conda_packages()] if kind == CONDA else []
        by_conda = {name for package in packages for name in package.files}
        by_pip = [*self._pip_packages(by_conda)]
        for package in (*by_pip, *packages):
            self._files.update(package.files if package.comes_back else {})
        self._directories = {above for name in self._files for above in _above(name)}
        python = settings.get("version_info") or settings.get("version") or self._conda_python(kind)
        self.record: dict[str, Any] = {
            "path": directory,
            "kind": kind,
            "owner": _owner(node, self._real("")),
            "python": ".".join(python.split(".")[:3]),
            "home": settings.get("home", ""),
            "settings": settings,
            "project": posixpath.dirname(directory) if kind == UV else "",
            "lock": self._lock(kind, packages, by_pip),
            "own": [package.own for package in (*packages, *by_pip) if package.own],
            "unreadable": self._unreadable,
        }

    def as_made(self) -> Environment:
        """Return an environment of gpulab's as it was made, without what somebody installed into it since."""
        record = self._json(venv.RECORD)
        names = [] if any(records.faults(record, Record)) else record["names"]
        return Environment(self._path, self._kind, self._node, frozenset(map(posixpath.basename, names)))

    def covers(self, path: str) -> bool:
        """Tell whether the lock brings a file or directory back; path is relative to the environment.

        A file that was edited since does not come back, nor does one that no package brought.
        """
        path = posixpath.normpath(path)
        if path not in self._seen:
            self._seen[path] = self._covers(path)
        return self._seen[path]

    def _covers(self, path: str) -> bool:
        directory, name = posixpath.split(path)
        if posixpath.basename(directory) == "__pycache__" and name.endswith(".pyc"):
            source = posixpath.join(posixpath.dirname(directory), name.partition(".")[0] + ".py")
            return self.covers(source)
        if path in self._files:
            return self._unchanged(path, self._files[path])
        if path == "." or path in self._directories:
            return True
        if posixpath.basename(path) == "__pycache__":
            return posixpath.dirname(path) in self._directories
        return self._of_conda(path) if self.record["kind"] == CONDA else self._of_venv(path)

    def _of_venv(self, path: str) -> bool:
        """Tell whether the program that makes a virtual environment makes this."""
        if _INTERPRETER.fullmatch(path):
            return self._is_interpreter(path)
        if _ACTIVATE.fullmatch(path):
            return self._is_activate(path)
        return path in _BASIC or bool(_SITE.fullmatch(path) or _STARTUP.fullmatch(path))

    def _is_interpreter(self, path: str) -> bool:
        """Tell whether this is a link, or a copy of the interpreter that the environment is made with."""
        if self._real(path).is_symlink():
            return True
        names = {posixpath.basename(path), f"python{'.'.join(self.record['python'].split('.')[:2])}"}
        originals = (posixpath.join(self.record["home"], name) for name in names)
        digest = digests.digest(self._real(path), "sha256")
        return digest is not None and digest in {digests.digest(self._node.path(one), "sha256") for one in originals}

    def _is_activate(self, path: str) -> bool:
        """Tell whether an activate script is as it was made; people add variables to these, at the end or anywhere."""
        scripts = [f"bin/{name}" for name in self._names("bin") if _ACTIVATE.fullmatch(f"bin/{name}")]
        times = {name: _changed(self._real(name)) for name in scripts}
        made = [time for name, time in times.items() if name != COPIED]
        if times.get(path, 0) > min(made, default=0) + TOGETHER:
            return False
        if path != "bin/activate":
            return True
        text = self._text(path) or ""
        variables = {name for name in _EXPORTED.findall(text) if not name.startswith("_OLD_")}
        return bool(_ACTIVATE_ENDS.search(text)) and variables <= _OF_ACTIVATE

    def _of_conda(self, path: str) -> bool:
        """Tell whether conda makes this: its own records, but not its settings; its cache of packages."""
        if path.startswith(f"{META}/"):
            return path == f"{META}/history" or (path.endswith(".json") and self._counts(posixpath.basename(path)))
        if path in (META, "envs", "pkgs", TAG):
            return True
        return path.startswith("pkgs/") and self._real("pkgs/urls.txt").is_file()

    def _unchanged(self, path: str, file: _File) -> bool:
        if posixpath.basename(path) == "RECORD":
            return True
        try:
            status = self._real(path).lstat()
        except OSError:
            return False
        regular = stat.S_ISREG(status.st_mode)
        if not (regular or stat.S_ISLNK(status.st_mode)):
            return False
        if regular and file.size not in (None, status.st_size):
            return False
        if file.digest is None:
            return _time(status) <= file.since + TOGETHER  # virtualenv writes programs after RECORD
        return _time(status) <= file.since or digests.digest(self._real(path), file.digest[0]) == file.digest[1]

    def _lock(self, kind: str, packages: list[_Package], by_pip: list[_Package]) -> list[str]:
        lines = sorted((package.line for package in by_pip if package.line), key=str.lower)
        if kind != CONDA:
            return lines
        of_conda = [package.line for package in packages if package.line]
        return [conda.EXPLICIT, *of_conda, *(f"{conda.PIP_LINE}{line}" for line in lines)]

    # conda

    def _conda_packages(self) -> Iterator[_Package]:
        found: dict[str, dict[str, Any]] = {}
        since: dict[str, float] = {}
        for name in self._names(META):
            if not name.endswith(".json") or name.startswith(".") or not self._counts(name):
                continue
            record = self._json(f"{META}/{name}")
            if any(records.faults(record, CondaRecord)):
                self._unreadable.append(f"{META}/{name}")
            else:
                found[record["name"]] = record
                since[record["name"]] = _changed(self._real(f"{META}/{name}"))
        for one in conda.in_order(list(found.values())):
            url, name, version = (str(one.get(key) or "") for key in ("url", "name", "version"))
            digest = one.get("sha256") or one.get("md5")
            line = for_people(f"{url}#{digest}" if digest else url)
            if not url.startswith(("https://", "http://", "oci://", "s3://")):
                own = _own(name, version, url, "it was not downloaded, or nobody recorded from where", editable=False)
                yield _Package(dict(_conda_files(one, since[name])), own=own)
            else:
                yield _Package(dict(_conda_files(one, since[name])), line)

    def _conda_python(self, kind: str) -> str:
        names = self._names(META) if kind == CONDA else []
        return of_conda(names)["python"].version if "python" in of_conda(names) else ""

    # pip, uv, setuptools

    def _pip_packages(self, by_conda: set[str]) -> Iterator[_Package]:
        for site in self._sites():
            for name in self._names(site):
                kind, place = record_kind(name), posixpath.join(site, name)
                if not kind or not self._counts(name):
                    continue
                if f"{place}/METADATA" in by_conda or f"{place}/PKG-INFO" in by_conda:
                    continue
                package = self._egg_link(place) if kind == EGG_LINK else self._pip_package(site, place)
                if package is None:
                    self._unreadable.append(place)
                else:
                    yield package

    def _counts(self, name: str) -> bool:
        return self._only is None or name in self._only

    def _sites(self) -> Iterator[str]:
        for lib in ("lib", "lib64"):
            if not self._real(lib).is_symlink():
                for name in self._names(lib):
                    site = f"{lib}/{name}/site-packages"
                    if _SITE.fullmatch(site) and self._real(site).is_dir():
                        yield site

    def _egg_link(self, place: str) -> _Package | None:
        """Return a package of ``setup.py develop``; its source has the rest."""
        source = (self._text(place) or "").partition("\n")[0].strip()
        name = posixpath.basename(place)[: -len(".egg-link")]
        files = {place: _File(_changed(self._real(place)))}
        return _Package(files, own=_own(name, "", source, "its source lies there", editable=True)) if source else None

    def _pip_package(self, site: str, place: str) -> _Package | None:
        described = self._text(f"{place}/METADATA") or self._text(f"{place}/PKG-INFO") or self._text(place)
        headers = (described or "").partition("\n\n")[0]
        found = [re.search(rf"^{field}:\s*(\S+)\s*$", headers, re.MULTILINE) for field in ("Name", "Version")]
        if not all(found):
            return None
        name, version = (str(match[1]) for match in found if match)
        files = dict(self._recorded(site, place))
        if "direct_url.json" not in self._names(place):
            return _Package(files, f"{normalized(name)}=={version}")
        source = self._json(f"{place}/direct_url.json")
        if any(records.faults(source, Direct)):
            return None
        url = source["url"]
        if url.startswith("file:"):
            editable = source.get("dir_info", {}).get("editable", False)
            why = "its source lies there" if editable else "it was installed from there"
            path = unquote(re.sub(r"^file:(?://)?", "", url))
            return _Package(files, own=_own(name, version, path, why, editable=editable))
        return _Package(files, for_people(f"{normalized(name)} @ {_address(url, source)}"))

    def _recorded(self, site: str, place: str) -> Iterator[tuple[str, _File]]:
        """Yield what belongs to a package of pip; entries that lead out of the environment are left out."""
        record, older = self._text(f"{place}/RECORD"), self._text(f"{place}/installed-files.txt")
        if record is not None:
            since = _changed(self._real(f"{place}/RECORD"))
            for row in _rows(record):
                path = self._inside(site, row[0]) if row else None
                if path:
                    yield path, _File(since, *_digest_and_size(*row[1:3]))
        elif older is not None:  # paths relative to the egg-info
            since = _changed(self._real(f"{place}/installed-files.txt"))
            for line in [*older.splitlines(), "installed-files.txt"]:
                path = self._inside(place, line)
                if path:
                    yield path, _File(since)

    def _inside(self, start: str, path: str) -> str | None:
        found = posixpath.normpath(posixpath.join(self._path, start, path))
        return found[len(self._path) + 1 :] if found.startswith(f"{self._path}/") else None

    # files

    def _real(self, path: str) -> Path:
        return self._node.path(posixpath.join(self._path, path))

    def _names(self, path: str) -> list[str]:
        return self._node.names(posixpath.join(self._path, path))

    def _text(self, path: str) -> str | None:
        """Return the text of a regular file; None where it cannot be read."""
        try:
            with os.fdopen(digests.opened(self._real(path)), "rb") as stream:
                data = stream.read(LARGEST + 1)
        except OSError:
            return None
        return data.decode("utf-8", "surrogateescape") if len(data) <= LARGEST else None

    def _json(self, path: str) -> Any:
        try:
            return json.loads(self._text(path) or "")
        except (ValueError, RecursionError):
            return None


def at(directory: str, names: Collection[str], node: Node | None = None) -> Environment | None:
    """Return the environment that a directory is; None where it is none.

    directory is an absolute path on the node, names what lies in it.
    """
    node = node or Node()
    if META in names and any(name == "history" or name.endswith(".json") for name in node.names(f"{directory}/{META}")):
        return Environment(directory, CONDA, node)
    if SETTINGS not in names or "bin" not in names or node.data(f"{directory}/{SETTINGS}") is None:
        return None
    of_uv = posixpath.basename(directory) == ".venv" and node.exists(f"{posixpath.dirname(directory)}/{PROJECT_LOCK}")
    return Environment(directory, UV if of_uv else VENV, node)


def _settings(text: str) -> Iterator[tuple[str, str]]:
    """Yield the settings of pyvenv.cfg, names in small letters."""
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            yield name.strip().lower(), for_people(value.strip())


def _conda_files(record: dict[str, Any], since: float) -> Iterator[tuple[str, _File]]:
    """Yield the files of a record in conda-meta; where a prefix was put into a file, its size is not recorded."""
    for name in record.get("files", ()):
        yield name, _File(since)
    for one in record.get("paths_data", {}).get("paths", ()):
        original, here = one.get("sha256"), one.get("sha256_in_prefix")
        try:
            digest = ("sha256", bytes.fromhex(here or original)) if here or original else None
        except ValueError:
            digest = None
        replaced = here not in (None, original) or one.get("prefix_placeholder")
        size = None if replaced or one.get("path_type") != "hardlink" else one.get("size_in_bytes")
        yield one["_path"], _File(since, digest, size)


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


def _own(name: str, version: str, path: str, why: str, *, editable: bool) -> dict[str, Any]:
    return {
        "name": normalized(name),
        "version": version,
        "path": for_people(path),
        "editable": editable,
        "why": why,
    }


def _above(path: str) -> Iterator[str]:
    while "/" in path:
        path = posixpath.dirname(path)
        yield path


def _owner(node: Node, path: Path) -> str:
    try:
        return homes.user(node, path.lstat().st_uid)
    except OSError:
        return ""


def _time(status: os.stat_result) -> float:
    """Return when a file changed; each further hard link of it, as by uv and conda, changes its ctime."""
    return status.st_mtime if status.st_nlink > 1 and stat.S_ISREG(status.st_mode) else status.st_ctime


def _changed(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0
