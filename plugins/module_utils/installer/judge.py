# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether this machine and its disks are those of a plan: asked on the node, then by the installer. No I/O here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.installer import plan as plans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.installer.plan import Kept, Plan, Target

_WORDS = {plans.SERIAL: "serial number", plans.WWN: "WWN"}
_MIB = 1 << 20


@dataclass(frozen=True)
class Machine:
    """A machine: its DMI UUID, "uefi" or "bios", and its memory in bytes."""

    dmi_uuid: str
    firmware: str
    memory: int


@dataclass(frozen=True)
class Disk:
    """A whole disk: path is the kernel's name for it, size in bytes.

    holds are the UUIDs of its partition table, partitions and file systems, in lower case; table is that of its
    partition table, empty where it has none.
    """

    path: str
    size: int
    serial: str = ""
    wwn: str = ""
    holds: frozenset[str] = frozenset()
    table: str = ""


def judge(plan: Plan, machine: Machine, disks: list[Disk]) -> list[str]:
    """Return why the plan must not be carried out here, in plain English; nothing where it may.

    The disk to install on must hold what it held at the capture. After the point of no return it holds the mark of
    this same plan, and the installer goes on.
    """
    reasons = list(plans.faults(plan))
    if reasons:
        return reasons
    return [*_about(plan, machine), *_about_disk(plan, disks), *_about_kept(plan, disks)]


def chosen(plan: Plan, disks: list[Disk]) -> Disk:
    """Return the disk to install on, where judge found no reason against it."""
    (found,) = _named(plan["disk"], disks)
    return found


def is_marked(plan: Plan, disk: Disk) -> bool:
    """Tell whether an installer has begun to carry out this plan on the disk."""
    return disk.table == plans.guid(plan)


def _about(plan: Plan, machine: Machine) -> Iterator[str]:
    if machine.dmi_uuid.lower() != plan["machine"]["dmi_uuid"].lower():
        yield (
            f"This is another machine: its UUID is {machine.dmi_uuid or 'unknown'}, and the plan of {plan['host']} is"
            f" for {plan['machine']['dmi_uuid']}."
        )
    if machine.firmware != plan["firmware"]:
        yield f"The machine was started by {machine.firmware.upper()}, but the plan is for {plan['firmware'].upper()}."
    if machine.memory < plan["least"]["memory"]:
        least = plan["least"]["memory"] // _MIB
        yield f"The machine has {machine.memory // _MIB} MiB of memory, and this needs {least} MiB."


def _about_disk(plan: Plan, disks: list[Disk]) -> Iterator[str]:
    wanted = plan["disk"]
    found, name = _named(wanted, disks), _name(wanted)
    if len(found) != 1:
        yield f"{_count(found)} the {name}, but exactly one must."
        return
    disk = found[0]
    if disk.size != wanted["size"]:
        yield f"The disk with the {name} has {disk.size} bytes, but had {wanted['size']}."
    if disk.size < plan["least"]["disk"]:
        least = plan["least"]["disk"]
        yield f"The disk with the {name} is too small: it has {disk.size} bytes, and this needs {least}."
    if disk.table == plans.guid(plan, plans.DONE):
        yield f"The disk with the {name} was installed by this plan already."
    elif not is_marked(plan, disk) and not _same(wanted, disk):
        yield f"The disk with the {name} holds nothing of what it held at the capture."
    if any(_same(one, disk) for one in plan["kept"]):
        yield f"The disk with the {name} holds what a disk that is kept held at the capture."


def _about_kept(plan: Plan, disks: list[Disk]) -> Iterator[str]:
    others = [disk for disk in disks if disk not in _named(plan["disk"], disks)]
    for one in plan["kept"]:
        if one["kind"] is None:
            alike = [disk for disk in others if disk.size == one["size"] and (_same(one, disk) or not one["holds"])]
            if not alike:
                yield f"A disk that is kept is missing: {one['size']} bytes, {_holding(one)}."
            continue
        found = _named(one, others)
        if len(found) != 1:
            yield f"{_count(found)} the {_name(one)} of a disk that is kept, but exactly one must."
        elif one["holds"] and not _same(one, found[0]):
            yield f"The kept disk with the {_name(one)} holds nothing of what it held at the capture."


def _named(one: Target | Kept, disks: list[Disk]) -> list[Disk]:
    """Return the disks with the name of a disk of the plan."""
    value = (one["value"] or "").strip().lower()
    return [disk for disk in disks if (disk.serial if one["kind"] == plans.SERIAL else disk.wwn).lower() == value]


def _same(one: Target | Kept, disk: Disk) -> bool:
    return not disk.holds.isdisjoint(held.lower() for held in one["holds"])


def _name(one: Target | Kept) -> str:
    return f"{_WORDS[one['kind'] or '']} {one['value']}"


def _count(found: list[Disk]) -> str:
    if not found:
        return "No disk has"
    return f"{len(found)} disks ({', '.join(disk.path for disk in found)}) have"


def _holding(one: Target | Kept) -> str:
    return f"with {', '.join(one['holds'])}" if one["holds"] else "without partitions or file systems"
