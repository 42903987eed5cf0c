# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a capture, and what is left over of others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

FILE, LINK, DIRECTORY = "file", "link", "directory"


class _More(TypedDict, total=False):
    sha256: str
    secret: bool
    target: str
    acl: str
    default_acl: str
    capability: str
    immutable: bool
    sparse: bool
    links: int
    identity: str
    section: str
    package: str


class Entry(_More):
    """A captured path.

    mode is as "0644", size in bytes; sha256 is a file's that is no secret, target a link's; acl, default_acl and
    capability are in Base64; a file that has several names has their number in links, and its device and inode in
    identity; section says why it is captured, package of which one it is.
    """

    path: str
    kind: str
    mode: str
    owner: str | None
    uid: int
    group: str | None
    gid: int
    size: int


@dataclass(frozen=True)
class Count:
    """How many files, and how large they are together."""

    files: int
    bytes: int


@dataclass(frozen=True)
class Remainder(Count):
    """What nothing brings back."""

    path: str
    owner: str | None
    why: str


@dataclass(frozen=True)
class Acknowledged:
    """A path that may be lost."""

    path: str
    reason: str


@dataclass(frozen=True)
class Deleted:
    """A file that a program writes to though it has no name any more: it ends with the program."""

    path: str
    bytes: int
    program: str
    process: int
