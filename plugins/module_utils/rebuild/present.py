# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node is before its rebuild: its machine, system and disks. Nothing is written, and no journal replayed."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.capture import disks, look
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import record

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def read(node: Node, call: Call) -> dict[str, Any]:
    """Return {"machine", "disks", "marker", "used", "mounted"}; call runs a command: (exit status, output, errors).

    machine and disks are as in a manifest; marker is the text that the installer left, empty where there is none; used
    has the used bytes of file systems that are not mounted, by UUID; mounted has the places that a rebuild mounted
    before, which people have worked with since.
    """
    section = disks.read(node, call)
    return {
        "machine": look.machine(node),
        "disks": section,
        "marker": node.text(MARKER),
        "mounted": record.mounted(node.path(str(record.PLACE))),
        "used": {
            device["uuid"]: used
            for device in _unmounted(section["disks"])
            if (used := measured(device, call)) is not None
        },
    }


def same_release(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Tell whether two machines, as in a manifest, run the same release."""
    names = [(one["system"].get("id"), one["system"].get("version")) for one in (before, now)]
    return bool(names[0] == names[1])


def _unmounted(tree: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for device in tree:
        if device["type"] in UNTOUCHED and device["uuid"] and not device["places"] and not device["root"]:
            yield device
        yield from _unmounted(device["below"])


def measured(device: dict[str, Any], call: Call) -> int | None:
    """Return the used bytes of a file system that is not mounted; None where it cannot be looked at."""
    with tempfile.TemporaryDirectory() as place:
        options = [device["type"], UNTOUCHED[device["type"]], device["path"], place]
        rc, output, _errors = call(["unshare", "--mount", "sh", "-c", _MEASURE, "sh", *options])
    words = output.split()
    if rc or len(words) != _NUMBERS:
        return None
    size, blocks, free = map(int, words)
    return (blocks - free) * size
