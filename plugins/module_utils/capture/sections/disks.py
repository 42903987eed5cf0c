# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lives on which disk of a node, as its capture says it: sizes in bytes, absolute paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = "header="  # an option of crypttab(5)


@dataclass(frozen=True)
class Device:
    """A disk, or what is made of one: below.

    wwn is the world wide name, names are those below /dev/disk/by-id, places the mount points and "(swap)". root tells
    whether / lies on it, partitions is the kind of its partition table, trouble says why its content cannot be told.
    """

    path: str
    kind: str
    size: int
    serial: str
    wwn: str
    model: str
    transport: str
    rotational: bool | None
    names: list[str]
    root: bool
    type: str
    label: str
    uuid: str
    part_uuid: str
    partitions: str
    esp: bool
    places: list[str]
    trouble: str
    below: list[Device]

    def whole(self) -> Iterator[Device]:
        """Yield the device, and all that is made of it."""
        yield self
        for part in self.below:
            yield from part.whole()


@dataclass(frozen=True)
class RootMount:
    """What is mounted at /, and the paths of its disks."""

    source: str
    type: str
    disks: list[str]


@dataclass(frozen=True)
class DiskGroup:
    """What spans several disks: a volume group, an array, a pool, a file system."""

    name: str
    disks: list[str]


@dataclass(frozen=True)
class Filesystem:
    """A mounted file system; size and used are None where it does not answer."""

    mount: str
    source: str
    type: str
    subvolume: str
    uuid: str
    label: str
    disks: list[str]
    on_root_disk: bool
    read_only: bool
    size: int | None
    used: int | None


@dataclass(frozen=True)
class Unseen:
    """What is on the root disk and no mount shows."""

    path: str
    type: str
    label: str
    size: int | None
    why: str


@dataclass(frozen=True)
class BootDevice:
    """The disks of /boot or of the ESP, mounted or named in fstab."""

    place: str
    disks: list[str]


@dataclass(frozen=True)
class FstabLine:
    """A line of /etc/fstab."""

    source: str
    mount: str
    type: str
    options: list[str]


@dataclass(frozen=True)
class CrypttabLine:
    """A line of /etc/crypttab; key is the path of the key's file, empty where people type it."""

    name: str
    device: str
    key: str
    options: list[str]

    @property
    def files(self) -> list[str]:
        """The paths without which nothing opens the volume: its key, and a header that does not lie on it."""
        headers = [one[len(HEADER) :] for one in self.options if one.startswith(HEADER)]
        return [path for path in (self.key, *headers) if path.startswith("/")]


@dataclass(frozen=True)
class Export:
    """What other machines may mount over NFS; users are the addresses of those that do."""

    path: str
    client: str
    options: list[str]
    on_root_disk: bool
    users: list[str]


@dataclass(frozen=True)
class Disks:
    """What lives on which disk.

    container is the name of the engine where the node is one. walked are the mount points to walk, so that each file of
    the root disk is met once; arrays the lines of mdadm.conf(5); uefi tells whether the node was started by UEFI.
    """

    container: str | None
    disks: list[Device]
    root: RootMount
    groups: list[DiskGroup]
    filesystems: list[Filesystem]
    walked: list[str]
    unseen: list[Unseen]
    boot_devices: list[BootDevice]
    uefi: bool
    fstab: list[FstabLine]
    crypttab: list[CrypttabLine]
    arrays: list[str]
    exports: list[Export]
