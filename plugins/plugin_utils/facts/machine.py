# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts of a machine: its system, its hardware, its disks and its network."""

from __future__ import annotations

from typing import TypedDict


class System(TypedDict):
    """Distribution, kernel, firmware, processors, memory, package manager, clock.

    clock_ahead_seconds is how far the clock is ahead of the controller's, as far as that can be told for sure.
    """

    id: str
    version: str
    codename: str | None
    name: str
    family: str
    architecture: str
    hostname: str
    kernel: str
    virtualization: str
    container: bool
    python: str
    secure_boot: str
    mok_enrolled: bool | None
    mok_pending: bool | None
    cpu_cores: int | None
    numa_nodes: int
    memory_mib: int | None
    boot_id: str
    package_state: str
    packages_unfinished: list[str]
    clock_synchronized: bool | None
    clock_ahead_seconds: int | None
    clock_services: list[str]
    initramfs_programs: list[str]


class Pci(TypedDict):
    """NVIDIA's GPUs that the node may use, GPUs of virtual machines, GPUs of other makers, NVSwitches."""

    gpus: list[PciGpu]
    lent: list[LentGpu]
    other_gpus: list[OtherGpu]
    nvswitches: list[NvSwitch]


class Device(TypedDict):
    """A PCI device: its address, and vendor and model as 10de:2330."""

    address: str
    device: str


_Class = TypedDict("_Class", {"class": str})  # a keyword of Python


class Display(TypedDict):
    """Whether the firmware showed its screen on a GPU, and its connectors that have a monitor, as DP-1."""

    boot_vga: bool | None
    monitors: list[str]


class PciGpu(Device, Display, _Class):
    """A GPU on the bus, the link to it and from the port above it, and the errors counted since boot."""

    subsystem: str
    driver: str | None
    vgpu: bool | None
    numa_node: int | None
    link: Link
    bridge_link: Link | None
    redirecting_bridges: list[str] | None
    iommu: str | None
    errors: dict[str, int | None]


class Link(TypedDict):
    """The lanes and the speed of a PCI Express link, now and at most."""

    width: int | None
    max_width: int | None
    speed_gts: float | None
    max_speed_gts: float | None


class LentGpu(Device):
    """A GPU that belongs to virtual machines."""

    driver: str


class OtherGpu(Device, Display):
    """A GPU of another maker, and the kernel driver that has it."""

    maker: str
    driver: str | None


class NvSwitch(Device):
    """An NVSwitch."""

    driver: str | None


class Hardware(TypedDict):
    """The machine around the GPUs; pcie4_lanes are those of the processors' ports, kernel_mib what one has in /boot."""

    cpu: Processor
    memory: Memory
    pcie4_lanes: int | None
    disks: list[Disk]
    kernel_mib: int | None


class Processor(TypedDict):
    """The processors' cache of level 3, and clocks; boosts is false where the boost is switched off."""

    l3_mib: int | None
    base_mhz: int | None
    boost_mhz: int | None
    boosts: bool | None


class Memory(TypedDict):
    """The modules of memory, whether they correct errors, and the errors counted since boot."""

    modules: list[MemoryModule]
    ecc: bool | None
    errors: list[MemoryErrors] | None


class MemoryModule(TypedDict):
    """A module of memory, and the megatransfers a second that it runs at and is made for."""

    slot: str | None
    mib: int
    type: str | None
    mts: int | None
    rated_mts: int | None


class MemoryErrors(TypedDict):
    """Errors of a module of memory, or those of a controller that belong to no module."""

    module: str
    corrected: int
    uncorrected: int


class Disk(_Class):
    """A disk, its size in 10^9 bytes, and the links of an NVMe disk and of the port above it."""

    name: str
    model: str | None
    gb: int
    link: Link | None
    port_link: Link | None


class Filesystem(TypedDict):
    """A mounted file system; its sizes and whether it is readable are None where it does not answer.

    errors is what ext4 has counted until it was last checked; None for other types.
    """

    mount: str
    type: str
    source: str
    read_only: bool
    responsive: bool
    readable: bool | None
    errors: int | None
    size_mib: int | None
    free_mib: int | None
    free_inodes: int | None
    rotational: bool | None
    nvme: bool | None


class Interface(TypedDict):
    """A network interface."""

    name: str
    kind: str
    link_layer: str | None
    driver: str | None
    speed_gbps: float | None
    mtu: int | None
    up: bool
    default_route: bool
    ipv4: str | None


class Gid(TypedDict):
    """An address of a port: type is "IB/RoCE v1" or "RoCE v2"; ipv4 is the address that it stands for, if any."""

    index: int
    gid: str
    type: str
    ipv4: str | None


class InfinibandPort(TypedDict):
    """A port of an InfiniBand or RoCE adapter."""

    device: str
    port: int
    link_layer: str
    state: str
    physical_state: str
    rate_gbps: float | None
    card: str | None
    interface: str | None
    opens: bool | None
    mtu: int | None
    gids: list[Gid]
    downed: int | None
    hours: float | None
    lossless: list[int] | None


class Tier(TypedDict):
    """A tier of storage: the device that /etc/fstab names, the one that is mounted, and how they differ."""

    mount: str
    source: str
    declared: str | None
    mounted: str | None
    waits: bool
    there: bool
    options: list[str]
    exports: list[Export]


class Export(TypedDict):
    """A client that may mount a tier; missing are the options that the server does not grant it now."""

    client: str
    live: bool
    missing: list[str]
