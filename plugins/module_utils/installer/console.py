# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the installer says, on every console of the machine: nobody knows which one is looked at."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

ACTIVE = Path("/sys/class/tty/console/active")


def say(text: str) -> None:
    """Write a line on each console; one that does not take it is passed over."""
    names = ["console"]
    with contextlib.suppress(OSError):
        names = ACTIVE.read_text(encoding="ascii").split() or names
    for name in names:
        with contextlib.suppress(OSError):
            descriptor = os.open(f"/dev/{name}", os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
            try:
                os.write(descriptor, f"\r\ngpulab: {text}\r\n".encode())
            finally:
                os.close(descriptor)
