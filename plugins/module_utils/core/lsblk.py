# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The block devices of a node, as lsblk lists them. No I/O happens here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

# Without NAME lsblk does not tell what is made of which device.
COMMAND = ("lsblk", "--json", "--bytes", "--output", "NAME,KNAME,TYPE,SIZE,SERIAL,MAJ:MIN,WWN,TRAN,MODEL,ROTA")


@dataclass(frozen=True)
class Device:
    """A block device: path is the kernel's name for it, size in bytes, number its major:minor.

    below are the devices made of it. wwn is its world wide name, transport nvme, sata, usb and such; each is empty
    where lsblk does not know it.
    """

    path: str
    kind: str
    size: int
    number: str
    serial: str = ""
    below: tuple[str, ...] = ()
    wwn: str = ""
    transport: str = ""
    model: str = ""
    rotational: bool | None = None


def parse(text: str) -> dict[str, Device]:
    """Return the devices in what COMMAND printed, by path."""
    found: dict[str, Device] = {}
    for record in json.loads(text)["blockdevices"] if text.strip() else ():
        _add(record, found)
    return found


def tops(devices: dict[str, Device]) -> list[Device]:
    """Return the devices that are made of no other one."""
    made = {path for device in devices.values() for path in device.below}
    return [device for path, device in devices.items() if path not in made]


def descendants(path: str, devices: dict[str, Device]) -> Iterator[str]:
    """Yield the paths of all devices that are made of one, at any depth: partitions, arrays, volumes."""
    device = devices.get(path)
    for each in device.below if device else ():
        yield each
        yield from descendants(each, devices)


def _add(record: dict[str, Any], found: dict[str, Device]) -> str:
    path = f"/dev/{record['kname']}".replace("!", "/")
    below = [_add(child, found) for child in record.get("children") or ()]
    former = found[path].below if path in found else ()  # one that is made of several is listed below each
    serial, number, wwn, transport, model = (
        (record.get(name) or "").strip() for name in ("serial", "maj:min", "wwn", "tran", "model")
    )
    found[path] = Device(
        path,
        record["type"],
        int(record["size"] or 0),
        number,
        serial,
        tuple(dict.fromkeys([*former, *below])),
        wwn,
        transport,
        model,
        record.get("rota"),
    )
    return path
