# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about swap and storage."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
    # H098 to H102: swap
    "H098": (
        "{place} holds {found}, so no swap is made there",
        (
            "Let tuning_swap name a file that does not exist yet, in a directory that does, or a partition by a name"
            " that lasts, which is blank or swap already. Nothing was changed."
        ),
    ),
    "H099": (
        "{mount} has {free} MiB free, but a swap file of {mib} MiB needs {need} MiB",
        "Let tuning_swap name a place on another file system, or set tuning_overrides: {{swap_gib: SIZE}}.",
    ),
    "H100": (
        "{place} is on a file system of type {type}, but swap files are made on {allowed} only",
        "Let tuning_swap name a place on another file system, or a partition.",
    ),
    "H101": (
        "{used} MiB are in the swap {place}, but only {free} MiB of memory are free",
        "Wait for the programs that use the memory, or stop them. The swap stays on until the next run.",
    ),
    "H102": ("{command} failed: {detail}", "Read the message. A swap file that was begun has been removed."),
    # H150 to H177: storage; nothing was changed when one of these is raised, but for H162
    "H150": ("the storage tier {tier} {wrong}", "Correct the tier in storage_tiers. Nothing was changed."),
    "H151": (
        "the storage tier {tier} names {device}, which may be another disk after the next boot",
        "Use a stable path of it, now: {names}. Nothing was changed.",
    ),
    "H152": (
        "the storage tier {tier} names {device}, but this node has no such disk",
        ("Check the disk and its name (lsblk --output NAME,SERIAL,SIZE). The disks are: {known}. Nothing was changed."),
    ),
    "H153": (
        "the storage tier {tier} names {device}, which matches several disks: {found}",
        "Use the path of the right one in /dev/disk/by-id. Nothing was changed.",
    ),
    "H154": (
        "the storage tier {tier} needs {device} to be blank, but it is not: {found}",
        (
            "To keep its data, name its filesystem (UUID=...), its volume or all disks of its array. To lose the"
            " data, create a filesystem on {path} by hand; gpulab never does. Nothing was changed."
        ),
    ),
    "H155": (
        "{device} has no filesystem, and the storage tier {tier} does not allow gpulab to create one",
        "If these are the right disks, set format: true for the tier. Nothing was changed.",
    ),
    "H156": (
        "{device} has the filesystem {found}, but the storage tier {tier} requests {wanted}",
        "Correct filesystem in the tier. gpulab never replaces a filesystem. Nothing was changed.",
    ),
    "H157": (
        "{device} of the storage tier {tier} is in use elsewhere: {by}",
        "Unmount it, or stop what uses it; or name the array or volume that is built on it. Nothing was changed.",
    ),
    "H158": (
        "the storage tier {tier} is for datasets and has several disks without an array: {devices}",
        (
            "gpulab creates RAID 0 for scratch only, because RAID 0 has no redundancy. Create a redundant array or"
            " volume by hand, and name its filesystem. Nothing was changed."
        ),
    ),
    "H159": (
        "{mount}, the mount point of the storage tier {tier}, {wrong}",
        "Clear the directory. Nothing was changed.",
    ),
    "H160": (
        "{file} already has an entry for {mount}: {line}",
        "Remove that entry, and gpulab writes its own; or remove the tier. Nothing was changed.",
    ),
    "H161": (
        "{mount} is to be unmounted, but is in use by {users}",
        "Wait for them to end, or stop them; bring a file server back. Then run again. Nothing was changed.",
    ),
    "H162": (
        "the storage tiers could not be set up: {detail}",
        "Read dmesg, and check the devices named. Changes made before the error remain. Then run again.",
    ),
    "H163": (
        "the storage tier {tier} names {device}, which no disk that could be read has; not read were {unread}",
        "Look at what was not read (dmesg -T, smartctl -a), mend it or replace it, and run again. Nothing was changed.",
    ),
    "H164": (
        "the disks of the storage tier {tier} do not belong to one array: {found}",
        "Name all disks of one array, or blank disks only. Nothing was changed.",
    ),
    "H165": (
        "the storage tiers {one} and {other} share {device}",
        "Use each device in one tier only. Nothing was changed.",
    ),
    "H166": (
        "export_to of the storage tier {tier} is {client}, which allows every machine that reaches this node",
        "Name hosts or networks. To allow every machine, set export_to_everybody for the tier. Nothing was changed.",
    ),
    "H167": (
        "the storage tier {tier} cannot be exported: {wrong}",
        "Remove export_to from the tier, or export it from another machine. Nothing was changed.",
    ),
    "H168": (
        "{file} already exports {path} to {client}, as the storage tier {tier} requests",
        "Remove that line, and gpulab writes its own; or remove export_to. Nothing was changed.",
    ),
    "H169": (
        "the export of {path} to {client} is to end, but clients hold files there: {holders}",
        "Unmount it on the clients. Then run again. Nothing was changed.",
    ),
    "H177": (
        "nothing was found on the devices of the storage tier {tier}, but they were not read whole: {read}",
        (
            "Make sure that nobody needs what may be on them. Then add to the tier: blank_checked: [{words}]. Nothing"
            " was changed."
        ),
    ),
}
refuse = partial(build, CODES)
