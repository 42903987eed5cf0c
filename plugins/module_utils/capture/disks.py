# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lives on which disk of a node, what the root disk holds, and what shares its disks with another.

Nothing is opened for writing, mounted, assembled or unlocked. Where a tool does not answer, the record says less; what
could be on the root disk unseen is named.
"""

from __future__ import annotations

import json
import os
import re
from functools import partial
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.disks import (
    BootDevice,
    CrypttabLine,
    Device,
    DiskGroup,
    Disks,
    Export,
    Filesystem,
    FstabLine,
    RootMount,
    Unseen,
)
from ansible_collections.gpulab.node.plugins.module_utils.core import commands
from ansible_collections.gpulab.node.plugins.module_utils.core.child import DONE, Child, Emit
from ansible_collections.gpulab.node.plugins.module_utils.core.fstab import parse
from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import KERNELS_OWN, Mount, is_below
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Job
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import for_people
from ansible_collections.gpulab.node.plugins.module_utils.storage import btrfs, devices, exports
from ansible_collections.gpulab.node.plugins.module_utils.storage.host import Reader, server_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.module_utils.storage.devices import Devices
    from ansible_collections.gpulab.node.plugins.module_utils.storage.host import Call

FSTAB, CRYPTTAB = "/etc/fstab", "/etc/crypttab"
ARRAYS = ("/etc/mdadm/mdadm.conf", "/etc/mdadm.conf")
CLIENTS_OF_V3 = "/var/lib/nfs/rmtab"
CLIENTS_OF_V4 = "/proc/fs/nfsd/clients"
PVS = ["pvs", "--reportformat", "json", "--options", "pv_name,vg_name"]
SUBVOLUMES = ["btrfs", "subvolume", "list"]
SECONDS = 25.0  # for a command, which has its own deadline of 20 s; and for all file systems together
ESP = ("c12a7328-f81f-11d2-ba4b-00c93ec93b3b", "0xef")  # types of a partition: GPT's, MBR's
WITHOUT_DATA = (
    *ESP,
    "21686148-6449-6e6f-744e-656564454649",  # BIOS boot
    "e3c9e316-0b5c-4db8-817d-f92df00215ae",  # reserved by Microsoft
    "9e1a2d38-c612-4316-aa26-8b49521e5a8b",  # PReP boot
    "0x5",  # MBR: what holds further partitions
    "0xf",
)
IN_MEMORY = KERNELS_OWN | {"devtmpfs", "overlay", "tmpfs"}
NOT_A_DISK = re.compile(r"/dev/(?:loop|zram|ram|sr|fd|nbd)\d+")
_PATH_OF_SUBVOLUME = re.compile(r"^ID \d+ .*?\bpath (.*)$", re.MULTILINE)
_FIELDS = 4


def read(node: Node, call: Call | None = None) -> Disks:
    """Return the section ``disks`` of a manifest; call runs a command: (exit status, output, errors)."""
    call = call or _call
    reader = Reader(node, call)
    known = reader.devices()
    layout = _Layout(known, node, reader)
    return Disks(
        container=node.container(),
        disks=[layout.tree(path) for path in layout.disks],
        root=RootMount(layout.root.source, layout.root.type, sorted(layout.root_disks)),
        groups=layout.groups(),
        filesystems=layout.filesystems(),
        walked=layout.walked(),
        unseen=[*layout.unseen(), *layout.unseen_subvolumes()],
        boot_devices=layout.boot_devices(),
        uefi=node.is_dir("/sys/firmware/efi"),
        fstab=fstab(node.text(FSTAB)),
        crypttab=crypttab(node.text(CRYPTTAB)),
        arrays=[line for path in ARRAYS for line in node.text(path).splitlines() if line.startswith("ARRAY")],
        exports=layout.exported(),
    )


def _call(argv: list[str]) -> tuple[int, str, str]:
    return Job(argv, SECONDS).result() or (127, "", "it is not there, or does not answer")


class _Layout:
    """The devices of a node, and which of them / lies on."""

    def __init__(self, known: Devices, node: Node, reader: Reader) -> None:
        self._known = known
        self._node = node
        self._reader = reader
        self._groups = volume_groups(reader.output(PVS))
        in_container = node.container() is not None
        made = {each for path in known.devices for each in known.descendants(path)}  # as bcache, "disk" to lsblk
        self.disks = [
            path
            for path, device in known.devices.items()
            if device.kind == "disk"
            and device.size
            and path not in made
            and not NOT_A_DISK.fullmatch(path)
            and not in_container
        ]
        self._below = {disk: {disk, *known.descendants(disk)} for disk in self.disks}
        nothing = Mount("/", "", "", "")
        self._mounts = {mount.place: mount for mount in known.mounts if mount.type not in IN_MEMORY}
        self.root = devices.at("/", known.mounts) or nothing
        self._mounts["/"] = self.root
        self.root_disks = self._disks_of(self.root)

    def _disks_with(self, paths: Iterable[str]) -> set[str]:
        wanted = set(paths)
        return {disk for disk, below in self._below.items() if below & wanted}

    def _disks_of(self, mount: Mount) -> set[str]:
        """Return the disks that a mount lies on; those of a pool of ZFS and of Btrfs are known by their members."""
        if mount.type == "zfs":
            pool = mount.source.partition("/")[0]
            contents = self._known.contents.items()
            return self._disks_with(path for path, one in contents if one.type == "zfs_member" and one.label == pool)
        paths = [path for path in self._known.devices if self._known.is_mounted(path, mount)]
        return self._disks_with([*paths, *(other for path in paths for other in self._same_btrfs(path))])

    def _same_btrfs(self, path: str) -> list[str]:
        one = self._known.content(path)
        if one.type != "btrfs" or not one.uuid:
            return []
        return [other for other, its in self._known.contents.items() if (its.type, its.uuid) == (one.type, one.uuid)]

    def tree(self, path: str) -> Device:
        """Return a device and what is made of it."""
        device, one = self._known.devices[path], self._known.content(path)
        own = [mount.place for mount in self._known.mounts if self._known.is_mounted(path, mount)]
        return Device(
            path=path,
            kind=device.kind,
            size=device.size,
            serial=device.serial,
            wwn=device.wwn,
            model=device.model,
            transport=device.transport,
            rotational=device.rotational,
            names=[name[len(devices.BY_ID) :] for name in self._known.names(path)],
            root=path in self.root_disks,
            type=one.type,
            label=one.label,
            uuid=one.uuid,
            part_uuid=one.part_uuid,
            partitions=one.partitions,
            esp=one.part_type in ESP,
            places=[*dict.fromkeys(own), *([devices.SWAP] if path in self._known.swaps else [])],
            trouble=one.trouble,
            below=[self.tree(each) for each in device.below],
        )

    def groups(self) -> list[DiskGroup]:
        """Return what spans several disks."""
        found: dict[str, set[str]] = {}
        for name, path in self._members():
            found.setdefault(name, set()).update(self._disks_with([path]))
        for path, device in self._known.devices.items():
            on = self._disks_with([path])
            if len(on) > 1 and not any(on <= disks for disks in found.values()):
                found[f"{device.kind} {path}"] = on
        return [DiskGroup(name, sorted(disks)) for name, disks in sorted(found.items()) if len(disks) > 1]

    def _members(self) -> Iterator[tuple[str, str]]:
        """Yield members of what can span disks, whether it is active or not: (name, path)."""
        for path, one in self._known.contents.items():
            if one.array:
                yield f"array {one.array}", path
            elif one.type == "zfs_member":
                yield f"pool {one.label or one.uuid}", path
            elif one.type == "btrfs":
                yield f"btrfs file system {one.label or one.uuid}", path
            elif one.type == "LVM2_member":
                group = next((group for name, group in self._groups.items() if self._path(name) == path), None)
                if group != "":
                    yield f"volume group {group}" if group else "volume groups that lvm2 does not name", path

    def _path(self, name: str) -> str:
        return self._known.aliases.get(name) or self._node.resolve(name)

    def filesystems(self) -> list[Filesystem]:
        """Return a record of each mounted file system with data."""
        sizes = {place: Child(partial(_measure, self._node.path(place)), SECONDS) for place in self._mounts}
        found = []
        for place, mount in sorted(self._mounts.items()):
            child = sizes[place]
            measured = child.messages[0] if child.wait() == DONE and child.messages else {"size": None, "used": None}
            path = next((path for path in self._known.devices if self._known.is_mounted(path, mount)), "")
            one, on = self._known.contents.get(path, devices.Content()), self._disks_of(mount)
            found.append(
                Filesystem(
                    mount=place,
                    source=for_people(mount.source),
                    type=mount.type,
                    subvolume=mount.root,
                    uuid=one.uuid,
                    label=one.label,
                    disks=sorted(on),
                    on_root_disk=self._on_root_disk(mount),
                    read_only="ro" in mount.options,
                    **measured,
                )
            )
        return found

    def _on_root_disk(self, mount: Mount) -> bool:
        return _same(mount, self.root) or bool(self._disks_of(mount) & self.root_disks)

    def walked(self) -> list[str]:
        """Return the mount points of the root disk, without those that show again what another one shows."""
        chosen: list[Mount] = [self.root]
        others = [mount for mount in self._mounts.values() if mount != self.root and self._on_root_disk(mount)]
        for mount in sorted(others, key=lambda mount: mount.root.rstrip("/").count("/")):
            if not any(_same(mount, other) and is_below(mount.root, other.root) for other in chosen):
                chosen.append(mount)
        return [mount.place for mount in chosen]

    def unseen(self) -> Iterator[Unseen]:
        """Yield what is on the root disk, holds data or may hold some, and is not mounted."""
        for path in dict.fromkeys(each for disk in sorted(self.root_disks) for each in self._in_order(disk)):
            device, one = self._known.devices[path], self._known.content(path)
            if self._known.places(path) or device.below or one.part_type.lower() in WITHOUT_DATA:
                continue
            why = one.trouble or self._why_unseen(path)
            if why:
                label = one.label or one.part_label
                yield Unseen(self._lasting(path), one.type, label, device.size, why)
        for name, active in self._known.volumes.items():
            group = name.split("/")[2]
            if not active and any(self._known_group(group)):
                yield Unseen(name, "", "", None, "the volume is not active")

    def _lasting(self, path: str) -> str:
        """Return a name that no boot gives to something else on the disk, as it may one of a volume or an array."""
        if self._known.devices[path].kind in ("disk", "part"):
            return path
        return next((name for name in self._known.volumes if self._path(name) == path), self._known.stable(path))

    def _known_group(self, group: str) -> Iterator[str]:
        """Yield the members of a volume group that are on the root disk."""
        for name, its in self._groups.items():
            if its == group and self._disks_with([self._path(name)]) & self.root_disks:
                yield name

    def _why_unseen(self, path: str) -> str:
        one = self._known.content(path)
        if not one.type:
            partition = self._known.devices[path].kind == "part"
            return next(iter(self._reader.closer([path])[path].found), "") if partition else ""
        if one.type == "swap" or self._is_of_a_mounted(path):
            return ""
        return "it is neither assembled nor unlocked" if one.usage in ("raid", "crypto") else "it is not mounted"

    def _in_order(self, disk: str) -> list[str]:
        return [disk, *self._known.descendants(disk)]

    def _is_of_a_mounted(self, path: str) -> bool:
        """Tell whether a member of Btrfs or ZFS belongs to what is mounted."""
        one = self._known.content(path)
        if one.type == "zfs_member":
            pools = {mount.source.partition("/")[0] for mount in self._known.mounts if mount.type == "zfs"}
            return one.label in pools
        return any(self._known.places(other) for other in self._same_btrfs(path))

    def unseen_subvolumes(self) -> Iterator[Unseen]:
        """Yield subvolumes of Btrfs on the root disk that lie below none of those that are mounted.

        Their names begin with the device: who gives one up by it gives up no path of the running system.
        """
        mounts = [mount for mount in self._mounts.values() if mount.type == "btrfs" and self._on_root_disk(mount)]
        for source in dict.fromkeys(mount.source for mount in mounts):
            roots = [mount.root for mount in mounts if mount.source == source]
            place = next(mount.place for mount in mounts if mount.source == source)
            if "/" in roots:
                continue
            listed = self._reader.output([*SUBVOLUMES, str(self._node.path(place))])
            names = [f"/{name}" for name in _PATH_OF_SUBVOLUME.findall(listed)]
            if not names:  # there is at least the one that is mounted
                yield Unseen(source, "btrfs", "", None, "btrfs(8) does not say which subvolumes it has")
            yield from self._unseen_beside(source, place)
            for name in names:
                if not any(is_below(name, root) for root in roots):
                    why = f"it is a subvolume of {source} that is not mounted"
                    yield Unseen(f"{source}{name}", "btrfs", "", None, why)

    def _unseen_beside(self, source: str, place: str) -> Iterator[Unseen]:
        """Yield what a Btrfs has in its topmost directory, which is not mounted."""
        try:
            names = btrfs.beside_subvolumes(self._node.path(place))
        except OSError as error:
            why = f"what it has beside its subvolumes is unknown: {error.strerror}"
            yield Unseen(source, "btrfs", "", None, why)
            return
        for name in names:
            why = f"it is in the topmost directory of {source}, which is not mounted"
            yield Unseen(f"{source}/{name}", "btrfs", "", None, why)

    def boot_devices(self) -> list[BootDevice]:
        """Return the disks of /boot and of the ESP that the node uses."""
        named = {line.mount: line.source for line in fstab(self._node.text(FSTAB))}
        found = []
        for place in ("/boot", "/boot/efi", "/efi"):
            mount = self._mounts.get(place)
            if mount:
                found.append(BootDevice(place, sorted(self._disks_of(mount))))
            elif place in named:
                paths = devices.meant_by(named[place], self._known)
                found.append(BootDevice(place, sorted(self._disks_with(paths))))
        return found

    def exported(self) -> list[Export]:
        """Return what other machines may mount from here."""
        server = server_of(self._node)
        listed = [one for text in server.files.values() for one in exports.parse(text)]
        live = exports.parse(server.table)
        found = []
        for one in dict.fromkeys([*listed, *live]):
            mount = self._holding(one.path)
            found.append(
                Export(
                    path=one.path,
                    client=one.client,
                    options=list(one.options),
                    on_root_disk=self._on_root_disk(mount) if mount else False,
                    users=self._users_of(one, server.holders.get(mount.device, []) if mount else []),
                )
            )
        return found

    def _users_of(self, export: exports.Export, holders: list[str]) -> list[str]:
        """Return the machines that have an export mounted, as the server remembers them (rmtab, clients of NFSv4)."""
        lines = (line.split(":") for line in self._node.text(CLIENTS_OF_V3).splitlines())
        by_v3 = [fields[0] for fields in lines if len(fields) > 1 and ":".join(fields[1:-1]) == export.path]
        by_v4 = [
            exports.address(self._node.text(f"{CLIENTS_OF_V4}/{name}/info")) for name in self._node.names(CLIENTS_OF_V4)
        ]
        able = [one for one in [*by_v4, *holders] if one and exports.means(export.client, one)]
        return sorted({*by_v3, *able})

    def _holding(self, path: str) -> Mount | None:
        above = [place for place in self._mounts if is_below(path, place)]
        return self._mounts[max(above, key=len)] if above else None


def _same(one: Mount, other: Mount) -> bool:
    return (one.source, one.type) == (other.source, other.type)


def _measure(path: Path, emit: Emit) -> None:
    sizes = os.statvfs(path)
    used = (sizes.f_blocks - sizes.f_bfree) * sizes.f_frsize
    emit({"size": sizes.f_blocks * sizes.f_frsize, "used": used})


def volume_groups(pvs: str) -> dict[str, str]:
    """Parse the output of pvs: the volume group of each device, empty for one that is of none."""
    try:
        return {one["pv_name"]: one["vg_name"] for one in json.loads(pvs)["report"][0]["pv"]}
    except (ValueError, KeyError, IndexError, TypeError):
        return {}


def fstab(text: str) -> list[FstabLine]:
    """Return the lines of /etc/fstab, without passwords."""
    found = []
    for line in parse(text):
        options = ",".join(line.options)
        found.append(
            FstabLine(
                source=for_people(line.source),
                mount=line.mount,
                type=line.type,
                options=commands.shown_options(options).split(",") if options else [],
            )
        )
    return found


def crypttab(text: str) -> list[CrypttabLine]:
    """Return the lines of /etc/crypttab."""
    found = []
    for fields in _lines(text):
        name, device, key, options = [*fields, "", "", ""][:_FIELDS]
        key = "" if key in ("none", "-") else key
        found.append(CrypttabLine(name, device, key, options.split(",") if options else []))
    return found


def _lines(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        fields = line.split()
        if fields and not fields[0].startswith("#"):
            yield fields
