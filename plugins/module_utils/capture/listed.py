# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What programs that list their files put on a node: CUDA of wheels, a driver from a .run file, DKMS's modules.

A file comes back where the list has it and nobody has edited it since; people copy libraries into a toolkit.
"""

from __future__ import annotations

import posixpath
import re
import stat
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.cuda import wheels
from ansible_collections.gpulab.node.plugins.module_utils.driver import runfile
from ansible_collections.gpulab.node.plugins.module_utils.facts.dkms import DKMS

if TYPE_CHECKING:
    import os

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

_EXTRA = re.compile(r"/usr/lib/modules/[^/]+/extra/")


class Toolkits:
    """The CUDA toolkits of a node that have gpulab's record."""

    def __init__(self, node: Node) -> None:
        """Read the lists of their files."""
        self._node = node
        self._parent = node.path(str(wheels.PARENT))
        self._brought = {
            record.parent: wheels.brought(record.parent) for record in self._parent.glob(f"cuda-*/{wheels.RECORD}")
        }
        self._beginnings = tuple(f"{wheels.PARENT}/{prefix.name}" for prefix in self._brought)
        self._directories = {above for own in self._brought.values() for file in own for above in file.parents}

    def covers(self, path: str, status: os.stat_result) -> bool:
        """Tell whether a path is of a toolkit, and as its wheel has it."""
        if not path.startswith(self._beginnings):
            return False
        place = self._node.path(path)
        prefix = next((prefix for prefix in self._brought if prefix in (place, *place.parents)), None)
        if prefix is None:
            return False
        if stat.S_ISDIR(status.st_mode):
            return place == prefix or place in self._directories or prefix / wheels.METADATA in (place, *place.parents)
        own = self._brought[prefix]
        if place in own and stat.S_ISREG(status.st_mode):
            made = (prefix / wheels.RECORD).lstat().st_mtime  # written when all was there
            return status.st_ctime <= made or wheels.is_as_brought(place, own[place])
        return wheels.is_of(place, prefix, own)


class BuiltModules:
    """The kernel modules that DKMS has built and put beside those of others, as it does on RHEL."""

    def __init__(self, node: Node) -> None:
        """Read DKMS's own copies of them."""
        self._names = {file.name for file in node.path(DKMS).glob("*/*/*/*/module/*.ko*")}

    def covers(self, path: str, status: os.stat_result) -> bool:
        """Tell whether a path is such a module."""
        return bool(_EXTRA.match(path)) and stat.S_ISREG(status.st_mode) and posixpath.basename(path) in self._names


class Runfile:
    """The driver of a node that gpulab installed from a .run file."""

    def __init__(self, node: Node) -> None:
        """Read the list of its files."""
        self._files: set[str] = set()
        log = node.path(runfile.BACKUP)
        if node.exists(str(runfile.ROOT / runfile.RECORD)) and log.is_file():
            listed = runfile.installed_files(node.text(runfile.BACKUP))
            self._files = {
                posixpath.join(node.resolve(posixpath.dirname(path)), posixpath.basename(path)) for path in listed
            }
            self._since = log.lstat().st_mtime

    def covers(self, path: str, status: os.stat_result) -> bool:
        """Tell whether a file is the driver's, and nobody has edited it since; its installer wrote the list last."""
        return path in self._files and (stat.S_ISLNK(status.st_mode) or status.st_mtime <= self._since)
