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

import posixpath
import re
import stat
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.capture import digests, homes
from ansible_collections.gpulab.node.plugins.module_utils.capture.environment_records import (
    META,
    SITE,
    Directory,
    Packages,
)
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.environments import Environment
from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.environment_packages import (
    of_conda,
)
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import for_people
from ansible_collections.gpulab.node.plugins.module_utils.environments import conda, venv
from ansible_collections.gpulab.node.plugins.module_utils.environments.recorded import Record

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.capture.environment_records import File

VENV, UV, CONDA = "venv", "uv", "conda"
SETTINGS, PROJECT_LOCK = "pyvenv.cfg", "uv.lock"
TOGETHER = 10  # seconds within which an installer writes what belongs together
COPIED = "bin/Activate.ps1"  # from Python's own, with its time
TAG = "CACHEDIR.TAG"
_BASIC = frozenset({"bin", "include", "lib", "lib64", "share", SETTINGS, ".gitignore", ".lock", TAG})
_INTERPRETER = re.compile(r"bin/(?:(?:python|pypy)(?:\d(?:\.\d+)?t?)?|\U0001d70bthon)")  # the last is of Python 3.14
_ACTIVATE = re.compile(r"bin/(?:[Aa]ctivate(?:\.\w+)?|activate_this\.py|deactivate\.\w+|pydoc\.bat)")
_STARTUP = re.compile(r"lib(?:64)?/[^/]+/site-packages/(?:_virtualenv\.(?:py|pth)|[^/]+\.virtualenv)")
_EXPORTED = re.compile(r"^\s*export\s+(\w+)", re.MULTILINE)
_OF_ACTIVATE = frozenset({
    "PATH", "PKG_CONFIG_PATH", "PS1", "PYTHONHOME", "SCRIPT_PATH", "TCL_LIBRARY", "TK_LIBRARY", "VIRTUAL_ENV",
    "VIRTUAL_ENV_PROMPT",
})  # fmt: skip
_ACTIVATE_ENDS = re.compile(r"hash -r 2> ?/dev/null(?: \|\| true)?\s*(?:fi\s*)?\Z")


class OnDisk:
    """An environment as it is on the disk; record is what its capture says."""

    def __init__(self, directory: str, kind: str, node: Node, only: frozenset[str] | None = None) -> None:
        """Read what is installed; only: the names of the records of packages, where others do not count."""
        self._node = node
        self._kind, self._only = kind, only
        self._at = Directory(node, directory)
        self._seen: dict[str, bool] = {}
        settings = dict(_settings(self._at.text(SETTINGS) or ""))
        packages = Packages(self._at, only, has_conda=kind == CONDA)
        every = (*packages.by_conda, *packages.by_pip)
        self._files = {
            name: file
            for package in (*packages.by_pip, *packages.by_conda)
            if package.comes_back
            for name, file in package.files.items()
        }
        self._directories = {above for name in self._files for above in _above(name)}
        python = settings.get("version_info") or settings.get("version") or self._conda_python(kind)
        self.record = Environment(
            path=directory,
            kind=kind,
            owner=_owner(node, self._at.real("")),
            python=".".join(python.split(".")[:3]),
            home=settings.get("home", ""),
            settings=settings,
            project=posixpath.dirname(directory) if kind == UV else "",
            lock=_lock(kind, packages),
            own=[package.own for package in every if package.own],
            unreadable=packages.unreadable,
        )

    def as_made(self) -> OnDisk:
        """Return an environment of gpulab's as it was made, without what somebody installed into it since."""
        record = self._at.json(venv.RECORD)
        names = [] if any(records.faults(record, Record)) else record["names"]
        return OnDisk(self._at.path, self._kind, self._node, frozenset(map(posixpath.basename, names)))

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
        return self._of_conda(path) if self.record.kind == CONDA else self._of_venv(path)

    def _of_venv(self, path: str) -> bool:
        """Tell whether the program that makes a virtual environment makes this."""
        if _INTERPRETER.fullmatch(path):
            return self._is_interpreter(path)
        if _ACTIVATE.fullmatch(path):
            return self._is_activate(path)
        return path in _BASIC or bool(SITE.fullmatch(path) or _STARTUP.fullmatch(path))

    def _is_interpreter(self, path: str) -> bool:
        """Tell whether this is a link, or a copy of the interpreter that the environment is made with."""
        if self._at.real(path).is_symlink():
            return True
        names = {posixpath.basename(path), f"python{'.'.join(self.record.python.split('.')[:2])}"}
        originals = (posixpath.join(self.record.home, name) for name in names)
        digest = digests.digest(self._at.real(path), "sha256")
        return digest is not None and digest in {digests.digest(self._node.path(one), "sha256") for one in originals}

    def _is_activate(self, path: str) -> bool:
        """Tell whether an activate script is as it was made; people add variables to these, at the end or anywhere."""
        scripts = [f"bin/{name}" for name in self._at.names("bin") if _ACTIVATE.fullmatch(f"bin/{name}")]
        times = {name: self._at.changed(name) for name in scripts}
        made = [time for name, time in times.items() if name != COPIED]
        if times.get(path, 0) > min(made, default=0) + TOGETHER:
            return False
        if path != "bin/activate":
            return True
        text = self._at.text(path) or ""
        variables = {name for name in _EXPORTED.findall(text) if not name.startswith("_OLD_")}
        return bool(_ACTIVATE_ENDS.search(text)) and variables <= _OF_ACTIVATE

    def _of_conda(self, path: str) -> bool:
        """Tell whether conda makes this: its own records, but not its settings; its cache of packages."""
        if path.startswith(f"{META}/"):
            return path == f"{META}/history" or (
                path.endswith(".json") and (self._only is None or posixpath.basename(path) in self._only)
            )
        if path in (META, "envs", "pkgs", TAG):
            return True
        return path.startswith("pkgs/") and self._at.real("pkgs/urls.txt").is_file()

    def _unchanged(self, path: str, file: File) -> bool:
        if posixpath.basename(path) == "RECORD":
            return True
        try:
            status = self._at.real(path).lstat()
        except OSError:
            return False
        regular = stat.S_ISREG(status.st_mode)
        if not (regular or stat.S_ISLNK(status.st_mode)):
            return False
        if regular and file.size not in (None, status.st_size):
            return False
        if file.digest is None:
            return _time(status) <= file.since + TOGETHER  # virtualenv writes programs after RECORD
        return _time(status) <= file.since or digests.digest(self._at.real(path), file.digest[0]) == file.digest[1]

    def _conda_python(self, kind: str) -> str:
        names = self._at.names(META) if kind == CONDA else []
        return of_conda(names)["python"].version if "python" in of_conda(names) else ""


def at(directory: str, names: Collection[str], node: Node | None = None) -> OnDisk | None:
    """Return the environment that a directory is; None where it is none.

    directory is an absolute path on the node, names what lies in it.
    """
    node = node or Node()
    if META in names and any(name == "history" or name.endswith(".json") for name in node.names(f"{directory}/{META}")):
        return OnDisk(directory, CONDA, node)
    if SETTINGS not in names or "bin" not in names or node.data(f"{directory}/{SETTINGS}") is None:
        return None
    of_uv = posixpath.basename(directory) == ".venv" and node.exists(f"{posixpath.dirname(directory)}/{PROJECT_LOCK}")
    return OnDisk(directory, UV if of_uv else VENV, node)


def _lock(kind: str, packages: Packages) -> list[str]:
    lines = sorted((package.line for package in packages.by_pip if package.line), key=str.lower)
    if kind != CONDA:
        return lines
    explicit = [package.line for package in packages.by_conda if package.line]
    return [conda.EXPLICIT, *explicit, *(f"{conda.PIP_LINE}{line}" for line in lines)]


def _settings(text: str) -> Iterator[tuple[str, str]]:
    """Yield the settings of pyvenv.cfg, names in small letters."""
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            yield name.strip().lower(), for_people(value.strip())


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
