# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processors: the kernel's names of them, those that images of containers and Debian have, and what programs say."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

AMD64, ARM64 = "x86_64", "aarch64"
OF_IMAGES = {AMD64: "amd64", ARM64: "arm64"}
ELF_MACHINES = {AMD64: 62, ARM64: 183}
_MACHINE = slice(18, 20)  # where the header of an ELF file names it


def is_foreign(program: Path, machine: str) -> bool:
    """Tell whether a file is a program for another processor than machine; False where it is no program."""
    try:
        with program.open("rb") as file:
            head = file.read(_MACHINE.stop)
    except OSError:
        return False
    return head.startswith(b"\x7fELF") and int.from_bytes(head[_MACHINE], "little") != ELF_MACHINES.get(machine)
