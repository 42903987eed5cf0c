# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The devices of a tier: what they come to, or why nothing may be done with them. No I/O happens here.

The steps that write to a device without a filesystem are planned for devices on which blkid, wipefs and a look at their
bytes find nothing at all, and only where the tier says so. Where the look did not read a device whole, the tier must
also say that a person has checked it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.storage import refuse
from ansible_collections.gpulab.node.plugins.module_utils.storage import devices as storage_devices
from ansible_collections.gpulab.node.plugins.module_utils.storage.devices import BY_ID, VOLUME, Content, Devices
from ansible_collections.gpulab.node.plugins.module_utils.storage.steps import Step, Written
from ansible_collections.gpulab.node.plugins.module_utils.storage.tiers import SCRATCH

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.module_utils.storage.tiers import Tier

NAMESPACE = uuid.UUID("7d0e42f4-8d0c-5c1a-9a55-1f2f3c0a6b11")  # of the UUIDs that new filesystems and arrays get


@dataclass(frozen=True)
class Target:
    """What a tier's devices come to: the path that holds, or shall hold, the filesystem; and the steps to get there.

    source is its name in /etc/fstab; devices are all that the tier takes; blank is true where it is to be formatted.
    """

    path: str
    source: str = ""
    devices: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    blank: bool = False


def devices_of(wanted: Iterable[Tier], known: Devices) -> list[str]:
    """Return the paths that deserve a closer look: those of the tiers and what is made of them, but filesystems."""
    paths: list[str] = []
    for tier in wanted:
        for name in tier.devices:
            try:
                path = storage_devices.resolve(name, tier.name, known)
            except Refusal:
                continue  # the plan tells
            paths += [path, *known.descendants(path)]
    return [path for path in dict.fromkeys(paths) if not known.content(path).filesystem]


def of(tier: Tier, known: Devices) -> Target:
    """Return what the devices of a tier come to. Raises Refusal H151 to H158, H164 and H177 for what may not be."""
    name = tier.devices[0]
    if len(tier.devices) == 1 and known.volumes.get(name) is False:
        argv = ("lvchange", "--activate", "y", name[len("/dev/") :])
        step = Step("assemble", f"activate the volume {name} of tier {tier.name}", argv)
        return Target(name, name, (name,), (step,))
    paths = [storage_devices.resolve(each, tier.name, known) for each in tier.devices]
    if len(paths) > 1:
        return _array(tier, paths, known)
    return _single(tier, paths[0], name if VOLUME.fullmatch(name) else "", known)


def _single(tier: Tier, path: str, source: str, known: Devices, members: Iterable[str] = ()) -> Target:
    """Judge the one device that holds, or shall hold, the filesystem; an array goes by the names of its members."""
    content = known.content(path)
    if content.filesystem:
        _check_content(tier, path, content, known)
        return Target(path, source or f"UUID={content.uuid}", (path,))
    _check_blank(tier, [path], known, members)
    return Target(path, source or f"UUID={new_uuid(tier, [path], known)}", (path,), blank=True)


def _check_content(tier: Tier, path: str, content: Content, known: Devices) -> None:
    """Raise Refusal where the filesystem is not the tier's, or in use elsewhere (H156, H157)."""
    if tier.filesystem and tier.filesystem != content.type:
        raise refuse("H156", tier=tier.name, device=known.label(path), found=content.type, wanted=tier.filesystem)
    storage_devices.resolve(f"UUID={content.uuid}", tier.name, known)  # a copy of it must not be mounted in its place
    places = known.places(path)
    elsewhere = [] if tier.mount in places else places  # where it is mounted already, others may have it in theirs
    elsewhere += [f"{known.devices[each].kind} {each}" for each in known.descendants(path)]
    if elsewhere:
        raise refuse("H157", tier=tier.name, device=known.label(path), by=", ".join(elsewhere))


def _check_blank(tier: Tier, paths: list[str], known: Devices, members: Iterable[str] = ()) -> None:
    """Raise Refusal where one of these is not blank (H154), or where nobody asked for a filesystem (H155).

    A device that was not read whole must have been checked by a person, too (H177).
    """
    for path in paths:
        found = storage_devices.findings(path, known)
        if found:
            raise refuse("H154", tier=tier.name, device=known.label(path), found="; ".join(found), path=path)
    if not tier.format:
        raise refuse("H155", tier=tier.name, device=", ".join(map(known.label, paths)))
    partly = [path for path in paths if known.share(path)]
    words = [known.word(path) for path in (members if partly and members else partly)]
    if not set(words) <= set(tier.blank_checked):
        told = ", ".join(f"{known.label(path)}: {known.share(path)}" for path in partly)
        raise refuse("H177", tier=tier.name, read=told, words=", ".join(words))


def _array(tier: Tier, paths: list[str], known: Devices) -> Target:
    """Judge several devices: an array that is there, or one of RAID 0 to be made. Raises Refusal H154, H158, H164."""
    arrays = {known.content(path).array for path in paths}
    if arrays == {""}:
        if tier.purpose != SCRATCH:
            raise refuse("H158", tier=tier.name, devices=", ".join(map(known.label, paths)))
        _check_blank(tier, paths, known)
        return _new_array(tier, paths, known)
    if len(arrays) > 1:
        told = (f"{known.label(path)}: {known.content(path).array or 'not a member of an array'}" for path in paths)
        raise refuse("H164", tier=tier.name, found="; ".join(told))
    array = arrays.pop()
    link = f"{BY_ID}md-uuid-{array}"
    active = [each for each in known.devices[paths[0]].below if known.devices[each].kind.startswith("raid")]
    if active:
        return replace(_single(tier, active[0], link, known, paths), devices=(active[0], *paths))
    _check_unheld(tier, paths, known)
    argv = ("mdadm", "--assemble", f"/dev/md/{tier.name}", *map(known.stable, paths))
    step = Step("assemble", f"assemble the array {array} of tier {tier.name} from {', '.join(paths)}", argv)
    return Target(link, link, tuple(paths), (step,))


def _check_unheld(tier: Tier, paths: list[str], known: Devices) -> None:
    for path in paths:
        by = [*known.places(path), *known.descendants(path)]
        if by:
            raise refuse("H157", tier=tier.name, device=known.label(path), by=", ".join(by))


def _new_array(tier: Tier, paths: list[str], known: Devices) -> Target:
    digits = new_uuid(tier, paths, known).replace("-", "")
    array = ":".join(digits[start : start + 8] for start in range(0, 32, 8))
    argv = [
        *("mdadm", "--create", f"/dev/md/{tier.name}", "--run", "--metadata=1.2", "--level=0"),
        *(f"--raid-devices={len(paths)}", f"--name={tier.name}", f"--uuid={array}"),
    ]
    step = Step(
        "array",
        f"create a RAID 0 of {', '.join(judged(path, known) for path in paths)} for tier {tier.name}",
        (*argv, *map(known.stable, paths)),
        tuple(Written(known.stable(path), known.devices[path]) for path in paths),
    )
    return Target(f"/dev/md/{tier.name}", f"{BY_ID}md-uuid-{array}", tuple(paths), (step,), blank=True)


def judged(path: str, known: Devices) -> str:
    """Say which device this is, and how much of it was read, and was zeros, where that was not all."""
    share = known.share(path) if path in known.devices else ""
    return known.label(path) + (f" (read {share}: only zeros)" if share else "")


def new_uuid(tier: Tier, paths: list[str], known: Devices) -> str:
    """Return the UUID that a new filesystem or array gets: the same each time, for check mode to show it."""
    names = [next(iter(known.names(path)), path) for path in paths]
    return str(uuid.uuid5(NAMESPACE, " ".join([tier.name, *sorted(names)])))
