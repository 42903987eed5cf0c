# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's open and proprietary kernel modules, told apart by the licence that their source declares."""

from __future__ import annotations

import re

SOURCES = ("nvidia/nv.c", "nvidia/nv-frontend.c", "kernel-open/nvidia/nv.c", "kernel/nvidia/nv.c")
_LICENCE = re.compile(r"MODULE_LICENSE\(\"([^\"]+)\"\)")


def flavour(licence: str | None) -> str | None:
    """Tell NVIDIA's open kernel modules from its proprietary ones by their licence."""
    if not licence:
        return None
    return "proprietary" if licence == "NVIDIA" else "open"


def declared_licence(source: str) -> str | None:
    """Return the licence that a C source declares for its module."""
    match = _LICENCE.search(source)
    return match.group(1) if match else None
