# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions of NVIDIA's drivers, libraries and wheels, compared by their numbers."""

from __future__ import annotations

import re

from ansible_collections.gpulab.node.plugins.module_utils.checks.software import release

LONGEST = 6  # numbers of a version


def key(version: str) -> tuple[int, ...]:
    """Return a version for comparison: 1.3 is 1.3.0, and 1.3.0rc11 is before it; no epoch, no packager's suffix."""
    number, *candidate = re.split(r"(?<=\d)[. ]?(?=(?:a|b|rc|dev)\d)", version, maxsplit=1)
    numbers = release(number)[:LONGEST]
    padded = (*numbers, *[0] * (LONGEST - len(numbers)))
    return (*padded, -1, *release(candidate[0])) if candidate else (*padded, 0)
