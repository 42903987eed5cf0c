# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What makes a node this node, as its capture says it: its names, its SSH, its network, and how it boots."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Identity:
    """The names of a node; locale and keyboard are the variables of their files."""

    hostname: str
    static_hostname: str
    fqdn: str | None
    machine_id: str
    timezone: str | None
    locale: dict[str, str]
    keyboard: dict[str, str]


@dataclass(frozen=True)
class HostKey:
    """A key of the SSH server; fingerprint as ssh-keygen shows it, private whether the private key is there."""

    path: str
    type: str | None
    fingerprint: str | None
    private: bool


@dataclass(frozen=True)
class Ssh:
    """The SSH server: the files of its settings, and the values of those that decide who gets in, in their order."""

    host_keys: list[HostKey]
    files: list[str]
    options: dict[str, list[str]]


@dataclass(frozen=True)
class Address:
    """An address with its prefix; dynamic where it comes from a server or a router."""

    address: str
    dynamic: bool


@dataclass(frozen=True)
class Interface:
    """A network interface; the first eight are as in the facts, master is the bond or bridge that it is a part of."""

    name: str
    kind: str
    link_layer: str | None
    driver: str | None
    speed_gbps: float | None
    up: bool
    default_route: bool
    ipv4: str | None
    mac: str | None
    permanent_mac: str | None
    mtu: int | None
    master: str | None
    addresses: list[Address]


@dataclass(frozen=True)
class Route:
    """A route that the kernel does not make of an address; by is who made it."""

    to: str | None
    via: str | None
    interface: str | None
    metric: int | None
    by: str | None


@dataclass(frozen=True)
class Dns:
    """What /etc/resolv.conf says; managed_by is systemd, NetworkManager, resolvconf or None."""

    servers: list[str]
    search: list[str]
    options: list[str]
    managed_by: str | None


@dataclass(frozen=True)
class NetworkTool:
    """What may set up the network, and has files or runs; active is None for one without a unit."""

    name: str
    files: list[str]
    active: bool | None


@dataclass(frozen=True)
class Firewall:
    """The firewalls that are there, the one that is switched on, and the files of others."""

    there: list[str]
    on: str | None
    files: list[str]


@dataclass(frozen=True)
class Network:
    """The network of a node."""

    interfaces: list[Interface]
    routes: list[Route]
    dns: Dns
    tools: list[NetworkTool]
    firewall: Firewall


@dataclass(frozen=True)
class Kernel:
    """An installed kernel."""

    version: str
    running: bool


@dataclass(frozen=True)
class MachineOwnerKey:
    """The key that signs the node's own kernel modules; see driver/mok.py."""

    certificate: str | None
    fingerprint: str | None
    standing: str | None


@dataclass(frozen=True)
class BootEntry:
    """An entry of the firmware's boot menu."""

    id: str
    label: str
    active: bool
    path: str


@dataclass(frozen=True)
class Esp:
    """The EFI system partition where it is mounted; loaders are the names below /EFI."""

    mount: str
    source: str
    loaders: list[str]


@dataclass(frozen=True)
class Boot:
    """How a node boots; firmware is uefi or bios, files are those of the modules' settings, sbat_level is shim's."""

    command_line: str
    next_kernel: str | None
    next_arguments: str | None
    kernels: list[Kernel]
    files: list[str]
    secure_boot: str
    mok: MachineOwnerKey
    firmware: str
    entries: list[BootEntry]
    order: list[str]
    current: str | None
    esp: Esp | None
    sbat_level: str | None


@dataclass(frozen=True)
class System:
    """What makes a node this node."""

    identity: Identity
    ssh: Ssh
    network: Network
    boot: Boot
