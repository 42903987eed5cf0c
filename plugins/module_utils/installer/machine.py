# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a machine and its disks for the judge. Nothing is opened for writing."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING, Any, Callable

from ansible_collections.gpulab.node.plugins.module_utils.installer.judge import Disk, Machine
from ansible_collections.gpulab.node.plugins.module_utils.installer.plan import BIOS, UEFI

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

Call = Callable[[list[str]], str]  # runs a command, and returns its output; empty where it fails
LSBLK = ["lsblk", "--json", "--bytes", "--output", "NAME,KNAME,TYPE,SIZE,SERIAL,WWN"]
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
    listed = call(LSBLK)
    return [_disk(one, call) for one in json.loads(listed)["blockdevices"] if _is_disk(one)] if listed else []


def _is_disk(record: dict[str, Any]) -> bool:
    return record["type"] == "disk" and bool(record["size"]) and not NOT_A_DISK.fullmatch(str(record["kname"]))


def _disk(record: dict[str, Any], call: Call) -> Disk:
    probed = {path: _fields(call([*BLKID, path])) for path in dict.fromkeys(_paths(record))}
    path = next(iter(probed))
    return Disk(
        path,
        int(record["size"]),
        (record.get("serial") or "").strip(),
        (record.get("wwn") or "").strip(),
        frozenset(fields[name].lower() for fields in probed.values() for name in _HELD if fields.get(name)),
        probed[path].get("PTUUID", "").lower(),
    )


def _paths(record: dict[str, Any]) -> Iterator[str]:
    yield f"/dev/{record['kname']}".replace("!", "/")
    for child in record.get("children", ()):
        yield from _paths(child)


def _fields(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
