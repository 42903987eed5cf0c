# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which compiler built a kernel. An older one does not know the options that the kernel gives it for its modules.

See https://bugs.launchpad.net/ubuntu/+source/dkms/+bug/1991664: Ubuntu 22.04 has gcc 11, its kernels from 5.19 on are
built by gcc 12, and its DKMS, from the updates, takes that one.
"""

from __future__ import annotations

import re

CONFIG = "/boot/config-{}"
_COMPILER = re.compile(r"\b(gcc|clang)(?:-[\d.]+)?(?: \([^()]*(?:\([^()]*\)[^()]*)*\)| version) (\d+)\.")
_CONFIGURED = re.compile(r'^CONFIG_CC_VERSION_TEXT="(.*)"$', re.MULTILINE)


def of_config(text: str) -> str | None:
    """Return the program, such as "gcc-12", that a kernel's configuration names; None where it names none."""
    line = _CONFIGURED.search(text)
    return of_version(line.group(1)) if line else None


def of_version(text: str) -> str | None:
    """Return the program, such as "gcc-12", of what a compiler says of itself, or of /proc/version."""
    found = _COMPILER.search(text)
    return f"{found.group(1)}-{found.group(2)}" if found else None
