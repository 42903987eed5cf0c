# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs on the PCI bus, from sysfs: those that are plugged in, whatever a driver says, and those of virtual machines."""

from __future__ import annotations

import posixpath
import re
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.machine import Device, Display, Link, Pci

DEVICES = "/sys/bus/pci/devices"
NVIDIA = 0x10DE
OTHER_MAKERS = {0x1002: "AMD", 0x8086: "Intel"}  # of GPUs; a management controller is a display device, too, but no GPU
GPU_CLASSES = frozenset({"0300", "0302", "0380", "1200"})  # VGA, 3D, display, processing accelerator
NVSWITCH_CLASS = "0680"  # "other bridge"; NVIDIA's only ones are NVSwitches
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
_WIDEST = 32
ERROR_KINDS = ("correctable", "nonfatal", "fatal")
# Drivers that lend a device to virtual machines; nvidia-vgpu-vfio and nvgrace-gpu-vfio-pci are among those of VFIO
_LENDING = re.compile(r"(?:.*vfio.*|pci-stub|(?:xen-)?pciback)\Z")
VGPU_MANAGER = "/sys/module/nvidia_vgpu_vfio"  # a module of the vGPU manager alone, which has no CUDA for the host
_RESERVED = re.compile(r"^\s*options\s+vfio[-_]pci\s.*?\bids=(\S+)", re.MULTILINE)
_CAPABILITIES, _VENDOR_SPECIFIC = 0x34, 0x09  # where the list of a device's capabilities begins; one of its kinds
_VGPU = b"VF"  # behind id, next and length of a vGPU's (github:NVIDIA/k8s-device-plugin, internal/vgpu/vgpu.go)
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


def read_link(node: Node, device: str) -> Link:
    """Read a device's link; the maximum is the device's own, not the slot's."""
    return {
        "width": link_width(node.text(f"{device}/current_link_width")),
        "max_width": link_width(node.text(f"{device}/max_link_width")),
        "speed_gts": speed_gts(node.text(f"{device}/current_link_speed")),
        "max_speed_gts": speed_gts(node.text(f"{device}/max_link_speed")),
    }


def read_bridge_link(node: Node, device: str) -> Link | None:
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


def read_display(node: Node, device: str) -> Display:
    """Read whether the firmware showed its screen on a device, and which of its connectors have a monitor.

    boot_vga is None where the kernel does not say; without a driver that sets modes, no monitor is known.
    """
    boot_vga = node.number(f"{device}/boot_vga")
    cards = [name for name in node.names(f"{device}/drm") if name.startswith("card")]
    connectors = (
        (f"{device}/drm/{card}/{name}", name) for card in cards for name in node.names(f"{device}/drm/{card}")
    )
    monitors = [name.partition("-")[2] for path, name in connectors if node.text(f"{path}/status") == "connected"]
    return {"boot_vga": None if boot_vga is None else bool(boot_vga), "monitors": monitors}


def is_vgpu(config: bytes) -> bool | None:
    """Tell from its configuration space whether a GPU is a vGPU; None where only the start of that may be read."""
    if len(config) <= _HEAD:
        return None
    place, seen = config[_CAPABILITIES], set()
    while _HEAD <= place <= len(config) - 5 and place not in seen:
        seen.add(place)
        if config[place] == _VENDOR_SPECIFIC and config[place + 3 : place + 5] == _VGPU:
            return True
        place = config[place + 1] & 0xFC
    return False


def lender(node: Node, device: str, reserved: set[str]) -> str | None:
    """Name the driver that holds, or will hold, a GPU for virtual machines; None where the node itself may use it.

    reserved are the ids that vfio-pci takes where no other driver was there before it.
    """
    driver = bound_driver(node, device)
    if _cuts(node, device) or (driver == "nvidia" and node.exists(VGPU_MANAGER)):
        return "nvidia-vgpu-vfio"  # NVIDIA's own driver of a host, which cuts the GPU
    if driver is None:
        driver = node.text(f"{device}/driver_override") or None
        driver = "vfio-pci" if driver in (None, "(null)") and _id(node, device, "") in reserved else driver
    return driver if driver and _LENDING.match(driver) else None


def _cuts(node: Node, device: str) -> bool:
    """Tell whether a host's driver cuts a GPU into vGPUs: in itself, or, from Ampere on, in its virtual functions.

    Those have vGPUs as mediated devices, or since Linux 6.8 by a driver of their own, which shows the type of each.
    """
    own = posixpath.basename(device)
    functions = (f"{DEVICES}/{name}" for name in node.names(DEVICES))
    paths = [device, *(path for path in functions if posixpath.basename(node.link(f"{path}/physfn") or "") == own)]
    return any(
        node.exists(f"{path}/mdev_supported_types") or node.exists(f"{path}/nvidia/current_vgpu_type") for path in paths
    )


def reserved_ids(texts: Iterable[str], cmdline: str) -> set[str]:
    """Return the ids of devices that modprobe's files and the kernel's command line assign to vfio-pci."""
    lists = [found for text in texts for found in _RESERVED.findall(text)]
    lists += [word.partition("=")[2] for word in cmdline.split() if word.startswith(("vfio-pci.ids=", "vfio_pci.ids="))]
    return {":".join(one.lower().split(":")[:2]) for found in lists for one in found.strip("\"'").split(",")}


def vfio_files(node: Node) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return which of VFIO's files are of GPUs: of those that virtual machines have whole, and of parts of a GPU.

    If the group of a lent GPU cannot be read, it may be any group.
    """
    whole: set[str] = set()
    parts: set[str] = set()
    for address in node.names(DEVICES):
        device = f"{DEVICES}/{address}"
        if node.number(f"{device}/vendor") != NVIDIA or _kind(node, device) not in GPU_CLASSES:
            continue
        lent = lender(node, device, set())
        group = posixpath.basename(node.link(f"{device}/iommu_group") or "")
        found = (
            {f"(?:noiommu-)?{re.escape(group)}" if group else r"(?:noiommu-)?\d+"}
            if lent
            else {re.escape(group)} - {""}
        )
        (whole if lent else parts).update(found | _character_devices(node, device))
        for name in node.names(device):  # mediated devices
            part = node.link(f"{device}/{name}/iommu_group")
            if part:
                parts |= {re.escape(posixpath.basename(part))} | _character_devices(node, f"{device}/{name}")
    return _any_of(whole), _any_of(parts)


def _character_devices(node: Node, device: str) -> set[str]:
    return {f"devices/{re.escape(name)}" for name in node.names(f"{device}/vfio-dev")}


def _any_of(names: set[str]) -> re.Pattern[str]:
    return re.compile(f"/dev/vfio/(?:{'|'.join(sorted(names))})\\Z" if names else r"(?!)")


def read(node: Node, modprobe_files: dict[str, str] | None = None) -> tuple[Pci, str | None]:
    """Return the facts ``pci``, and the simulator's line where a device is simulated.

    gpus are NVIDIA's that this node itself may use; lent has those of virtual machines, and other_gpus those of other
    makers. modprobe_files tell what is reserved for vfio-pci. A virtual function is a part of its GPU.
    """
    found: Pci = {"gpus": [], "lent": [], "other_gpus": [], "nvswitches": []}
    simulated = None
    reserved = reserved_ids((modprobe_files or {}).values(), node.text("/proc/cmdline"))
    for address in node.names(DEVICES):
        device = f"{DEVICES}/{address}"
        vendor, kind = node.number(f"{device}/vendor"), _kind(node, device)
        identity: Device = {"address": address, "device": _id(node, device, "")}
        if vendor in OTHER_MAKERS and kind in GPU_CLASSES and not node.link(f"{device}/physfn"):
            shown, holder = read_display(node, device), bound_driver(node, device)
            found["other_gpus"].append({**identity, "maker": OTHER_MAKERS[vendor], "driver": holder, **shown})
        if vendor != NVIDIA:
            continue
        driver = lender(node, device, reserved)
        if kind in GPU_CLASSES and node.link(f"{device}/physfn"):
            continue
        if kind in GPU_CLASSES and driver:
            found["lent"].append({**identity, "driver": driver})
        elif kind in GPU_CLASSES:
            numa_node = node.number(f"{device}/numa_node")
            found["gpus"].append(
                {
                    **identity,
                    "subsystem": _id(node, device, "subsystem_"),
                    "class": kind,
                    "driver": bound_driver(node, device),
                    "vgpu": is_vgpu(node.data(f"{device}/config") or b""),
                    **read_display(node, device),
                    "numa_node": None if numa_node is None or numa_node < 0 else numa_node,
                    "link": read_link(node, device),
                    "bridge_link": read_bridge_link(node, device),
                    "redirecting_bridges": redirecting_bridges(node, device),
                    "iommu": node.text(f"{device}/iommu_group/type") or None,
                    "errors": read_errors(node, device),
                }
            )
        elif kind == NVSWITCH_CLASS:
            found["nvswitches"].append({**identity, "driver": bound_driver(node, device)})
        simulated = simulated or node.text(f"{device}/simulated").partition("\n")[0] or None
    return found, simulated


def _kind(node: Node, device: str) -> str:
    return f"{node.number(f'{device}/class') or 0:06x}"[:4]


def _id(node: Node, device: str, prefix: str) -> str:
    vendor, model = (node.number(f"{device}/{prefix}{part}") or 0 for part in ("vendor", "device"))
    return f"{vendor:04x}:{model:04x}"
