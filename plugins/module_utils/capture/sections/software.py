# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packages of a node, as its capture says it; secrets in addresses are hidden."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Package:
    """An installed package."""

    name: str
    version: str
    architecture: str


@dataclass(frozen=True)
class Pin:
    """What apt_preferences(5) prefers, or what dnf excludes: without a priority."""

    file: str
    packages: str
    pin: str
    priority: str


@dataclass(frozen=True)
class Source:
    """A package source that is switched on.

    name is empty with APT, suite and components with dnf. keys are the fingerprints that it may be signed by, whether
    they are in a file, named or written in the source itself.
    """

    file: str
    name: str
    uris: list[str]
    suite: str
    components: list[str]
    options: dict[str, str]
    key_files: list[str]
    keys: list[str]


@dataclass(frozen=True)
class KeyFile:
    """A file of keys; problem says why it tells none. A key that rpm trusts is in "rpm:" and its package's name."""

    file: str
    fingerprints: list[str]
    problem: str | None


@dataclass(frozen=True)
class Stream:
    """A module of dnf."""

    name: str
    stream: str
    state: str


@dataclass(frozen=True)
class Installed:
    """The packages of a node, and what people decided about them.

    packages is None where the package manager does not answer. manual are the names of packages that did not only come
    as dependencies (name.architecture with rpm), None where the node does not know; holds the names of those that keep
    their version, with dnf the lines of its versionlock plugin.
    """

    packages: list[Package] | None
    manual: list[str] | None
    holds: list[str]


@dataclass(frozen=True)
class Software(Installed):
    """The software of a node, and from where it comes.

    A snap has name, version, revision, channel, publisher and notes, a flatpak name, branch, origin and version; None
    where such are there and nobody answers.
    """

    pins: list[Pin]
    sources: list[Source]
    keys: list[KeyFile]
    streams: list[Stream]
    snaps: list[dict[str, str]] | None
    flatpaks: list[dict[str, str]] | None
