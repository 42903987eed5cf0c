# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The limits of people's sessions, as systemd has them for the slice of each. No I/O happens here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PROPERTIES = {"memory": "MemoryMax", "tasks": "TasksMax"}  # by name in users_limits
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_NEAR = 0.01  # by so much a share of the memory may differ, which systemd counts in pages
_SLICE = re.compile(r"^Id=user-(\d+)\.slice$", re.MULTILINE)


def show(numbers: Iterable[int]) -> list[str]:
    """Return the command by which systemd tells the limits of these users' slices, logged in or not."""
    asked = ",".join(("Id", *PROPERTIES.values()))
    return ["systemctl", "show", f"--property={asked}", "--", *(f"user-{number}.slice" for number in numbers)]


def parse(output: str) -> dict[int, dict[str, str]]:
    """Return what systemd has, by number of a user and name of a property."""
    slices = {}
    for block in output.split("\n\n"):
        number = _SLICE.search(block)
        if number:
            slices[int(number[1])] = dict(line.partition("=")[::2] for line in block.splitlines() if "=" in line)
    return slices


def differing(wanted: Mapping[str, Any], shown: Mapping[str, str], memory: int) -> Iterator[tuple[str, str, str]]:
    """Yield (property, what is wanted, what holds) of a slice; memory is the node's, in bytes."""
    for name, value in wanted.items():
        current = shown.get(PROPERTIES[name], "")
        if not _holds(name, str(value), current, memory):
            yield PROPERTIES[name], str(value), current or "nothing"


def _holds(name: str, value: str, current: str, memory: int) -> bool:
    if not current.isdecimal():
        return False
    if value.endswith("%"):  # of a container's own memory, where that is less: systemd knows it, and /proc does not
        return int(current) <= memory * int(value[:-1]) / 100 * (1 + _NEAR)
    return int(current) == (size(value) if name == "memory" else int(value))


def size(text: str) -> int:
    """Return the bytes of a size such as 64G."""
    digits = text.rstrip("KMGT")
    return int(digits) * _UNITS[text[len(digits) :]]
