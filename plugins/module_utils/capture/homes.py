# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The accounts of a node and their homes, none of which is looked into before it is known to lie on a local disk.

A home may be on a server that does not answer, and whoever looks at a path of it then waits for ever.
"""

from __future__ import annotations

import posixpath
from functools import cache
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import account_files
from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import LOCAL, Mount, holding, mounts

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.account_files import User
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

NO_LOGIN = ("/nologin", "/false", "/sync")
LINGER = "/var/lib/systemd/linger"
_MOST_LINKS = 40  # as in the kernel


def accounts(node: Node) -> list[User]:
    """Return the local accounts."""
    return account_files.users(node.text(account_files.PASSWD))


def of_people(node: Node) -> list[str]:
    """Return the homes of those who can log in, by where they lie."""
    places = Places(node)
    found = (places.followed(one.home) for one in accounts(node) if one.home and not one.shell.endswith(NO_LOGIN))
    return [home for home in found if home != "/"]


def user(node: Node, uid: int) -> str:
    """Return the name of a local user; the number where there is none. A directory service may not answer."""
    return _users(node).get(uid, str(uid))


def group(node: Node, gid: int) -> str:
    """Return the name of a local group; the number where there is none."""
    return _groups(node).get(gid, str(gid))


@cache
def _users(node: Node) -> dict[int, str]:
    return {one.uid: one.name for one in reversed(accounts(node))}


@cache
def _groups(node: Node) -> dict[int, str]:
    return {one.gid: one.name for one in reversed(account_files.groups(node.text(account_files.GROUP)))}


class Places:
    """Which file system a path is on, without touching one that may not answer."""

    def __init__(self, node: Node) -> None:
        """Read the table of mounts."""
        self._node = node
        self._table = mounts(node.text("/proc/self/mountinfo"))
        self._root_disks = self._disks(self.mount_of("/"))

    def mount_of(self, path: str) -> Mount:
        """Return the mount that a path without links lies on; one without a type where none is known."""
        return holding(path, self._table) or Mount("/", "", "", "")

    def followed(self, path: str) -> str:
        """Return a path with its links followed, as far as it is on local disks."""
        done, left, links = "/", path.strip("/").split("/"), 0
        while left:
            step = posixpath.normpath(posixpath.join(done, left.pop(0)))
            if not self._is_local(step):
                return posixpath.join(step, *left)
            target = self._node.link(step)
            if target is None or links >= _MOST_LINKS:
                done = step
                continue
            links += 1
            if target.startswith("/"):
                done = "/"
            left = [*target.strip("/").split("/"), *left]
        return done

    def local(self, path: str) -> str | None:
        """Return a path with its links followed; None where it leads to what may not answer."""
        followed = self.followed(path)
        return followed if self._is_local(followed) else None

    def text(self, path: str) -> str:
        """Return a file's text; empty where it cannot be read, or its links lead to what may not answer."""
        return self._node.text(self.local(path) or "")

    def data(self, path: str) -> bytes | None:
        """Return a file's content; None where it cannot be read, or its links lead to what may not answer."""
        return self._node.data(self.local(path) or "")

    def names(self, path: str) -> list[str]:
        """List a directory, sorted; empty where there is none, or its links lead to what may not answer."""
        at = self.local(path)
        return self._node.names(at) if at else []

    def on_root_disk(self, path: str) -> bool:
        """Tell whether a path without links is on the root file system, or on another one of the same disks."""
        own, root = self.mount_of(path), self.mount_of("/")
        same = (own.device, own.source) == (root.device, root.source)
        return same or not self._root_disks.isdisjoint(self._disks(own))

    def _is_local(self, path: str) -> bool:
        kind = self.mount_of(path).type
        return not kind or kind in LOCAL

    def _disks(self, mount: Mount) -> set[str]:
        """Name the disks that a mount's device lies on, through volumes, arrays and partitions."""
        block = self._node.resolve(f"/sys/dev/block/{mount.device}")
        if not self._node.is_dir(block) and mount.source.startswith("/dev/"):  # Btrfs has a device of its own
            block = self._node.resolve(f"/sys/class/block/{posixpath.basename(self._node.resolve(mount.source))}")
        return self._below(block) if self._node.is_dir(block) else set()

    def _below(self, block: str) -> set[str]:
        lower = self._node.names(f"{block}/slaves")
        if lower:
            return {disk for name in lower for disk in self._below(self._node.resolve(f"/sys/class/block/{name}"))}
        whole = posixpath.dirname(block) if self._node.exists(f"{block}/partition") else block
        return {posixpath.basename(whole)}
