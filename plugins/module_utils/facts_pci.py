# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA devices on the PCI bus, from sysfs: what is plugged in, whatever a driver says."""

from __future__ import annotations

import posixpath
import re
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.facts_node import Node

DEVICES = "/sys/bus/pci/devices"
NVIDIA = 0x10DE
GPU_CLASSES = frozenset({"0300", "0302", "0380", "1200"})  # VGA, 3D, display, processing accelerator
NVSWITCH_CLASS = "0680"  # "other bridge"; NVIDIA's only ones are NVSwitches
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
_WIDEST = 32
ERROR_KINDS = ("correctable", "nonfatal", "fatal")
_HEAD = 64  # bytes of the configuration space that everybody may read
_EXTENDED = 0x100  # where the extended capabilities of a configuration space begin
_ACS = 0x000D
_ACS_REDIRECT = 0x4 | 0x8  # requests, completions


def speed_gts(text: str) -> float | None:
    """Parse sysfs' ``32.0 GT/s PCIe``; None for ``Unknown``."""
    match = re.match(r"(\d{1,4}(?:\.\d{1,4})?) GT/s", text)
    return float(match.group(1)) if match else None


def link_width(text: str) -> int | None:
    """Parse sysfs' link width; None where the device does not know (0, 63, 255)."""
    width = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else 0  # noqa: PLR2004 - no width is longer
    return width if 0 < width <= _WIDEST else None


def read_link(node: Node, device: str) -> dict[str, Any]:
    """Read a device's link; the maximum is the device's own, not the slot's."""
    return {
        "width": link_width(node.text(f"{device}/current_link_width")),
        "max_width": link_width(node.text(f"{device}/max_link_width")),
        "speed_gts": speed_gts(node.text(f"{device}/current_link_speed")),
        "max_speed_gts": speed_gts(node.text(f"{device}/max_link_speed")),
    }


def read_bridge_link(node: Node, device: str) -> dict[str, Any] | None:
    """Read the link of the port above a device; None where the device sits at the root."""
    parent = posixpath.dirname(node.resolve(device))
    return read_link(node, parent) if _ADDRESS.match(posixpath.basename(parent)) else None


def bridges_above(node: Node, device: str) -> list[str]:
    """Return the addresses of the bridges between a device and its root complex, the nearest first."""
    parts = posixpath.dirname(node.resolve(device)).split("/")
    return [part for part in reversed(parts) if _ADDRESS.match(part)]


def acs_redirects(config: bytes) -> bool | None:
    """Tell whether a bridge sends what one device has for another up to the root complex; None where nobody knows.

    config is the bridge's configuration space, of which only root may read more than the first 64 bytes.
    """
    place, seen = _EXTENDED, set()
    while place >= _EXTENDED and place + 8 <= len(config) and place not in seen:
        seen.add(place)
        header, _capabilities, control = struct.unpack_from("<IHH", config, place)
        if header & 0xFFFF == _ACS:
            return bool(control & _ACS_REDIRECT)
        place = header >> 20 & 0xFFC
    return None if len(config) <= _HEAD else False


def redirecting_bridges(node: Node, device: str) -> list[str] | None:
    """Name the bridges of PCIe switches above a device at which ACS redirects; None where that could not be read.

    What passes the root port, the last bridge, passes the processor anyway.
    """
    told = {
        bridge: acs_redirects(node.data(f"{DEVICES}/{bridge}/config") or b"")
        for bridge in bridges_above(node, device)[:-1]
    }
    return None if None in told.values() else [bridge for bridge, answer in told.items() if answer]


def read_errors(node: Node, device: str) -> dict[str, int | None]:
    """Read how many PCI Express errors the kernel counted since boot; None where it does not count them."""
    return {kind: total_errors(node.text(f"{device}/aer_dev_{kind}")) for kind in ERROR_KINDS}


def total_errors(text: str) -> int | None:
    """Parse the last line of sysfs' error counters, as ``TOTAL_ERR_FATAL 0``."""
    match = re.search(r"^TOTAL_ERR_\w+ (\d{1,20})$", text, re.MULTILINE)
    return int(match.group(1)) if match else None


def bound_driver(node: Node, device: str) -> str | None:
    """Name the kernel driver that holds a device."""
    target = node.link(f"{device}/driver")
    return posixpath.basename(target) if target else None


def read(node: Node) -> tuple[dict[str, Any], str | None]:
    """Return the facts ``pci``, and the simulator's line where a device is simulated."""
    gpus, nvswitches, simulated = [], [], None
    for address in node.names(DEVICES):
        device = f"{DEVICES}/{address}"
        if node.number(f"{device}/vendor") != NVIDIA:
            continue
        kind = f"{node.number(f'{device}/class') or 0:06x}"[:4]
        identity = {"address": address, "device": _id(node, device, "")}
        if kind in GPU_CLASSES:
            numa_node = node.number(f"{device}/numa_node")
            gpus.append(
                {
                    **identity,
                    "subsystem": _id(node, device, "subsystem_"),
                    "class": kind,
                    "driver": bound_driver(node, device),
                    "numa_node": None if numa_node is None or numa_node < 0 else numa_node,
                    "link": read_link(node, device),
                    "bridge_link": read_bridge_link(node, device),
                    "redirecting_bridges": redirecting_bridges(node, device),
                    "iommu": node.text(f"{device}/iommu_group/type") or None,
                    "errors": read_errors(node, device),
                }
            )
        elif kind == NVSWITCH_CLASS:
            nvswitches.append({**identity, "driver": bound_driver(node, device)})
        simulated = simulated or node.text(f"{device}/simulated").partition("\n")[0] or None
    return {"gpus": gpus, "nvswitches": nvswitches}, simulated


def _id(node: Node, device: str, prefix: str) -> str:
    vendor, model = (node.number(f"{device}/{prefix}{part}") or 0 for part in ("vendor", "device"))
    return f"{vendor:04x}:{model:04x}"
