# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take all disks but one out of the kernel, so that nothing can write to them: no partitioner, no boot loader, no slip.

A SCSI or SATA disk is deleted alone; another one goes with the PCI device, or the host, that it hangs on.
https://docs.kernel.org/admin-guide/abi-testing.html (remove), scsi_sysfs.c (delete)
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from ansible_collections.gpulab.node.plugins.module_utils.installer.machine import NOT_A_DISK

SYS = Path("/sys")
SECONDS = 30.0  # for a disk to go
_MADE = re.compile(r"(?:md|dm-)\d+")  # of disks
_CONTROLLER = re.compile(r"nvme\d+")


class InseparableError(Exception):
    """A disk cannot be taken out of the kernel; its text says why."""


def disks(sys: Path = SYS) -> dict[str, Path]:
    """Return the disks that the kernel has by name, each with its place in /sys."""
    found = {path.name: path.resolve() for path in (sys / "block").iterdir() if not NOT_A_DISK.fullmatch(path.name)}
    return {name: place for name, place in found.items() if (place / "device").exists()}


def separate(chosen: str, sys: Path = SYS, seconds: float = SECONDS) -> dict[str, list[Path]]:
    """Take all disks but the chosen one out of the kernel, and see them gone; return by which files of /sys.

    Raises InseparableError before anything is written to a disk.
    """
    made = sorted(path.name for path in (sys / "block").iterdir() if _MADE.fullmatch(path.name) and _size(path))
    if made:
        message = f"{', '.join(made)} was assembled of disks, which are in use by that"
        raise InseparableError(message)
    there = disks(sys)
    others = {name: place for name, place in there.items() if not _part_of(place, there[chosen])}
    switches = {name: _switches(name, place, sys) for name, place in others.items()}
    for name, found in switches.items():
        for switch in found:
            if there[chosen].is_relative_to(switch.parent) or switch in _switches_of_controllers(there[chosen]):
                message = f"{name} hangs on the same controller as {chosen}, and cannot be taken away alone"
                raise InseparableError(message)
    for found in switches.values():
        for switch in found:
            if switch.exists():  # it may have gone with another one
                switch.write_text("1")
    deadline = time.monotonic() + seconds
    while left := sorted(disks(sys).keys() & others.keys()):
        if time.monotonic() > deadline:
            message = f"{', '.join(left)} did not leave the kernel"
            raise InseparableError(message)
        time.sleep(0.1)
    return switches


def _size(path: Path) -> int:
    try:
        return int((path / "size").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def _part_of(place: Path, chosen: Path) -> bool:
    """Tell whether a disk is the chosen one, or a part of its device, as the boot partitions of eMMC."""
    return place == chosen or place.is_relative_to(chosen)


def _switches(name: str, place: Path, sys: Path) -> list[Path]:
    """Return the files that take a disk away: its own, or that of the nearest device above that has one."""
    own = (place / "device").resolve() / "delete"
    if own.exists():
        return [own]
    controllers = _switches_of_controllers(place)
    if controllers:
        return controllers
    above = place.parent
    while above not in (sys.resolve(), above.parent):
        if (above / "remove").exists():
            return [above / "remove"]
        above = above.parent
    message = f"the kernel has no way to take {name} away"
    raise InseparableError(message)


def _switches_of_controllers(place: Path) -> list[Path]:
    """Return those of an NVMe drive's controllers, which has several paths where the kernel uses them as one."""
    device = (place / "device").resolve()
    if not device.name.startswith("nvme-subsys"):
        return []
    controllers = [(path / "device").resolve() for path in device.iterdir() if _CONTROLLER.fullmatch(path.name)]
    return [path / "remove" for path in controllers if (path / "remove").exists()]
