# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How versions compare: drivers, CUDA, libraries and kernel releases, all as tuples of numbers."""

from __future__ import annotations

import re
from functools import lru_cache


@lru_cache(maxsize=4096)
def version_key(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: "580.126.09" is (580, 126, 9), "6.1.0-53-amd64" is (6, 1, 0, 53)."""
    match = re.match(r"\d+(?:[.-]\d+)*", version)
    return tuple(int(number) for number in re.split(r"[.-]", match.group())) if match else ()


def branch_of(version: str) -> str:
    """Return the driver branch a driver version belongs to."""
    return version.partition(".")[0]


def same_or_newer(version: str, floor: str) -> bool:
    """Tell whether a version reaches a floor: "13.0" is newer than "12.9"."""
    return version_key(version) >= version_key(floor)


def newest(versions: list[str]) -> str:
    """Return the highest of several versions; there has to be one."""
    return max(versions, key=version_key)
