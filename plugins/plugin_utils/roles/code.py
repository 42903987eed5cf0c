# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of gpulab's own files each role works with: a new version makes only those roles due whose work it changes.

A role works with its folder, with the plugins that its tasks name and the roles that they include, and with what these
import. What only looks, judges or refuses is left out: its answer is in the plan or in the facts that the receipt
names, or it ends the run. So is what describes a role: what its variables are is in the digest of its settings.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

KINDS = ("modules", "action", "filter", "lookup")
LOOKS = {"gpu_facts", "option_default", "plan", "receipt", "refuse", "software_proof", "verify"}
MESSAGES = ("plugins/module_utils/core/refusal", "plugins/plugin_utils/refusals")
DESCRIBES = ("meta/", "README.md")
NAME = re.compile(r"gpulab\.node\.(\w+)")
FOR_TYPES_ALONE = re.compile(r"^if TYPE_CHECKING:\n(?:[ \t].*\n|\n)*", re.MULTILINE)
IMPORT = re.compile(r"^\s*from ansible_collections\.gpulab\.node\.([\w.]+) import (?:\(([^)]*)\)|(.*))", re.MULTILINE)
IMPORTED = re.compile(r"(\w+)(?: as \w+)?\s*(?:,|#|$)", re.MULTILINE)


class RoleCode:
    """The files of the collection below a directory; a file is named by its path there, and read once."""

    def __init__(self, root: Path) -> None:
        """List the files; none of them is read yet."""
        walks = [walk for top in ("plugins", "roles") for walk in os.walk(root / top)]
        paths = [f"{folder}/{name}" for folder, _folders, names in walks for name in names]
        self._paths = {path[len(str(root)) + 1 :]: path for path in paths}
        self._known: dict[str, tuple[bytes, set[str]]] = {}

    def digest(self, role: str) -> str:
        """Return a digest of the files that a role works with, 16 hexadecimal digits."""
        return self.digest_of(name for name in self.files(role) if not name.startswith(MESSAGES))

    def digest_of(self, files: Iterable[str]) -> str:
        """Return a digest of files."""
        digests = [f"{name} ".encode() + self._read(name)[0] for name in sorted(files)]
        return hashlib.sha256(b"\n".join(digests)).hexdigest()[:16]

    def files(self, role: str) -> set[str]:
        """Return the names of the files that a role works with, and of those that say what it refuses."""
        return self.reached(self._folder(role))

    def reached(self, files: Iterable[str]) -> set[str]:
        """Return the names of files and of all that they need."""
        found, unread = set(), set(files)
        while unread:
            found |= unread
            unread = {needed for name in unread for needed in self._read(name)[1]} - found
        return found

    def _read(self, name: str) -> tuple[bytes, set[str]]:
        """Return a file's digest and the names of the files that it needs."""
        if name not in self._known:
            content = Path(self._paths[name]).read_bytes()
            needed = self._needed(name, content.decode("utf-8", "replace"))
            self._known[name] = (hashlib.sha256(content).digest(), needed)
        return self._known[name]

    def _folder(self, role: str) -> Iterator[str]:
        top = f"roles/{role}/"
        for name in self._paths:
            if name.startswith(top) and not name[len(top) :].startswith(DESCRIBES) and not name.endswith(".pyc"):
                yield name

    def _needed(self, name: str, text: str) -> set[str]:
        if name.startswith("plugins/action/"):  # it may have the node run a module of another name
            run = {f"plugins/modules/{module}.py" for module in NAME.findall(text)}
            return self.imported(text) | run & self._paths.keys()
        if name.endswith(".py"):
            return self.imported(text)
        if "/files/" in name:  # a role lays them down as they are
            return set()
        named = set(NAME.findall(text)) - LOOKS
        plugins = {f"plugins/{kind}/{plugin}.py" for kind in KINDS for plugin in named}
        return plugins & self._paths.keys() | {path for role in named for path in self._folder(role)}

    def imported(self, text: str) -> set[str]:
        """Return what Python code imports; the code of a package itself only where no module has the imported name."""
        found = set()
        for dotted, listed, line in IMPORT.findall(FOR_TYPES_ALONE.sub("", text)):
            place = dotted.replace(".", "/")
            found.add(f"{place}.py")
            for name in IMPORTED.findall(listed or line):
                module = f"{place}/{name}.py"
                found |= {module if module in self._paths else f"{place}/__init__.py", f"{place}/{name}/__init__.py"}
        return found & self._paths.keys()
