# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The people of a node, as its capture says it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class IdRange:
    """Numbers that a user has for containers of their own."""

    first: int
    count: int


@dataclass(frozen=True)
class User:
    """An account: one of a person, or one that owns files.

    home_mount is where the file system of the home is mounted; groups are names, without the primary one; password is
    set, locked, empty or unknown; expires is an ISO date; linger tells whether the user's units start without a login.
    """

    name: str
    uid: int
    gid: int
    gecos: str
    home: str
    home_mount: str
    home_on_root_disk: bool
    shell: str
    groups: list[str]
    password: str
    expires: str | None
    linger: bool
    subuid: list[IdRange]
    subgid: list[IdRange]


@dataclass(frozen=True)
class Group:
    """A group: one of people, one that owns files, or one of the users."""

    name: str
    gid: int
    members: list[str]


@dataclass(frozen=True)
class Unnamed:
    """A number that owns files and has no name: kind is user or group, of who has it for containers of their own."""

    kind: str
    id: int
    of: str | None


@dataclass(frozen=True)
class ForeignName:
    """Who of a directory owns files: kind is user or group."""

    kind: str
    id: int
    name: str


@dataclass(frozen=True)
class Directory:
    """Where else people come from.

    services are those of nsswitch.conf beside the local files, domains SSSD's, realm that of Kerberos; answered is None
    where nobody was asked.
    """

    services: list[str]
    domains: list[str]
    realm: str | None
    names: list[ForeignName]
    answered: bool | None


@dataclass(frozen=True)
class Accounts:
    """The people of a node."""

    users: list[User]
    groups: list[Group]
    unnamed: list[Unnamed]
    directory: Directory
