# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The container engines of a node."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.module_utils.facts.packages import PackagesQuery
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.services import Engines

ENGINES = {
    "docker": ["docker", "--version"],
    "podman": ["podman", "--version"],
    "containerd": ["containerd", "--version"],
    "nvidia_container_toolkit": ["nvidia-ctk", "--version"],
}
# Packages that docker.com's conflict with, or share files with: see its installation guides
DOCKER_RIVALS = ("containerd", "docker-cli", "docker-compose-v2", "docker.io", "moby-engine", "podman-docker", "runc")
_VERSION = re.compile(r"\bv?(\d+\.\d+(?:\.\d+)?(?:[-~+.][0-9A-Za-z.~+-]*)?)")


def engine_version(text: str) -> str | None:
    """Find the version in what an engine's --version prints."""
    match = _VERSION.search(text)
    return match.group(1) if match else None


class EnginesQuery:
    """The facts ``engines``; each program runs beside the caller's other work."""

    def __init__(self, node: Node, packages_query: PackagesQuery) -> None:
        """Start them all; none of these asks a daemon. The query has asked for DOCKER_RIVALS."""
        self._packages_query = packages_query
        self._jobs = {name: node.start(argv) for name, argv in ENGINES.items()}

    def facts(self) -> Engines:
        """Return each engine's version, None where it is absent, and the docker_rivals there are."""
        texts = {name: job.output() or "" for name, job in self._jobs.items()}
        if texts["docker"].startswith("podman"):  # which podman-docker gives Docker's name
            texts["docker"] = ""
        rivals = sorted(one.name for one in self._packages_query.installed if one.name in DOCKER_RIVALS)
        return {
            "docker": engine_version(texts["docker"]),
            "podman": engine_version(texts["podman"]),
            "containerd": engine_version(texts["containerd"]),
            "nvidia_container_toolkit": engine_version(texts["nvidia_container_toolkit"]),
            "docker_rivals": rivals,
        }
