# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node is before its rebuild: its machine, system and disks. Nothing is written, and no journal replayed."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.capture import disks, look
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.disks import Device, Disks
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.machine import Machine
from ansible_collections.gpulab.node.plugins.module_utils.core.records import typed
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import record

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.module_utils.storage.host import Call

MARKER = "/etc/gpulab-installed-by"
# How a file system is mounted so that not a bit of its device changes.
UNTOUCHED = {
    "ext2": "ro",
    "ext3": "ro,noload",
    "ext4": "ro,noload",
    "xfs": "ro,norecovery",
    "btrfs": "ro,rescue=nologreplay",
}
# In a mount namespace of its own, which ends with the shell, and with it the mount.
_MEASURE = 'mount -t "$1" -o "$2" -- "$3" "$4" && stat --file-system --format "%S %b %f" -- "$4"'
_NUMBERS = 3


@dataclass(frozen=True)
class Present:
    """A node before its rebuild.

    marker is the text that the installer left, empty where there is none; used has the used bytes of file systems that
    are not mounted, by UUID; mounted has the places that a rebuild mounted before, which people have worked with since.
    """

    machine: Machine
    disks: Disks
    marker: str
    used: dict[str, int]
    mounted: list[str]


def read(node: Node, call: Call) -> Present:
    """Look at the node; call runs a command: (exit status, output, errors)."""
    section = disks.read(node, call)
    unmounted = [device for disk in section.disks for device in disk.whole() if _is_unmounted(device)]
    sizes = {device.uuid: measured(device, call) for device in unmounted}
    return Present(
        typed(look.machine(node), Machine),
        section,
        node.text(MARKER),
        {uuid: used for uuid, used in sizes.items() if used is not None},
        record.mounted(node.path(str(record.PLACE))),
    )


def _is_unmounted(device: Device) -> bool:
    return device.type in UNTOUCHED and bool(device.uuid) and not device.places and not device.root


def measured(device: Device, call: Call) -> int | None:
    """Return the used bytes of a file system that is not mounted; None where it cannot be looked at."""
    with tempfile.TemporaryDirectory() as place:
        options = [device.type, UNTOUCHED[device.type], device.path, place]
        rc, output, _errors = call(["unshare", "--mount", "sh", "-c", _MEASURE, "sh", *options])
    words = output.split()
    if rc or len(words) != _NUMBERS:
        return None
    size, blocks, free = map(int, words)
    return (blocks - free) * size
