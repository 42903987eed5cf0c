# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine around the GPUs: processors, memory modules, lanes, disks, and what one kernel takes in /boot."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.facts import pci, smbios

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.machine import (
        Disk,
        Hardware,
        MemoryErrors,
        Processor,
    )

CPUS = "/sys/devices/system/cpu"
EDAC = "/sys/devices/system/edac/mc"
BLOCKS = "/sys/block"
GEN4_GTS = 16.0
_MIB = 1 << 20
_SECTOR = 512
_BRIDGE = "0604"
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def read(node: Node) -> Hardware:
    """Return the facts ``hardware``.

    pcie4_lanes are the lanes of the processors' own ports that reach 16 GT/s, those of slots in use and of devices on
    the board; kernel_mib is what the largest kernel has in /boot, with its initramfs. None is what nobody tells.
    """
    modules, ecc = smbios.read(node)
    return {
        "cpu": processor(node),
        "memory": {"modules": modules, "ecc": ecc, "errors": memory_errors(node)},
        "pcie4_lanes": pcie4_lanes(node),
        "disks": disks(node),
        "kernel_mib": kernel_mib(node),
    }


def processor(node: Node) -> Processor:
    """Return what is known of the processors; boosts is False where the boost is switched off."""
    policies = [f"{CPUS}/cpufreq/{name}" for name in node.names(f"{CPUS}/cpufreq") if name.startswith("policy")]
    off = node.text(f"{CPUS}/cpufreq/boost") == "0" or node.text(f"{CPUS}/intel_pstate/no_turbo") == "1"
    told = node.exists(f"{CPUS}/cpufreq/boost") or node.exists(f"{CPUS}/intel_pstate/no_turbo")
    return {
        "l3_mib": l3_mib(node),
        "base_mhz": _largest(_base_mhz(node, policy) for policy in policies),
        "boost_mhz": _largest(_boost_mhz(node, policy) for policy in policies),
        "boosts": not off if told else None,
    }


def l3_mib(node: Node) -> int | None:
    """Add up the caches of level 3; each is shown by all processors that share it."""
    cpus = [name for name in node.names(CPUS) if re.fullmatch(r"cpu\d+", name)]
    indexes = node.names(f"{CPUS}/{cpus[0]}/cache") if cpus else []
    third = next((one for one in indexes if node.number(f"{CPUS}/{cpus[0]}/cache/{one}/level") == 3), None)  # noqa: PLR2004
    homes = [f"{CPUS}/{cpu}/cache/{third}" for cpu in cpus if third]
    caches = {node.text(f"{home}/shared_cpu_list"): _kib(node.text(f"{home}/size")) for home in homes}
    return sum(caches.values()) // 1024 or None


def _kib(text: str) -> int:
    """Parse "32768K"."""
    return int(text[:-1]) if re.fullmatch(r"\d{1,9}K", text) else 0


def _base_mhz(node: Node, policy: str) -> int | None:
    khz = node.number(f"{policy}/base_frequency")
    if khz:
        return khz // 1000
    return node.number(f"{_cppc(node, policy)}/nominal_freq") or None


def _boost_mhz(node: Node, policy: str) -> int | None:
    """Return the highest clock. acpi-cpufreq shows the base clock as the highest, so there the firmware is asked."""
    if node.text(f"{policy}/scaling_driver") != "acpi-cpufreq":
        return (node.number(f"{policy}/cpuinfo_max_freq") or 0) // 1000 or None
    home = _cppc(node, policy)
    base, nominal, highest = (
        node.number(f"{home}/{name}") for name in ("nominal_freq", "nominal_perf", "highest_perf")
    )
    return base * highest // nominal if base and nominal and highest else None


def _cppc(node: Node, policy: str) -> str:
    """Return where the first processor of a policy tells what its firmware knows."""
    first = (node.text(f"{policy}/affected_cpus").split() or ["0"])[0]
    return f"{CPUS}/cpu{first}/acpi_cppc"


def _largest(figures: Any) -> int | None:
    return max((figure for figure in figures if figure), default=None)


def memory_errors(node: Node) -> list[MemoryErrors] | None:
    """Return the errors of each module of memory since boot; None without a driver.

    Errors that the driver cannot assign to a module are those of its controller, as mc0.
    """
    found = []
    controllers = [name for name in node.names(EDAC) if re.fullmatch(r"mc\d+", name)]
    for controller in controllers:
        home = f"{EDAC}/{controller}"
        for name in node.names(home):
            if re.fullmatch(r"(?:dimm|rank)\d+", name):
                label = node.text(f"{home}/{name}/dimm_label") or f"{controller}/{name}"
                found.append(_counted(node, label, f"{home}/{name}/dimm_ce_count", f"{home}/{name}/dimm_ue_count"))
        found.append(_counted(node, controller, f"{home}/ce_noinfo_count", f"{home}/ue_noinfo_count"))
    return found if controllers else None


def _counted(node: Node, module: str, corrected: str, uncorrected: str) -> MemoryErrors:
    return {"module": module, "corrected": node.number(corrected) or 0, "uncorrected": node.number(uncorrected) or 0}


def pcie4_lanes(node: Node) -> int | None:
    """Add up the lanes of the root ports that reach 16 GT/s; None where no root port tells its link."""
    links = []
    for address in node.names(pci.DEVICES):
        device = f"{pci.DEVICES}/{address}"
        at_root = posixpath.basename(posixpath.dirname(node.resolve(device))).startswith("pci")
        if at_root and f"{node.number(f'{device}/class') or 0:06x}"[:4] == _BRIDGE:
            link = pci.read_link(node, device)
            width, speed = link["max_width"], link["max_speed_gts"]
            if width and speed:
                links.append((width, speed))
    return sum(width for width, speed in links if speed >= GEN4_GTS) if links else None


def disks(node: Node) -> list[Disk]:
    """Return each disk.

    class is nvme, ssd, hdd or virtual; the links are those of an NVMe disk and of the port above it, else None.
    """
    return [_disk(node, name) for name in node.names(BLOCKS) if _is_disk(node, name)]


def _is_disk(node: Node, name: str) -> bool:
    home = f"{BLOCKS}/{name}"
    return (
        bool(node.number(f"{home}/size"))
        and node.text(f"{home}/removable") != "1"
        and re.match(r"(?:nvme|sd|vd|xvd|hd)", name) is not None
    )


def _disk(node: Node, name: str) -> Disk:
    home = f"{BLOCKS}/{name}"
    nvme = re.match(r"nvme\d+", name)
    # With several paths to one disk, only its controller lies below the PCI device.
    addresses = _PCI.findall(node.resolve(home)) or (
        _PCI.findall(node.resolve(f"/sys/class/nvme/{nvme.group()}")) if nvme else []
    )
    device = f"{pci.DEVICES}/{addresses[-1]}" if nvme and addresses else None
    return {
        "name": name,
        "model": node.text(f"{home}/device/model") or None,
        "gb": (node.number(f"{home}/size") or 0) * _SECTOR // 10**9,
        "class": _class(node, name),
        "link": pci.read_link(node, device) if device else None,
        "port_link": pci.read_bridge_link(node, device) if device else None,
    }


def _class(node: Node, name: str) -> str:
    if name.startswith("nvme"):
        return "nvme"
    if name.startswith(("vd", "xvd")):
        return "virtual"
    return "hdd" if node.text(f"{BLOCKS}/{name}/queue/rotational") == "1" else "ssd"


def kernel_mib(node: Node) -> int | None:
    """Return what the files of the largest kernel in /boot take, rounded up."""
    names = node.names("/boot")
    versions = [name.partition("-")[2] for name in names if name.startswith("vmlinuz-") and "rescue" not in name]
    sizes = [
        sum(node.size(f"/boot/{name}") or 0 for name in names if re.search(rf"-{re.escape(version)}(?:\.img)?\Z", name))
        for version in versions
    ]
    return -(-max(sizes) // _MIB) if any(sizes) else None
