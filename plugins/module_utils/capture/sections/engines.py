# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The container engines of a node, as its capture says it; secrets in options and commands are hidden."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Image:
    """An image; why says for what reason it does not come back."""

    id: str
    names: list[str]
    digests: list[str]
    comes_back: bool
    why: str


@dataclass(frozen=True)
class Volume:
    """A volume."""

    name: str
    driver: str
    mountpoint: str
    options: dict[str, str]
    on_root_disk: bool


@dataclass(frozen=True)
class ContainerNetwork:
    """A network of containers."""

    name: str
    driver: str
    subnets: list[str]


@dataclass(frozen=True)
class Bind:
    """What a container has mounted."""

    source: str
    destination: str
    read_only: bool


@dataclass(frozen=True)
class Compose:
    """The project of Docker Compose that a container is of."""

    project: str
    directory: str
    files: list[str]


@dataclass(frozen=True)
class Container:
    """A container; environment has the names alone. What is unknown of one of Podman is None."""

    name: str
    image: str
    command: str
    environment: list[str]
    mounts: list[Bind]
    running: bool | None = None
    ports: list[str] | None = None
    restart: str | None = None
    network: str | None = None
    runtime: str | None = None
    gpus: list[Any] | None = None
    privileged: bool | None = None
    user: str | None = None
    compose: Compose | None = None


@dataclass(frozen=True)
class Engine:
    """A container engine: docker or podman.

    root is where its storage is, driver overlay2, vfs and such, trouble says why it could not be asked; networks are
    without Docker's own.
    """

    program: str
    version: str
    root: str
    driver: str
    trouble: str
    images: list[Image]
    volumes: list[Volume]
    networks: list[ContainerNetwork]
    containers: list[Container]


@dataclass(frozen=True)
class Containers:
    """The container engines of a node."""

    engines: list[Engine]
