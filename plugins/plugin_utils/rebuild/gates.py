# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a node may be rebuilt from a capture: the same machine, the planned disk, the kept disks untouched.

No I/O here. What differs is refused unless the lab allowed it by name, and is then said.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.rebuild.arguments import DISKS, HARDWARE, RELEASE
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.present import MARKER
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import reinstall
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.disks import Device, Disks, Filesystem
    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.machine import Release
    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
    from ansible_collections.gpulab.node.plugins.module_utils.rebuild.present import Present
    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.manifest import Manifest

SECTION = "gates"
MIB = 1 << 20
# A file system that was not unmounted cleanly may show this much less than it has: bytes, and a share.
SLACK, SLACK_SHARE = MIB, 0.01
# Packages that bring up what lies on disks or servers, by family of the system.
PACKAGES = {
    "linux_raid_member": {"debian": "mdadm", "rhel": "mdadm"},
    "LVM2_member": {"debian": "lvm2", "rhel": "lvm2"},
    "crypto_LUKS": {"debian": "cryptsetup", "rhel": "cryptsetup"},
    "btrfs": {"debian": "btrfs-progs"},
    "xfs": {"debian": "xfsprogs", "rhel": "xfsprogs"},
    "nfs": {"debian": "nfs-common", "rhel": "nfs-utils"},
    "nfs4": {"debian": "nfs-common", "rhel": "nfs-utils"},
    "cifs": {"debian": "cifs-utils", "rhel": "cifs-utils"},
}
# From these releases on, systemd's part that unlocks by /etc/crypttab is a package of its own, which cryptsetup does
# not ask for.
UNLOCKS, SPLIT = "systemd-cryptsetup", {"debian": 13, "ubuntu": 25}


@dataclass(frozen=True)
class Verdict:
    """What stands in the way of a rebuild, and what differs and is allowed, or is only said."""

    refusals: list[Refusal]
    said: list[dict[str, str]]


def judge(manifest: Manifest, capture: str, found: Present, plan: str | None, allow: Collection[str]) -> Verdict:
    """Return the verdict on a node; capture is the name of the one, found is what the node is now.

    plan is the id of the plan by which the installer was sent, None where a person installed. The refusals are R003,
    R011, R012 and R040.
    """
    refusals: list[Refusal] = []
    said: list[dict[str, str]] = []
    checks = [
        (HARDWARE, _machine(manifest, found)),
        (RELEASE, _release(manifest, capture, found, plan)),
        (DISKS, _installation(manifest, capture, found, plan)),
        (DISKS, _kept(manifest, found)),
    ]
    for allowance, differing in checks:
        for refusal in differing:
            if allowance in allow:
                said.append({"section": SECTION, "name": allowance, "why": f"allowed, though {refusal.cause}"})
            else:
                refusals.append(refusal)
    said += [{"section": SECTION, "name": DISKS, "why": text} for text in _grown(manifest, found)]
    return Verdict(refusals, said)


def packages(manifest: Manifest, now: Release) -> list[str]:
    """Return the packages without which what the capture saw mounted or assembled does not come back.

    They are those that the node had, and what the system that it has now has made another package since.
    """
    family = manifest.machine.system.family
    section = manifest.sections.disks
    kinds = {device.type for disk in section.disks if not disk.root for device in disk.whole()}
    kinds |= {line.type for line in section.fstab}
    had = {one.name for one in manifest.sections.packages or ()}
    found = {names[family] for kind, names in PACKAGES.items() if kind in kinds and family in names} & had
    major = (now.version or "").partition(".")[0]
    if "crypto_LUKS" in kinds and now.id in SPLIT and major.isdigit() and int(major) >= SPLIT[now.id]:
        found.add(UNLOCKS)
    return sorted(found)


def _machine(manifest: Manifest, found: Present) -> Iterator[Refusal]:
    before, now = manifest.machine, found.machine
    inside = manifest.sections.disks.container or "", found.disks.container or ""
    if bool(inside[0]) != bool(inside[1]):
        detail = "one of both is a container"
    elif before.dmi_uuid.lower() == now.dmi_uuid.lower() and (now.dmi_uuid or inside[1]):
        return
    else:
        detail = f"its DMI uuid is {now.dmi_uuid or 'unknown'}, not {before.dmi_uuid or 'known'}"
    yield refuse("R003", host=manifest.host, detail=detail)


def _release(manifest: Manifest, capture: str, found: Present, plan: str | None) -> Iterator[Refusal]:
    """Yield R040, but where the installer was sent with a plan that the lab has confirmed, release and all."""
    if not manifest.machine.same_release(found.machine) and not _is_planned(found.marker, plan):
        names = {"found": found.machine.system.name, "captured": manifest.machine.system.name}
        yield refuse("R040", host=manifest.host, capture=capture, **names)


def _installation(manifest: Manifest, capture: str, found: Present, plan: str | None) -> Iterator[Refusal]:
    detail = _unplanned_disk(manifest, found)
    if found.marker and not _has_marker(manifest):  # a capture of this very installation has it, too
        detail = _foreign_marker(manifest, capture, found.marker, plan) or detail
    if detail:
        yield refuse("R011", host=manifest.host, capture=capture, detail=detail)


def _is_planned(marker: str, plan: str | None) -> bool:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return plan is not None and json.loads(marker)["plan"] == plan
    return False


def _has_marker(manifest: Manifest) -> bool:
    return any(entry["path"] == MARKER for entry in manifest.files)


def _foreign_marker(manifest: Manifest, capture: str, marker: str, plan: str | None) -> str:
    try:
        told = json.loads(marker)
        found = {name: str(told[name]) for name in ("host", "capture", "plan")}
    except (ValueError, KeyError, TypeError):
        return f"{MARKER} is damaged"
    wanted = {"host": manifest.host, "capture": capture, "plan": plan or found["plan"]}
    return ", ".join(f"its {name} is {found[name]}" for name in wanted if found[name] != wanted[name])


def _unplanned_disk(manifest: Manifest, found: Present) -> str:
    """Say why the system is not on the disk where it was; nothing where it is."""
    planned = reinstall.plan(manifest).disk
    if manifest.sections.disks.container:
        return ""
    disks = found.disks.disks
    root = [one for one in disks if one.root]
    named = [reinstall.identity(one, disks) for one in root]
    if planned is not None and named == [planned]:
        return ""
    words = ", ".join(reinstall.in_words(one, found.disks) for one in root) or "no disk that is known"
    return f"its system is on {words}, not on {' '.join(planned) if planned else 'a disk that the capture names'}"


def _kept(manifest: Manifest, found: Present) -> Iterator[Refusal]:
    before, now = manifest.sections.disks, found.disks
    for disk in before.disks:
        if disk.root:
            continue
        other = _counterpart(disk, before.disks, now.disks)
        for detail in _differences(disk, other):
            yield _changed(manifest, disk, detail)
        if other is None:
            continue
        used = used_bytes(now, found.used)
        for one, least, _most in _measured(before, disk):
            if one.mount not in found.mounted and used.get(one.uuid, least) < least:
                detail = f"{one.mount} has {used[one.uuid]} bytes used, and had {one.used}"
                yield _changed(manifest, disk, detail)


def _changed(manifest: Manifest, disk: Device, detail: str) -> Refusal:
    words = reinstall.in_words(disk, manifest.sections.disks)
    return refuse("R012", disk=words, host=manifest.host, detail=detail)


def _measured(section: Disks, disk: Device) -> Iterator[tuple[Filesystem, int, int]]:
    """Yield the file systems of a disk, with the least and the most used bytes that are no change."""
    for one in section.filesystems:
        if disk.path in one.disks and one.uuid and one.used:
            slack = max(SLACK, int(one.used * SLACK_SHARE))
            yield one, one.used - slack - _kept_aside(one, one.used), one.used + slack


def _kept_aside(one: Filesystem, used: int) -> int:
    """Return how many bytes at most count as used while it is mounted for writing, and not as it is looked at here.

    Btrfs has its global reserve, which is as large as its own trees, up to 512 MiB; XFS 8192 blocks and room for the
    trees of each allocation group.
    """
    if one.type == "btrfs":
        return min(512 * MIB, max(16 * MIB, used // 2))
    if one.type == "xfs":
        return 64 * MIB + int((one.size or 0) * 0.03)
    return 0


def used_bytes(section: Disks, unmounted: dict[str, int]) -> dict[str, int]:
    """Return the used bytes of file systems by UUID, mounted or not."""
    mounted = {one.uuid: one.used for one in section.filesystems if one.uuid and one.used is not None}
    return {**unmounted, **mounted}


def _grown(manifest: Manifest, found: Present) -> Iterator[str]:
    before, used = manifest.sections.disks, used_bytes(found.disks, found.used)
    kept = [disk for disk in before.disks if not disk.root]
    grown = {one.mount: (one, most) for disk in kept for one, _least, most in _measured(before, disk)}
    for place, (one, most) in grown.items():
        now = used.get(one.uuid, 0)
        if now > most:
            yield f"{place} has {now} bytes used, and had {one.used} when it was captured"


def _counterpart(disk: Device, before: list[Device], now: list[Device]) -> Device | None:
    """Return the disk that a captured one is now: by its own name, else by its size and what it holds."""
    named = reinstall.identity(disk, before)
    if named:
        return next((one for one in now if reinstall.name_of(one, named[0]) == named[1]), None)
    return next((one for one in now if one.size == disk.size and _holds(disk) <= _holds(one)), None)


def _differences(disk: Device, other: Device | None) -> Iterator[str]:
    if other is None:
        yield "it is not there"
        return
    if other.root:
        yield "the system was installed on it"
    if other.size != disk.size:
        yield f"its size is {other.size} bytes, not {disk.size}"
    for kind, label, uuid in sorted(_holds(disk) - _holds(other)):
        yield f"{kind} {label or uuid} ({uuid}) is not on it".replace("  ", " ")


def _holds(disk: Device) -> set[tuple[str, str, str]]:
    """Return what lies on a disk and its partitions themselves: (type, label, UUID). Nothing has to be assembled."""
    own = [disk, *(each for each in disk.below if each.kind == "part")]
    found = {(one.type, one.label, one.uuid) for one in own if one.type}
    return found | {("partition", "", one.part_uuid) for one in own if one.part_uuid}
