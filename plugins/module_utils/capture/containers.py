# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The container engines of a node: images, volumes, containers, and which files of their storage come back.

An image comes back where a registry has it. Volumes, and what containers wrote, do not come back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.capture import containers_docker, containers_podman
from ansible_collections.gpulab.node.plugins.module_utils.capture.homes import Places

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.capture.container_storage import Storage
    from ansible_collections.gpulab.node.plugins.module_utils.capture.containers_docker import Ask
    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.engines import Engine
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node


@dataclass
class Engines:
    """The engines of a node, and what of their storage comes back."""

    engines: list[Engine]
    storages: list[Storage] = field(default_factory=list)

    def covers(self, path: str) -> bool:
        """Tell whether an engine brings this file of its storage back."""
        for storage in self.storages:
            if path == storage.root or path.startswith(f"{storage.root}/"):
                return storage.covers(path[len(storage.root) + 1 :])
        return False


def read(node: Node, ask: Ask = containers_docker.ask_daemon) -> Engines:
    """Return the engines; ask asks Docker's daemon, and raises NoAnswerError."""
    places = Places(node)
    docker, of_docker = containers_docker.read(node, ask, places)
    podman, of_podman = containers_podman.read(node, places)
    return Engines([*docker, *podman], [*of_docker, *of_podman])
