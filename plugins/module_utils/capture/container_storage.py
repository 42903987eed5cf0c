# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files of a container engine's storage come back with its images, and what both engines are described by."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core import commands

if TYPE_CHECKING:
    from collections.abc import Iterable

DOCKER, PODMAN, CONTAINERD = "docker", "podman", "containerd"
BUILT_HERE = "it was built or loaded here: no registry is known to have it"
# Docker's own, which it makes again; containers has the settings and logs of each
_OF_DOCKER = ("builder", "buildkit", "containers", "image", "network", "runtimes", "tmp")
_BACKING = "backingFsBlockDev"  # a node of the device below, for quotas
_VOLUMES_OWN = ("metadata.db", _BACKING)
_LOCAL = re.compile(r"(?:localhost|127\.[\d.]+|\[::1\])(?::\d+)?/")


@dataclass(frozen=True)
class Storage:
    """The storage of an engine: where it is, and the ids of layers and images that come back."""

    program: str
    root: str
    layers: frozenset[str] = frozenset()
    images: frozenset[str] = frozenset()

    def covers(self, path: str) -> bool:
        """Tell whether a file or directory comes back; path is relative to the storage."""
        top, _slash, rest = path.partition("/")
        if self.program == CONTAINERD:
            return top in self.images
        if top == "volumes":
            return rest in ("", *_VOLUMES_OWN)
        return self._of_docker(top, rest) if self.program == DOCKER else self._of_podman(top, rest)

    def _of_docker(self, top: str, rest: str) -> bool:
        if rest == _BACKING:
            return True
        if top == "vfs":
            return self._of_copy(rest)
        if top == "overlay2":
            return self._of_layer(rest)
        if top == "containerd":  # its own, where Docker starts it: lists, but no layers and images
            return not re.search(r"snapshotter|\.content\.", rest)
        return top in ("", "engine-id", *_OF_DOCKER)

    def _of_podman(self, top: str, rest: str) -> bool:
        if top == "overlay":
            return self._of_layer(rest)
        if top == "vfs":
            return self._of_copy(rest)
        first = rest.partition("/")[0]
        if top.endswith("-images"):
            return not rest or first.startswith("images.") or first in self.images
        return top != "secrets"

    def _of_copy(self, rest: str) -> bool:
        """Tell whether a part of vfs comes back, which has a whole file system for each layer and each container."""
        identity = rest.partition("/")[2].partition("/")[0]
        return rest in ("", "dir") or identity.endswith("-init") or identity in self.layers

    def _of_layer(self, rest: str) -> bool:
        """Tell whether a part of overlay2 or overlay comes back: layers, but for diff, have only links and marks."""
        identity, _slash, part = rest.partition("/")
        return identity.endswith("-init") or identity in self.layers or part.partition("/")[0] != "diff"


def at(value: Any, *names: str) -> Any:
    """Return what an engine says below these names; None where a part of it is missing."""
    for name in names:
        value = (value or {}).get(name)
    return value


def text(value: Any, *names: str) -> str:
    """Return a text that an engine says; empty where it does not."""
    return at(value, *names) or ""


def listed(value: Any, *names: str) -> list[Any]:
    """Return a list that an engine says; empty where it does not."""
    return list(at(value, *names) or ())


def is_local(name: str) -> bool:
    """Tell whether an image is of a registry on this node."""
    return bool(_LOCAL.match(name))


def variables(environment: Iterable[str]) -> list[str]:
    """Return the names of variables, without their values."""
    return sorted({one.partition("=")[0] for one in environment})


def shown(words: Iterable[Any]) -> str:
    """Return a command as people may see it."""
    return commands.shown(" ".join(shlex.quote(str(word)) for word in words))
