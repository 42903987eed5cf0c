# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tiers of storage that gpulab keeps in /etc/fstab, and what is mounted in their places."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.storage import devices, exports, plan, tiers

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import Mount
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.machine import Export, Tier


def read(node: Node) -> list[Tier]:
    """Return the facts ``storage``, a record for each line of gpulab's in /etc/fstab.

    declared is the device that the line names now, source itself where it is of NFS, None where the node has no such
    device; mounted is the device in that place, None where nothing is mounted; waits tells whether an automount of the
    line waits there instead; there tells whether the device is still on the node; options are those of the mount that
    differ from the line's; exports are those of this place in gpulab's file of exports, each with its client, whether
    the server offers it now, and the options that it lacks.
    """
    found = devices.mounts(node.text("/proc/self/mountinfo"), node.resolve)
    return [_record(entry, devices.at(entry.mount, found), node) for entry in plan.entries(node.text(plan.FSTAB))]


def _record(entry: plan.Entry, mount: Mount | None, node: Node) -> Tier:
    nfs = entry.type == "nfs"
    waits = plan.automounted(entry, mount)
    mount = None if waits else mount
    declared = exports.parse(node.text(exports.FILE))
    return {
        "mount": entry.mount,
        "source": entry.source,
        "declared": tiers.export_of(entry.source) if nfs else _named(entry.source, node),
        "mounted": (tiers.export_of(mount.source) if nfs else _mounted(mount, node)) if mount else None,
        "waits": waits,
        "there": bool(mount) and (nfs or node.exists(_block(mount))),  # type: ignore[arg-type]
        "options": sorted(plan.different_options(entry.options, mount.options)) if mount else [],
        "exports": [_export(one, node) for one in declared if one.path == entry.mount],
    }


def _export(declared: exports.Export, node: Node) -> Export:
    runs = bool(node.number("/proc/fs/nfsd/threads"))
    entry = exports.live(declared, node.text(exports.TABLE), node.text("/etc/hosts")) if runs else None
    return {
        "client": declared.client,
        "live": entry is not None,
        "missing": exports.missing(declared, entry) if entry else [],
    }


def _named(source: str, node: Node) -> str | None:
    path = f"/dev/disk/by-uuid/{source[5:]}" if source.startswith("UUID=") else source
    return node.resolve(path) if node.link(path) else None


def _mounted(mount: Mount, node: Node) -> str:
    """Return the kernel's own name of a mounted device, whatever it was mounted by."""
    block = _block(mount)
    return f"/dev/{posixpath.basename(node.resolve(block))}" if node.link(block) else mount.source


def _block(mount: Mount) -> str:
    """Return where the kernel tells of a mounted device: by its number, which Btrfs does not tell, or by its name."""
    if mount.device.startswith("0:"):
        return f"/sys/class/block/{mount.source.replace('/dev/', '', 1).replace('/', '!')}"
    return f"/sys/dev/block/{mount.device}"
