# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts of what runs on a node beside the driver: containers, services, monitoring, and its tuning."""

from __future__ import annotations

from typing import TypedDict


class Engines(TypedDict):
    """Versions of the container engines, and the packages that docker.com's conflict with."""

    docker: str | None
    podman: str | None
    containerd: str | None
    nvidia_container_toolkit: str | None
    docker_rivals: list[str]


class Containers(TypedDict):
    """How container engines get the GPUs.

    toolkit_root is where the toolkit's settings look for the driver (None: the host), toolkit_root_there whether one is
    there.
    """

    docker: Docker | None
    containerd: Containerd | None
    cdi: list[Cdi]
    toolkit_ldconfig: str | None
    toolkit_no_cgroups: bool
    toolkit_root: str | None
    toolkit_root_there: bool
    selinux: Selinux | None


class Docker(TypedDict):
    """The settings of Docker's daemon; invalid says why it will not start with them.

    file is the one that the daemon reads; missing_programs are those of runtimes that are not there, by runtime.
    """

    invalid: str | None
    runtimes: list[str]
    default_runtime: str | None
    cdi: bool | None
    cdi_directories: list[str] | None
    selinux: bool
    file: str
    missing_programs: dict[str, str]


class Containerd(TypedDict):
    """The settings of containerd: whether Kubernetes' plugin is on and takes CDI; whether it has a runtime nvidia."""

    cdi: bool | None
    nvidia_runtime: bool
    kubernetes: bool


class Selinux(TypedDict):
    """Whether SELinux enforces its policy, and whether that lets containers use the host's devices."""

    enforcing: bool
    devices: bool | None


class Cdi(TypedDict):
    """One of NVIDIA's CDI specifications; library is the driver that it was made for."""

    path: str
    kind: str
    library: str | None
    missing: list[str]
    devices: list[str]
    mig_devices: list[str]


class Group(TypedDict):
    """What the node knows of the other nodes of its group, and its firewall."""

    hosts: list[GroupHost]
    ephemeral_ports: list[int] | None
    ssh_ports: list[int]
    firewalls: list[str]
    firewall: str | None
    own_firewall: OwnFirewall


class GroupHost(TypedDict):
    """A line of /etc/hosts; leads has the address that each name really leads to."""

    address: str
    own: bool
    names: list[str]
    leads: dict[str, str | None]


class OwnFirewall(TypedDict):
    """gpulab's own firewall."""

    wanted: bool
    loaded: bool | None


class Monitoring(TypedDict):
    """How the node is monitored."""

    addresses: list[str]
    routed_address: str | None
    exporter: Exporter
    dcgm_exporter: DcgmExporter
    collector: Collector | None


class DcgmExporter(TypedDict):
    """A service that exports metrics."""

    installed: bool
    listen: str | None
    answers: bool | None
    serves_gpus: bool | None


class Exporter(DcgmExporter):
    """Node exporter, and the arguments that it runs with."""

    arguments: list[str]


class Collector(TypedDict):
    """gpulab's reader of GPU metrics."""

    interval_seconds: int | None
    age_seconds: int | None


class Limits(TypedDict):
    """What programs are granted; a number, or "unlimited"."""

    services: dict[str, int | str | None]
    sessions: dict[str, int | str | None]
    shared_memory_mib: int | None


class Service(TypedDict):
    """A unit, in systemd's words."""

    load: str
    active: str
    sub: str
    enabled: str


class KernelLog(TypedDict):
    """Errors of GPUs, NVSwitches, network adapters and disks in the kernel log since boot, and whom it killed."""

    readable: bool
    events: list[KernelEvent]
    disks: list[DiskErrors]
    killed: list[KilledProgram]


class DiskErrors(TypedDict):
    """How often a disk, such as sda, failed to read or write; time is that of the last."""

    device: str
    count: int
    time: str | None


class KilledProgram(TypedDict):
    """How often the kernel killed a program for want of memory; time is that of the last."""

    command: str
    count: int
    time: str | None


class KernelEvent(TypedDict):
    """Equal errors as one; time is that of the last."""

    kind: str
    xid: int | None
    bus_id: str | None
    time: str | None
    text: str
    count: int


class Tuning(TypedDict):
    """Live values of the kernel, limits, arguments of the kernel, and the active swap with its other names."""

    values: dict[str, str | None]
    asked: dict[str, KernelValue]
    later: dict[str, LaterSetting]
    limits: dict[str, dict[str, str | None]]
    kernel_arguments: KernelArguments
    grub: bool
    boot_entries: dict[str, list[str]]
    tuned_profile: str | None
    swaps: dict[str, list[str]]


class KernelValue(TypedDict):
    """What the kernel says of a value that the inventory sets; words are all that it takes, where it lists them."""

    there: bool
    writable: bool
    value: str
    words: list[str]
    near: str | None


class LaterSetting(TypedDict):
    """A sysctl that another file sets after gpulab's."""

    value: str
    file: str
    line: int


class KernelArguments(TypedDict):
    """gpulab's arguments for the kernel, whether the boot menu has them, and those of the running kernel."""

    wanted: list[str]
    in_menu: bool
    running: list[str]
