# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers for Ubuntu's installer: user-data with autoinstall, for its live server medium."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.plugin_utils.installer import scripts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.installer.plan import Plan
    from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild.new_system import NewFile

PLACE = "/run/gpulab"
PLANNED = "gpulab-planned-disk"  # no disk has this serial number; the guard puts the planned disk's in its place
MIB = 1 << 20
HEADER = "#cloud-config\n# JSON is YAML. As long as the serial number is not the planned disk's, nothing matches.\n"


def render(plan: Plan, files: Mapping[str, NewFile]) -> dict[str, bytes]:
    """Return user-data and meta-data of a NoCloud seed, for a volume with the label CIDATA."""
    text = scripts.archive(scripts.members(plan, files, "autoinstall", PLACE))
    document = {"autoinstall": _document(plan, scripts.unpack(PLACE, text))}
    meta = {"instance-id": f"gpulab-{plan['id']}"}
    return {
        "user-data": HEADER.encode() + json.dumps(document, indent=1).encode("ascii") + b"\n",
        "meta-data": json.dumps(meta).encode("ascii") + b"\n",
    }


def _document(plan: Plan, unpack: str) -> dict[str, Any]:
    return {
        "version": 1,
        "early-commands": [["sh", "-c", unpack], ["sh", f"{PLACE}/{scripts.GUARD}"]],
        "locale": "en_US.UTF-8",
        "keyboard": {"layout": "us"},
        "timezone": "UTC",
        "refresh-installer": {"update": False},
        "ssh": {"install-server": True, "allow-pw": False},
        "packages": ["sudo", "python3"],
        # Without a user of cloud-init: the account is the captured one.
        "user-data": {"hostname": plan["hostname"], "users": [], "disable_root": False, "ssh_deletekeys": False},
        "storage": {
            "swap": {"size": 0},
            "grub": {"probe_additional_os": False},
            "config": list(_storage(plan["firmware"])),
        },
        "kernel-crash-dumps": {"enabled": False},
        "late-commands": [["sh", f"{PLACE}/{scripts.FINISH}", "/target"], *_kernel_arguments(plan)],
        "shutdown": "reboot",
    }


def _storage(firmware: str) -> list[dict[str, Any]]:
    uefi = firmware == "uefi"
    boot = (
        {"id": "esp", "size": 512 * MIB, "flag": "boot", "grub_device": True}
        if uefi
        else {"id": "bios", "size": MIB, "flag": "bios_grub"}
    )
    partition = {"type": "partition", "device": "disk", "preserve": False}
    disk = {
        "type": "disk",
        "id": "disk",
        "match": {"serial": PLANNED},
        "ptable": "gpt",
        "wipe": "superblock-recursive",
        "preserve": False,
        "grub_device": not uefi,
    }
    actions = [disk, {**partition, **boot}, {**partition, "id": "root", "size": -1}]
    if uefi:
        actions.append({"type": "format", "id": "esp-fs", "volume": "esp", "fstype": "fat32"})
    actions.append({"type": "format", "id": "root-fs", "volume": "root", "fstype": "ext4"})
    actions.append({"type": "mount", "id": "root-mount", "device": "root-fs", "path": "/"})
    if uefi:
        actions.append({"type": "mount", "id": "esp-mount", "device": "esp-fs", "path": "/boot/efi"})
    return actions


def _kernel_arguments(plan: Plan) -> list[list[str]]:
    if not plan["kernel_arguments"]:
        return []
    line = f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {" ".join(plan["kernel_arguments"])}"'
    return [
        ["sh", "-c", f"echo '{line}' >/target/etc/default/grub.d/gpulab-installer.cfg"],
        ["curtin", "in-target", "--", "update-grub"],
    ]
