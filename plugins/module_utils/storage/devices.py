# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The block devices of a node: what lsblk, blkid, wipefs and the kernel say of them, and which one a name means.

No I/O happens here. What could not be read is told apart from what is not there: a device of which anything is unknown
is never blank.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Callable

from ansible_collections.gpulab.node.plugins.module_utils.core import lsblk, mount_table
from ansible_collections.gpulab.node.plugins.module_utils.core.child import KILLED
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.storage import refuse
from ansible_collections.gpulab.node.plugins.module_utils.storage.blank import Look

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.lsblk import Device
    from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import Mount

BY_ID = "/dev/disk/by-id/"
STABLE = (BY_ID, "/dev/disk/by-partuuid/", "/dev/disk/by-uuid/")
# What /etc/fstab may name a device by, too; nothing here lasts as long as the names above.
OTHERS = ("/dev/disk/by-label/", "/dev/disk/by-partlabel/", "/dev/disk/by-path/", "/dev/mapper/", "/dev/md/")
TAGS = {"UUID": "uuid", "LABEL": "label", "PARTUUID": "part_uuid", "PARTLABEL": "part_label"}
VOLUME = re.compile(r"/dev/(?!disk/|mapper/|md/|block/)([\w.+][\w.+-]*)/([\w.+][\w.+-]*)")
KERNEL_NAME = re.compile(
    r"(?:/dev/)?(?:(?:sd|vd|xvd|hd)[a-z]+\d*|nvme\d+(?:n\d+(?:p\d+)?)?|(?:loop|md|mmcblk|nbd|zram)\d+(?:p\d+)?|dm-\d+)"
)
WHOLE = ("disk", "loop")  # what has a serial number of its own
NOTHING_FOUND, SEVERAL_FOUND = 2, 8  # exit states of blkid
SWAP = "(swap)"
PART = {"uuid": "UUID", "label": "NAME", "type": "TYPE"}  # what an entry of a partition table says, as blkid calls it


@dataclass(frozen=True)
class Content:
    """What blkid finds on a device. type is empty where it finds nothing; trouble says why it cannot tell."""

    type: str = ""
    usage: str = ""
    uuid: str = ""
    partitions: str = ""
    trouble: str = ""
    label: str = ""
    part_uuid: str = ""
    part_label: str = ""
    part_type: str = ""

    @property
    def filesystem(self) -> bool:
        """Whether this is one filesystem, and beyond doubt; blkid counts a disk of a ZFS pool among them."""
        return self.usage == "filesystem" and not self.type.endswith("_member") and not self.trouble

    @property
    def array(self) -> str:
        """The array that the device is a member of, as mdadm writes its UUID; empty where it is of none."""
        if self.type != "linux_raid_member" or self.trouble:
            return ""
        digits = self.uuid.replace("-", "").lower()
        return ":".join(digits[start : start + 8] for start in range(0, len(digits), 8))


@dataclass(frozen=True)
class Devices:
    """All block devices of a node.

    links maps the names below /dev/disk, and those of volumes, to paths; contents maps paths to what is there; closer
    maps the paths that were looked at more closely to what was found; volumes says of each logical volume, as
    /dev/GROUP/NAME, whether it is active; aliases are links that do not last.
    """

    devices: dict[str, Device]
    links: dict[str, str] = field(default_factory=dict)
    contents: dict[str, Content] = field(default_factory=dict)
    closer: dict[str, Look] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    swaps: tuple[str, ...] = ()
    volumes: dict[str, bool] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)

    def content(self, path: str) -> Content:
        """Return what is on a device."""
        return self.contents.get(path, Content(trouble="it could not be read"))

    def names(self, path: str) -> list[str]:
        """Return the names below /dev/disk/by-id that lead to a device."""
        return sorted(link for link, target in self.links.items() if target == path and link.startswith(BY_ID))

    def label(self, path: str) -> str:
        """Say which device this is: its path now, and its serial number."""
        device = self.devices.get(path)
        name = f"serial {device.serial}" if device and device.serial else next(iter(self.names(path)), "no serial")
        return f"{path} ({name})" if device else path

    def stable(self, path: str) -> str:
        """Return a name of a device that is of no other one after the next boot; its path where it has none."""
        links = sorted(link for link, target in self.links.items() if target == path)
        return next(iter([*self.names(path), *links]), path)

    def word(self, path: str) -> str:
        """Return what a person says to mean this device and no other: its serial number, if it has one."""
        return self.devices[path].serial or self.stable(path).replace(BY_ID, "")

    def share(self, path: str) -> str:
        """Say how much of a device was read by a closer look; empty where it was read whole."""
        size, read = self.devices[path].size, self.closer.get(path, Look()).read
        return "" if read >= size else f"{read >> 20} MiB of {size >> 20} MiB"

    def places(self, path: str) -> list[str]:
        """Return where a device, or what is made of it, is in use: mount points, and swap."""
        found = []
        for each in (path, *self.descendants(path)):
            device = self.devices.get(each)
            for mount in self.mounts:
                if mount.source == each or (device and mount.device == device.number):
                    found.append(mount.place)  # noqa: PERF401 - two conditions in one loop read better so
            if each in self.swaps:
                found.append(SWAP)
        return list(dict.fromkeys(found))

    def descendants(self, path: str) -> Iterator[str]:
        """Yield all devices that are made of this one: partitions, arrays, volumes."""
        return lsblk.descendants(path, self.devices)

    def is_mounted(self, path: str, mount: Mount) -> bool:
        """Tell whether a mount is of this device."""
        device = self.devices.get(path)
        return bool(device) and (mount.device == device.number or mount.source == path)  # type: ignore[union-attr]


def content(rc: int, output: str, errors: str) -> Content:
    """Read what ``blkid -p -o export`` says of one device."""
    if rc == SEVERAL_FOUND:
        return Content(trouble="it has several signatures, and which one is valid is unknown")
    if rc in KILLED:
        return Content(trouble="it does not answer in time")
    if rc == NOTHING_FOUND and not errors.strip():
        return Content()
    fields = {name: re.sub(r"\\(.)", r"\1", value) for name, _equals, value in _pairs(output)}
    part = {f"part_{name}": fields.get(f"PART_ENTRY_{entry}", "") for name, entry in PART.items()}
    if rc == 0 and not errors.strip() and _only_of_the_partition(fields):
        return Content(**part)
    if rc != 0 or not (fields.get("TYPE") or fields.get("PTTYPE")):
        return Content(trouble=f"blkid cannot read it: {errors.strip() or f'exit status {rc}'}")
    kind, usage, found, partitions = (fields.get(name, "") for name in ("TYPE", "USAGE", "UUID", "PTTYPE"))
    return Content(kind, usage, found, partitions, label=fields.get("LABEL", ""), **part)


def _pairs(output: str) -> Iterator[tuple[str, str, str]]:
    return (line.partition("=") for line in output.splitlines())


def _only_of_the_partition(fields: dict[str, str]) -> bool:
    """Tell whether blkid found a partition's entry in the table of its disk, and nothing on the partition."""
    entry = {name for name, value in fields.items() if name.startswith("PART_ENTRY_") and value}
    return "PART_ENTRY_SCHEME" in entry and fields.keys() <= entry | {"DEVNAME"}


def signatures(rc: int, output: str, errors: str) -> list[str]:
    """Read what ``wipefs --no-act --json`` says of one device: every signature, each superblock by itself."""
    if rc != 0:
        return [f"unknown data: wipefs cannot read it: {errors.strip() or f'exit status {rc}'}"]
    try:
        found = json.loads(output)["signatures"] if output.strip() else []
        return [f"{one['type']} at {one['offset']}" for one in found]
    except (KeyError, TypeError, ValueError):
        return ["unknown data: wipefs gave no JSON"]


def volumes(lvs: str) -> dict[str, bool]:
    """Parse the output of lvs: whether each logical volume is active, by /dev/GROUP/NAME."""
    records = json.loads(lvs)["report"][0]["lv"] if lvs.strip() else []
    return {f"/dev/{one['vg_name']}/{one['lv_name']}": one["lv_active"] == "active" for one in records}


def mounts(mountinfo: str, resolve: Callable[[str], str]) -> tuple[Mount, ...]:
    """Parse /proc/self/mountinfo; of a place that is mounted over, the last one counts.

    resolve follows the links that sources are: a mount of Btrfs is known by these only, as its number is of no device.
    """
    found = {
        f"{mount.place} {mount.device}": mount._replace(source=_followed(mount.source, resolve))
        for mount in mount_table.every_mount(mountinfo)
    }
    return tuple(found.values())


def _followed(source: str, resolve: Callable[[str], str]) -> str:
    return resolve(source) if source.startswith("/dev/") else source


def at(place: str, found: Iterable[Mount]) -> Mount | None:
    """Return what is mounted at a place."""
    return next((mount for mount in reversed(list(found)) if mount.place == place), None)


def resolve(name: str, tier: str, known: Devices) -> str:
    """Return the path of the one device that a tier's name means.

    Raises Refusal H151 for a kernel name, H152 where there is no such device, H153 where there are several, and H163
    where one that could not be read may have the UUID.
    """
    if name in known.devices or f"/dev/{name}" in known.devices or KERNEL_NAME.fullmatch(name):
        path = name if name.startswith("/dev/") else f"/dev/{name}"
        links = known.names(path)
        raise refuse("H151", tier=tier, device=name, names=", ".join(links) or f"none known for {path}")
    found = _meant(name, known)
    unread = [f"{path} ({one.trouble})" for path, one in known.contents.items() if one.trouble]
    if not found and unread and name.startswith("UUID="):
        raise refuse("H163", tier=tier, device=name, unread=", ".join(unread))
    if not found:
        raise refuse("H152", tier=tier, device=name, known=_catalogue(known))
    if len(found) > 1:
        told = "; ".join(f"{path} ({', '.join(known.names(path)) or 'no by-id name'})" for path in found)
        raise refuse("H153", tier=tier, device=name, found=told)
    return found[0]


def _meant(name: str, known: Devices) -> list[str]:
    if name.startswith("UUID="):
        wanted = name.partition("=")[2].strip("\"'").lower()
        having = [path for path, one in known.contents.items() if one.uuid.lower() == wanted and one.filesystem]
        return [path for path in having if not set(known.devices[path].below) & set(having)]  # the topmost, of paths
    if name.startswith("/"):
        return [known.links[name]] if name in known.links else []
    if BY_ID + name in known.links:
        return [known.links[BY_ID + name]]
    return [path for path, device in known.devices.items() if device.kind in WHOLE and device.serial == name]


def meant_by(source: str, known: Devices) -> set[str]:
    """Return the paths that a source of /etc/fstab stands for: a tag, a link or a volume; else itself. See fstab(5)."""
    source = source.replace('"', "").replace("'", "")
    tag, _equals, value = source.partition("=")
    link = re.fullmatch(r"/dev/disk/by-(uuid|label|partuuid|partlabel)/(.+)", source)
    if link:  # udev writes what a name of a file cannot have as \\x20
        tag, value = link[1].upper(), re.sub(r"\\x([0-9a-fA-F]{2})", lambda code: chr(int(code[1], 16)), link[2])
    path = known.links.get(source) or known.aliases.get(source)
    if path or tag not in TAGS:
        return {path or next((name for name in known.volumes if _mapper(name) == source), source)}
    having = {path: str(getattr(one, TAGS[tag])) for path, one in known.contents.items() if value}
    if tag in ("UUID", "PARTUUID"):
        return {path for path, found in having.items() if found.lower() == value.lower()}
    return {path for path, found in having.items() if found == value}


def _mapper(volume: str) -> str:
    """Return what the device mapper calls a volume /dev/GROUP/NAME."""
    group, _slash, name = volume[len("/dev/") :].partition("/")
    return f"/dev/mapper/{group.replace('-', '--')}-{name.replace('-', '--')}"


def _catalogue(known: Devices) -> str:
    """List what could be named instead."""
    told = []
    for path, device in known.devices.items():
        if device.kind in WHOLE and device.size:
            names = [device.serial, *(link[len(BY_ID) :] for link in known.names(path))]
            told.append(f"{next(filter(None, names), 'a disk without serial or by-id name')} ({device.size >> 30} GiB)")
    return ", ".join(told) or "none"


def findings(path: str, known: Devices) -> list[str]:
    """Return all that is on a device or made of it, or that nobody can tell; nothing for a blank one."""
    device, one, found = known.devices[path], known.content(path), []
    found += [f"{place} uses it" if place == SWAP else f"it is mounted at {place}" for place in known.places(path)]
    found += [
        f"{known.devices[each].kind} {each}" + (f" ({known.content(each).type})" if known.content(each).type else "")
        for each in known.descendants(path)
    ]
    if one.partitions:
        found.append(f"a partition table ({one.partitions})")
    if one.type:
        found.append(f"{one.type}" + (f" {one.uuid}" if one.uuid else ""))
    if one.trouble:
        found.append(one.trouble)
    if not device.size:
        found.append("it has no size")
    return [*found, *known.closer.get(path, Look(("it was not examined",))).found]
