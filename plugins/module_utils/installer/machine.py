# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a machine and its disks for the judge. Nothing is opened for writing."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Callable

from ansible_collections.gpulab.node.plugins.module_utils.core import lsblk
from ansible_collections.gpulab.node.plugins.module_utils.installer.judge import Disk, Machine
from ansible_collections.gpulab.node.plugins.module_utils.installer.plan import BIOS, UEFI

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.lsblk import Device
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

Call = Callable[[list[str]], str]  # runs a command, and returns its output; empty where it fails
BLKID = ["blkid", "--probe", "--output", "export"]
SECONDS = 20.0  # for one of these; a disk that does not answer holds nothing that is known
NOT_A_DISK = re.compile(r"(?:loop|zram|ram|sr|fd|nbd|md|dm-)\d+")
_HELD = ("UUID", "PTUUID", "PART_ENTRY_UUID")


def output(argv: list[str]) -> str:
    """Return what a command prints; nothing where it fails or does not answer."""
    try:
        done = subprocess.run(argv, capture_output=True, check=False, timeout=SECONDS, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""


def machine(node: Node) -> Machine:
    """Return which machine this is; root alone may read its UUID."""
    total = re.search(r"^MemTotal: +(\d+) kB", node.text("/proc/meminfo"), re.MULTILINE)
    return Machine(
        node.text("/sys/class/dmi/id/product_uuid"),
        UEFI if node.is_dir("/sys/firmware/efi") else BIOS,
        int(total[1]) << 10 if total else 0,
    )


def disks(call: Call = output) -> list[Disk]:
    """Return the whole disks, with what each holds."""
    devices = lsblk.parse(call([*lsblk.COMMAND]))
    return [_disk(device, devices, call) for device in lsblk.tops(devices) if _is_disk(device)]


def _is_disk(device: Device) -> bool:
    name = device.path[len("/dev/") :]
    return device.kind == "disk" and bool(device.size) and not NOT_A_DISK.fullmatch(name)


def _disk(device: Device, devices: dict[str, Device], call: Call) -> Disk:
    paths = dict.fromkeys((device.path, *lsblk.descendants(device.path, devices)))
    probed = {path: _fields(call([*BLKID, path])) for path in paths}
    return Disk(
        device.path,
        device.size,
        device.serial,
        device.wwn,
        frozenset(fields[name].lower() for fields in probed.values() for name in _HELD if fields.get(name)),
        probed[device.path].get("PTUUID", "").lower(),
    )


def _fields(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
