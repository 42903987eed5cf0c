# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The firmware's own description of the memory modules, from the tables of SMBIOS (DMTF DSP0134, types 16 and 17)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.machine import MemoryModule

TABLE = "/sys/firmware/dmi/tables/DMI"  # for root only
_HEADER = 4  # type, length, handle
_ARRAY, _MODULE, _END = 16, 17, 127
_SYSTEM_MEMORY = 3
_CORRECTIONS = {3: False, 4: False, 5: True, 6: True}  # none, parity, of one bit, of several; others say nothing
_TYPES = {0x18: "DDR3", 0x1A: "DDR4", 0x1E: "LPDDR4", 0x20: "HBM", 0x21: "HBM2", 0x22: "DDR5", 0x23: "LPDDR5"}
_UNKNOWN, _LARGE, _IN_KIB = 0xFFFF, 0x7FFF, 0x8000


def read(node: Node) -> tuple[list[MemoryModule], bool | None]:
    """Return the modules of the memory: see parse; nothing where the table cannot be read."""
    return parse(node.data(TABLE) or b"")


def parse(table: bytes) -> tuple[list[MemoryModule], bool | None]:
    """Return the modules, and whether the memory corrects errors.

    mts are megatransfers a second, those that a module runs at and those that it is made for. type and figures are
    None where the firmware does not tell; so is ecc. A damaged table ends where it is damaged.
    """
    modules: list[MemoryModule] = []
    corrects = []
    for kind, body, names in _structures(table):
        if kind == _ARRAY and _byte(body, 0x05) == _SYSTEM_MEMORY:
            corrects.append(_CORRECTIONS.get(_byte(body, 0x06) or 0))
        mib = _mib(body) if kind == _MODULE else None
        if mib:
            modules.append(
                {
                    "slot": _name(names, _byte(body, 0x10)),
                    "mib": mib,
                    "type": _TYPES.get(_byte(body, 0x12) or 0),
                    "mts": _speed(body, 0x20, 0x58),
                    "rated_mts": _speed(body, 0x15, 0x54),
                }
            )
    told = [one for one in corrects if one is not None]
    return modules, all(told) if told else None


def _structures(table: bytes) -> Iterator[tuple[int, bytes, list[bytes]]]:
    """Yield type, formatted part and texts of each structure; its texts end with two zeros."""
    at = 0
    while at + _HEADER <= len(table):
        kind, length = table[at], table[at + 1]
        end = table.find(b"\0\0", at + length)
        if length < _HEADER or kind == _END or end < 0:
            return
        yield kind, table[at : at + length], table[at + length : end].split(b"\0")
        at = end + 2


def _mib(module: bytes) -> int | None:
    size = _word(module, 0x0C)
    if not size or size == _UNKNOWN:
        return None
    if size == _LARGE:
        return struct.unpack_from("<I", module, 0x1C)[0] & 0x7FFFFFFF if len(module) >= 0x20 else None  # noqa: PLR2004
    return (size & _LARGE) // 1024 if size & _IN_KIB else size


def _speed(module: bytes, at: int, extended: int) -> int | None:
    speed = _word(module, at)
    if speed == _UNKNOWN and len(module) >= extended + 4:
        speed = struct.unpack_from("<I", module, extended)[0] & 0x7FFFFFFF
    return speed or None


def _name(names: list[bytes], number: int | None) -> str | None:
    """Return the text of a number; texts are counted from 1."""
    if not number or number > len(names):
        return None
    return names[number - 1].decode("ascii", "replace").strip() or None


def _byte(body: bytes, at: int) -> int | None:
    return body[at] if at < len(body) else None


def _word(body: bytes, at: int) -> int | None:
    return struct.unpack_from("<H", body, at)[0] if at + 2 <= len(body) else None
