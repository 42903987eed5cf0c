# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NVML says, as plain data.

Each reading is one of three: the value itself; ``{"unsupported": NAME}`` where this board, driver or library does
not have it, which is nobody's fault; ``{"error": NAME, "code": N}`` where NVML failed. NAME is the return code's
name in nvml.h without NVML_ERROR_.
"""

from __future__ import annotations

from typing import Any, Callable

from ansible_collections.gpulab.node.plugins.module_utils.nvml import library as nvml
from ansible_collections.gpulab.node.plugins.module_utils.nvml.library import NvmlError


def unread(error: NvmlError) -> dict[str, Any]:
    """Say as data why there is no value."""
    if error.code in nvml.UNSUPPORTED:
        return {"unsupported": error.name}
    return {"error": error.name, "code": error.code}


def reading(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return what the function returns, or its failure as data."""
    try:
        return function(*arguments, **options)
    except NvmlError as error:
        return unread(error)


def sysfs_address(bus_id: str) -> str:
    """Turn NVML's 00000000:19:00.0 into the kernel's 0000:19:00.0, the key of the PCI facts."""
    domain, _colon, rest = bus_id.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def pci_id(number: int) -> str:
    """Turn NVML's device << 16 | vendor into the form vendor:device, as 10de:2330."""
    return f"{number & 0xFFFF:04x}:{number >> 16:04x}"
