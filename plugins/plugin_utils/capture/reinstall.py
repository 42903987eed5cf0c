# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a reinstall would wipe and keep, by the manifest of a capture, and what stands in its way. No I/O here.

Only the disks that / lies on are wiped. A disk is named by its serial number or its WWN, never by the kernel's name,
which another boot may give to another disk.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core.fstab import Line
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import first
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import storage
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.disks import Device, Disks
    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.files import Remainder
    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.manifest import Manifest

SWAP = "(swap)"
UNENCRYPTED = "unencrypted"  # of reinstall_allow
CRYPT = "crypt"  # how lsblk calls what is opened of an encrypted device
SERIAL, WWN = "serial", "wwn"
MOST_NAMED = 3  # paths in one refusal; the manifest has all
_THOUSAND = 1000
_UNITS = ("B", "kB", "MB", "GB", "TB")


@dataclass(frozen=True)
class Reinstall:
    """The plan of a reinstall.

    disk names the one to install on: ("serial", "S5GX...") or ("wwn", "eui.0025..."), None where that is not certain.
    wipe and keep say in words what is on each disk; blockers are the refusals that hold as long as the node is as the
    capture found it.
    """

    disk: tuple[str, str] | None
    wipe: tuple[str, ...]
    keep: tuple[str, ...]
    blockers: tuple[Refusal, ...]

    def lines(self) -> list[str]:
        """Return the plan as people read it."""
        return [*(f"WIPE {one}" for one in self.wipe), *(f"KEEP {one}" for one in self.keep)]


def plan(manifest: Manifest, allow: Collection[str] = ()) -> Reinstall:
    """Return the plan of a reinstall; allow has what the lab gives up by name.

    The blockers are R002, R004, R005, R014, R015, R016, R021 and R080.
    """
    disks = manifest.sections.disks
    root = [one for one in disks.disks if one.root]
    others = [one for one in disks.disks if not one.root]
    named = [identity(one, disks.disks) for one in root]
    return Reinstall(
        named[0] if len(named) == 1 else None,
        tuple(in_words(one, disks) for one in root),
        tuple(in_words(one, disks) for one in others),
        (*_blockers(manifest, root, disks), *(() if UNENCRYPTED in allow else _unencrypted(manifest))),
    )


def identity(disk: Device, disks: list[Device]) -> tuple[str, str] | None:
    """Return what names a disk and no other one of the node: its serial number, or its WWN; None where neither does.

    Namespaces of one NVMe drive share its serial number; cheap adapters for USB give all disks the same one.
    """
    for kind in (SERIAL, WWN):
        name = name_of(disk, kind)
        if name.strip("0xX-_. ") and [name_of(one, kind) for one in disks].count(name) == 1:
            return kind, name
    return None


def name_of(disk: Device, kind: str) -> str:
    """Return the serial number of a disk, or its WWN; empty where it has none."""
    return disk.serial if kind == SERIAL else disk.wwn


def in_words(disk: Device, section: Disks) -> str:
    """Return a line about a disk: what names it, its model and size, and what is on it."""
    named = identity(disk, section.disks)
    name = f"{'serial' if named[0] == SERIAL else 'WWN'} {named[1]}" if named else f"{disk.path} without a name"
    kind = ", ".join(filter(None, (disk.model, disk.transport, _size(disk.size))))
    used = {one.mount: one.used for one in section.filesystems}
    holds = list(_holds(disk, used, encrypted=False))
    holds += [f"part of {group.name}" for group in section.groups if disk.path in group.disks]
    return f"{name} ({kind}): {'; '.join(dict.fromkeys(holds)) or 'nothing that is known'}"


def _holds(device: Device, used: dict[str, int | None], *, encrypted: bool) -> Iterator[str]:
    encrypted = encrypted or device.type == "crypto_LUKS"
    if device.type and not device.below:
        words = [f"{device.type} {device.label or device.uuid}".strip()]
        places = [place for place in device.places if place != SWAP]
        words += [f"at {', '.join(places)}"] if places else ["in use"] if device.places else ["not mounted"]
        if encrypted and device.type != "crypto_LUKS":
            words.append("(encrypted)")
        sizes = [used[place] for place in places if used.get(place) is not None]
        yield " ".join(words) + (f", {_size(max(filter(None, sizes), default=0))} used" if sizes else "")
    elif device.trouble:
        yield f"{device.path}, of which {device.trouble}"
    for each in device.below:
        yield from _holds(each, used, encrypted=encrypted)


def _size(count: float) -> str:
    for unit in _UNITS:
        if count < _THOUSAND or unit == _UNITS[-1]:
            break
        count /= _THOUSAND
    return f"{count:.3g} {unit}" if count < _THOUSAND else f"{count:.0f} {unit}"


def _blockers(manifest: Manifest, root: list[Device], disks: Disks) -> Iterator[Refusal]:
    host = manifest.host
    doubt = _doubt(root, disks)
    if doubt:
        yield refuse("R004", host=host, detail=doubt)
    wiped, words = {one.path for one in root}, ", ".join(_name(one) for one in root)
    if wiped:
        for group in disks.groups:
            kept = [_name(one) for one in disks.disks if one.path in set(group.disks) - wiped]
            if kept and wiped & set(group.disks):
                yield refuse("R005", host=host, group=group.name, root=words, others=", ".join(kept))
        yield from _boot(host, disks, wiped, words)
    yield from _lost(manifest)
    for one in disks.exports:
        if one.on_root_disk and one.users:
            yield refuse("R016", host=host, path=one.path, users=", ".join(one.users))
    acknowledged = {one.path for one in manifest.acknowledged}
    for unseen in disks.unseen:
        if unseen.path not in acknowledged:
            what = ", ".join(filter(None, (unseen.type, unseen.label, _size(unseen.size) if unseen.size else "")))
            yield refuse("R021", host=host, path=unseen.path, what=what or "unknown", why=unseen.why)


def encrypted(disks: Disks) -> list[str]:
    """Return where the system disk is mounted through an encryption: LUKS, or the kernel's without a header."""
    of_the_system = [device for disk in disks.disks if disk.root for device in disk.whole()]
    opened = [each for device in of_the_system if device.kind == CRYPT for each in device.whole()]
    return list(dict.fromkeys(place for each in opened for place in each.places if place != SWAP))


def _unencrypted(manifest: Manifest) -> Iterator[Refusal]:
    """Yield a refusal for an encryption that a reinstall would end; keys of other disks lose their protection, too."""
    disks = manifest.sections.disks
    places, captured = encrypted(disks), {one["path"] for one in manifest.files}
    devices = {line.name: storage.device_of(Line((line.device, "none", "")), disks) for line in disks.crypttab}
    others = [line for line in disks.crypttab if not (device := devices[line.name]) or not device.root]
    keys = sorted({path for line in others for path in line.files if path in captured})
    if places:
        also = f"; keys of other disks would lie there in the clear: {first(keys, MOST_NAMED)}" if keys else ""
        yield refuse("R080", host=manifest.host, places=", ".join(places), keys=also)


def _doubt(root: list[Device], disks: Disks) -> str:
    """Say why it is not certain which disk would be wiped; nothing where it is."""
    if disks.container:
        return f"it is a container ({disks.container}), which has no disk of its own"
    if not root:
        return f"/ is on no disk that is known, but on {disks.root.source or 'nothing'}"
    if len(root) > 1:
        return f"/ is on {len(root)} disks: {', '.join(_name(one) for one in root)}"
    if identity(root[0], disks.disks) is None:
        serial, wwn = root[0].serial, root[0].wwn
        found = [f"the serial number {serial}"] if serial else []
        found += [f"the WWN {wwn}"] if wwn else []
        having = f"{' and '.join(found)}, but not alone" if found else "neither serial number nor WWN"
        return f"its disk {root[0].path} has {having}"
    return ""


def _name(disk: Device) -> str:
    name = disk.serial or disk.wwn
    return f"{disk.path} ({name})" if name else disk.path


def _boot(host: str, disks: Disks, wiped: set[str], words: str) -> Iterator[Refusal]:
    """Yield refusals for what the node boots from and a reinstall would leave behind."""
    found = False
    for one in disks.boot_devices:
        found = found or one.place != "/boot"
        foreign = sorted(set(one.disks) - wiped)
        if foreign:
            yield refuse("R015", host=host, place=one.place, disk=", ".join(foreign), root=words)
    esps = {disk.path: _has_esp(disk) for disk in disks.disks}
    if disks.uefi and not found and any(esps.values()) and not any(esps[path] for path in wiped):
        elsewhere = ", ".join(path for path, has in esps.items() if has)
        yield refuse("R015", host=host, place="the EFI system partition", disk=elsewhere, root=words)


def _has_esp(device: Device) -> bool:
    return device.esp or any(_has_esp(each) for each in device.below)


def _lost(manifest: Manifest) -> Iterator[Refusal]:
    """Yield a refusal for each home and volume on the root disk that nothing brings back, and one for the rest."""
    sections = manifest.sections
    places = {user.home: f"home of {user.name}" for user in sections.users if user.home_on_root_disk}
    for engine in sections.containers.engines:
        for volume in engine.volumes:
            if volume.on_root_disk:
                places[volume.mountpoint] = f"volume {volume.name} of {engine.program}"
    others = manifest.remainder
    for place, what in places.items():
        path = posixpath.normpath(place)
        rest = [one for one in manifest.remainder if path != "/" and _overlap(one.path, path)]
        others = [one for one in others if one not in rest]
        if rest:
            yield refuse("R014", host=manifest.host, path=path, what=what, **_amount(rest))
    if others:
        paths = first([one.path for one in others], MOST_NAMED)
        yield refuse("R002", host=manifest.host, paths=paths, **_amount(others))


def _amount(rest: list[Remainder]) -> dict[str, str]:
    count = sum(one.files for one in rest)
    return {"files": "1 file" if count == 1 else f"{count} files", "size": _size(sum(one.bytes for one in rest))}


def _overlap(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other.rstrip('/')}/") or other.startswith(f"{one.rstrip('/')}/")
