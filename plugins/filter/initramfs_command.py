# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What rebuilds the initramfs of every kernel."""

from __future__ import annotations

from typing import Callable

PROGRAM = "update-initramfs"


def initramfs_command(programs: list[str]) -> list[str]:
    """Return the argument list, of the node's programs that make an initramfs (the fact system.initramfs_programs)."""
    return [PROGRAM, "-u", "-k", "all"] if PROGRAM in programs else ["dracut", "--force", "--regenerate-all"]


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[[list[str]], list[str]]]:
        """Return the filters by name."""
        return {"initramfs_command": initramfs_command}
