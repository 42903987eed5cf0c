# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rebuilt node mounts: the lines of its new root disk, and those of before for all other disks and servers.

Nothing is made, formatted or repaired. No I/O happens here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Callable

from ansible_collections.gpulab.node.plugins.module_utils.core import owned_block
from ansible_collections.gpulab.node.plugins.module_utils.core.fstab import SWAP, Line, parse
from ansible_collections.gpulab.node.plugins.module_utils.storage.devices import KERNEL_NAME
from ansible_collections.gpulab.node.plugins.module_utils.storage.plan import OWNER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.disks import Device, Disks

SECTION = "storage"
NOFAIL, NOAUTO = "nofail", "noauto"
ROOTS_OWN = ("/", "/boot", "/boot/efi", "/efi")
# What each system has of its own: that of the former one would hide it, with its packages and services.
SYSTEM = ("/etc", "/usr", "/var", "/var/lib", "/var/lib/dpkg", "/var/lib/rpm")
# How a tag, and a directory of /dev/disk, name a device.
TAGS: dict[str, Callable[[Device], str]] = {
    "UUID": lambda device: device.uuid,
    "LABEL": lambda device: device.label,
    "PARTUUID": lambda device: device.part_uuid,
}
_BY = re.compile(r"/dev/disk/by-(uuid|label|partuuid|id)/(.+)")
_LEAST = 2  # fields of a line


@dataclass(frozen=True)
class Meant:
    """What a name in fstab or crypttab stands for; root tells whether that is on the disk of the former system."""

    uuid: str
    root: bool


@dataclass
class Fstab:
    """The lines that come back, those of gpulab's tiers among them, and what does not."""

    lines: list[Line] = field(default_factory=list)
    tiers: list[Line] = field(default_factory=list)
    lacking: list[tuple[str, str]] = field(default_factory=list)


def wanted(captured: str, section: Disks, now: str) -> Fstab:
    """Return which captured lines come back, by a manifest's section disks and the text that is there now."""
    made = Fstab(tiers=parse(owned_block.inside(captured, OWNER)))
    taken = {line.place: line for line in parse(owned_block.outside(now, OWNER))}
    has_swap = any(line.type == SWAP for line in taken.values())
    for line in parse(owned_block.outside(captured, OWNER)):
        device = device_of(line, section)
        new = _lasting(line, device)
        if line.place in ROOTS_OWN:
            continue
        if line.type == SWAP and (device.root if device else not _is_device(line.source)):
            made.lacking += [] if has_swap else [(line.place, "swap on the system disk is not made again")]
        elif device is not None and device.root:
            if line.place not in taken:
                made.lacking.append((line.place, "it was on the system disk, and is a directory of the new system now"))
        elif line.place in SYSTEM:
            made.lacking.append((line.place, "it was a part of the former system, and the new one has its own"))
        elif new is None:
            made.lacking.append((line.place, f"the capture does not know what {line.source} was"))
        elif new.place in taken and taken[new.place].source != new.source:
            made.lacking.append((line.place, f"the new system has {taken[new.place].source} there"))
        else:
            made.lines.append(new)
    return made


def _lasting(line: Line, device: Meant | None) -> Line | None:
    """Return a line with a name that lasts; None where it has a kernel's name for what the capture did not see."""
    if not KERNEL_NAME.fullmatch(line.source):
        return line
    if device is None or not device.uuid:
        return line if line.source.startswith("/dev/md") else None  # mdadm.conf names it
    return line.with_(source=f"UUID={device.uuid}")


def _is_device(source: str) -> bool:
    """Tell whether a name is a device's, not that of a directory, a file or a server."""
    return source.startswith("/dev/") or re.match(r"[A-Z]+=", source) is not None


def device_of(line: Line, section: Disks) -> Meant | None:
    """Return what a line stands for in the section; None where it is no device there."""
    if not _is_device(line.source):
        return None
    for disk in section.disks:
        for device in disk.whole():
            if _means(line.source, device) or (line.place.startswith("/") and line.place in device.places):
                return Meant(device.uuid, disk.root)
    mounted = (one for one in section.filesystems if one.mount == line.place and one.disks)
    return next((Meant(one.uuid, one.on_root_disk) for one in mounted), None)


def _means(source: str, device: Device) -> bool:
    """Tell whether a name of fstab or crypttab is a device's."""
    if source == device.path:
        return True
    tag, _equals, value = source.replace('"', "").partition("=")
    if tag in TAGS:
        return bool(value) and TAGS[tag](device).lower() == value.lower()
    link = _BY.fullmatch(source)
    if link:
        return link[2] in device.names if link[1] == "id" else TAGS[link[1].upper()](device) == link[2]
    if source.startswith("/dev/mapper/"):
        return f"dm-name-{source[len('/dev/mapper/') :]}" in device.names
    parts = source.split("/")
    if len(parts) == 4 and parts[1] == "dev":  # noqa: PLR2004 - /dev/GROUP/VOLUME
        mapped = "-".join(part.replace("-", "--") for part in parts[2:])
        return f"dm-name-{mapped}" in device.names
    return False


def merged(now: str, fstab: Fstab, failing: Collection[str], settled: Collection[str]) -> str:
    """Return the text of /etc/fstab with all that comes back.

    failing are places that cannot be mounted now: their lines get nofail, so that no boot waits for them. settled are
    places that came back before: what somebody made of their lines since stays.
    """
    block = owned_block.inside(now, OWNER)
    lines = owned_block.outside(now, OWNER).splitlines()
    for line in fstab.lines:
        if line.place in settled:
            continue
        options = line.options or ("defaults",)
        if line.place in failing and NOFAIL not in options:
            options = (*options, NOFAIL)
        new = line.with_(options=options)
        number = next((number for number, text in enumerate(lines) if _is_line(text, line)), None)
        if number is None:
            lines.append(str(new))
        elif _without_nofail(parse(lines[number])[0]) == _without_nofail(line):
            lines[number] = lines[number] if parse(lines[number])[0].options == new.options else str(new)
    text = "".join(f"{line}\n" for line in lines)
    came = [line for line in fstab.tiers if line.place not in settled]
    tiers = block or "\n".join(map(str, came))
    return owned_block.merged(text, tiers, OWNER) or ""


def _is_line(text: str, line: Line) -> bool:
    found = parse(text)
    return bool(found) and (found[0].source, found[0].place) == (line.source, line.place)


def _without_nofail(line: Line) -> list[str]:
    return [one for one in line.options if one not in (NOFAIL, "defaults")]


def crypttab(text: str, section: Disks, now: str) -> tuple[str, list[list[str]], list[tuple[str, str]]]:
    """Return the captured file without what was on the system disk: its text, its lines, and what lacks.

    Lines of the file that is there now stay, but for those with the name of a captured one: a system that somebody
    installed on an encrypted disk does not start without its own.
    """
    kept, lines, lacking = [], [], []
    there = {fields[0]: line for line in now.splitlines() if len(fields := _fields(line)) >= _LEAST}
    for line in text.splitlines():
        fields = _fields(line)
        if len(fields) < _LEAST:
            kept.append(line)
            continue
        device = device_of(Line((fields[1], "none", "")), section)
        if device is not None and device.root:
            lacking += [] if fields[0] in there else [(fields[0], "it was on the system disk")]
            continue
        if KERNEL_NAME.fullmatch(fields[1]):
            if device is None or not device.uuid:
                lacking.append((fields[0], f"the capture does not know what {fields[1]} was"))
                continue
            fields[1] = f"UUID={device.uuid}"
            line = " ".join(fields)  # noqa: PLW2901
        kept.append(line)
        lines.append(fields)
    own = [line for name, line in there.items() if name not in {fields[0] for fields in lines}]
    return "".join(f"{line}\n" for line in [*kept, *own]), lines, lacking


def _fields(line: str) -> list[str]:
    """Return the fields of a line of crypttab(5); none of a comment."""
    return [] if line.lstrip().startswith("#") else line.split()


def arrays(text: str, section: Disks, now: str, present: Disks) -> str:
    """Return the captured mdadm.conf(5) without arrays that no kept disk is a member of.

    Arrays that the new system lies on are in the file that is there now, and stay; present is what is there now.
    """
    kept, own = _arrays_on(section, root=False), _arrays_on(present, root=True)
    lines = [line for line in text.splitlines() if not line.startswith("ARRAY") or _array(line) in kept]
    lines += [line for line in now.splitlines() if line.startswith("ARRAY") and _array(line) in own - kept]
    return "".join(f"{line}\n" for line in lines)


def _array(line: str) -> str:
    uuid = re.search(r"\bUUID=([0-9a-fA-F:-]+)", line)
    return _digits(uuid[1]) if uuid else ""


def _digits(uuid: str) -> str:
    return uuid.replace(":", "").replace("-", "").lower()


def _arrays_on(section: Disks, *, root: bool) -> set[str]:
    return {_digits(device.uuid) for device in members(section, "linux_raid_member", root=root)}


def members(section: Disks, kind: str, *, root: bool = False) -> Iterator[Device]:
    """Yield what has this type and is on disks that are not the root's, or on those that are."""
    for disk in section.disks:
        if disk.root == root:
            yield from (device for device in disk.whole() if device.type == kind)
