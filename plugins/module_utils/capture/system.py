# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What makes a node this node: its names, its SSH, its network, and how it boots."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.capture.homes import Places
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.system import (
    Address,
    Boot,
    BootEntry,
    Dns,
    Esp,
    Firewall,
    HostKey,
    Identity,
    Interface,
    Kernel,
    MachineOwnerKey,
    Network,
    NetworkTool,
    Route,
    Ssh,
    System,
)
from ansible_collections.gpulab.node.plugins.module_utils.core import commands, unit_states
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import HIDDEN, for_people
from ansible_collections.gpulab.node.plugins.module_utils.driver import mok
from ansible_collections.gpulab.node.plugins.module_utils.facts import group, kernels
from ansible_collections.gpulab.node.plugins.module_utils.facts import network as facts_network
from ansible_collections.gpulab.node.plugins.module_utils.facts import system as facts_system

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Job, Node

SSH = "/etc/ssh"
SSHD, SSHD_PARTS = f"{SSH}/sshd_config", f"{SSH}/sshd_config.d"
# What decides who reaches the node, and with which keys it answers.
SSHD_OPTIONS = (
    "Port", "ListenAddress", "HostKey", "HostCertificate", "AuthorizedKeysFile", "AuthorizedKeysCommand",
    "TrustedUserCAKeys", "PermitRootLogin", "PasswordAuthentication", "AllowUsers", "AllowGroups", "DenyUsers",
    "DenyGroups",
)  # fmt: skip
LOCALES, KEYBOARDS = ("/etc/locale.conf", "/etc/default/locale"), ("/etc/default/keyboard", "/etc/vconsole.conf")
RESOLV, RESOLVED = "/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"
# What may set up the network: where its files are, how they end, and its unit.
TOOLS = {
    "netplan": (("/etc/netplan",), (".yaml",), ""),
    "ifupdown": (("/etc/network", "/etc/network/interfaces.d"), ("",), "networking.service"),
    "NetworkManager": (
        ("/etc/NetworkManager/system-connections", "/etc/NetworkManager/conf.d", "/etc/sysconfig/network-scripts"),
        (".nmconnection", ".conf", "ifcfg-"),
        "NetworkManager.service",
    ),
    "networkd": (("/etc/systemd/network",), (".network", ".netdev", ".link"), "systemd-networkd.service"),
}
INTERFACES = "interfaces"  # of ifupdown, the file in the directory of its scripts
# What else may filter, beside ufw and firewalld: its units and its files.
FILTERS = {
    "nftables": (("nftables.service",), ("/etc/nftables.conf", "/etc/sysconfig/nftables.conf")),
    "iptables": (
        ("netfilter-persistent.service", "iptables.service"),
        ("/etc/iptables/rules.v4", "/etc/iptables/rules.v6", "/etc/sysconfig/iptables"),
    ),
}
FIREWALLD = "firewalld.service"
KEPT_NAMES = ("/etc/modprobe.d", "/etc/modules-load.d")
ESPS = ("/boot/efi", "/efi", "/boot")
_BOOT = re.compile(r"^Boot([0-9A-F]{4})(\*?) ([^\t\n]*)(?:\t([^\n]*))?$", re.MULTILINE)
_PUBLIC_KEY_WORDS = 2


def read(node: Node) -> System:
    """Return what makes the node this one. Secrets in arguments of kernels and of sshd are hidden."""
    addresses = node.start(["ip", "-json", "address"])
    routes = [node.start(["ip", "-json", family, "route"]) for family in ("-4", "-6")]
    firmware = node.start(["efibootmgr", "-v"]) if node.exists(mok.EFIVARS) else None
    units = [FIREWALLD, *(unit for *_files, unit in TOOLS.values() if unit)]
    units += [unit for of_filter, _files in FILTERS.values() for unit in of_filter]
    asked = node.start(unit_states.show(("active_state",), *units))
    places = Places(node)
    active = {unit.id: unit.active_state for unit in unit_states.parse(asked.output() or "")}
    network = Network(
        interfaces=_interfaces(node, _table(addresses)),
        routes=[route for job in routes for route in _routes(_table(job))],
        dns=_dns(node, places),
        tools=list(_tools(places, active)),
        firewall=_firewall(node, active),
    )
    return System(
        _identity(node), _ssh(places), network, _boot(node, places, (firmware.output() if firmware else None) or "")
    )


def _identity(node: Node) -> Identity:
    hostname = node.text("/proc/sys/kernel/hostname")
    lines = (line.split("#", 1)[0].split()[1:] for line in node.text("/etc/hosts").splitlines())
    names = next((words for words in lines if hostname and hostname in words), [])
    zone = node.link("/etc/localtime") or ""
    return Identity(
        hostname=hostname,
        static_hostname=node.text("/etc/hostname"),
        fqdn=next((name for name in names if "." in name), None),
        machine_id=node.text("/etc/machine-id"),
        timezone=zone.partition("/zoneinfo/")[2] or node.text("/etc/timezone") or None,
        locale=_variables(node, LOCALES),
        keyboard=_variables(node, KEYBOARDS),
    )


def _variables(node: Node, files: tuple[str, ...]) -> dict[str, str]:
    """Return the variables that files as os-release(5) set."""
    return {name: value for file in files for name, value in facts_system.os_release(node.text(file)).items()}


def _ssh(places: Places) -> Ssh:
    parts = [f"{SSHD_PARTS}/{name}" for name in places.names(SSHD_PARTS) if name.endswith(".conf")]
    files = [file for file in (SSHD, *parts) if places.data(file) is not None]
    options = [option for file in (*parts, SSHD) for option in _options(places.text(file))]
    named = [words[0] for name, words in options if name == "HostKey"]
    found = [f"{SSH}/{name}" for name in places.names(SSH) if re.fullmatch(r"ssh_host_\w+_key(\.pub)?", name)]
    keys = sorted({path.removesuffix(".pub") for path in (*named, *found)})
    shown = {
        wanted: [commands.shown(" ".join(words)) for name, words in options if name == wanted]
        for wanted in SSHD_OPTIONS
        if any(name == wanted for name, _words in options)
    }
    return Ssh([_host_key(places, path) for path in keys], files, shown)


def _options(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the options of SSHD_OPTIONS in sshd_config(5), by the names they have there."""
    names = {name.lower(): name for name in SSHD_OPTIONS}
    for line in text.splitlines():
        words = re.sub(r"^(\s*\w+)\s*=\s*", r"\1 ", line).split("#", 1)[0].split()
        if len(words) > 1 and words[0].lower() in names:
            yield names[words[0].lower()], [word.strip('"') for word in words[1:]]


def _host_key(places: Places, path: str) -> HostKey:
    words = places.text(f"{path}.pub").split()
    try:
        key = base64.b64decode(words[1], validate=True) if len(words) >= _PUBLIC_KEY_WORDS else b""
    except ValueError:  # of binascii, or because it is not even ASCII
        key = b""
    digest = base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")
    return HostKey(
        path=path,
        type=words[0] if key else None,
        fingerprint=f"SHA256:{digest}" if key else None,
        private=places.data(path) is not None,
    )


def _table(job: Job) -> list[dict[str, Any]]:
    """Return the records that ip printed; none where it printed something else."""
    try:
        found = json.loads(job.output() or "[]")
    except ValueError:
        return []
    return [record for record in found if isinstance(record, dict)] if isinstance(found, list) else []


def _interfaces(node: Node, table: list[dict[str, Any]]) -> list[Interface]:
    """Return the interfaces; those that programs make for containers, without an address of their own, are left out."""
    told = {record.get("ifname"): record for record in table}
    found = []
    for interface in facts_network.read(node):
        name = interface["name"]
        record = told.get(name, {})
        addresses = [
            Address(f"{one.get('local')}/{one.get('prefixlen')}", bool(one.get("dynamic")))
            for one in record.get("addr_info") or []
            if one.get("scope") == "global" and not one.get("temporary")
        ]
        home = f"{facts_network.INTERFACES}/{name}"
        if addresses or interface["kind"] not in ("virtual", "tunnel"):
            found.append(
                Interface(
                    name=name,
                    kind=interface["kind"],
                    link_layer=interface["link_layer"],
                    driver=interface["driver"],
                    speed_gbps=interface["speed_gbps"],
                    up=interface["up"],
                    default_route=interface["default_route"],
                    ipv4=interface["ipv4"],
                    mac=node.text(f"{home}/address") or record.get("address"),
                    permanent_mac=record.get("permaddr") or node.text(f"{home}/bonding_slave/perm_hwaddr") or None,
                    mtu=node.number(f"{home}/mtu") or record.get("mtu"),
                    master=record.get("master"),
                    addresses=addresses,
                )
            )
    return found


def _routes(table: list[dict[str, Any]]) -> Iterator[Route]:
    """Yield the routes, but for those that the kernel makes of addresses."""
    for route in table:
        if route.get("protocol") != "kernel":
            hops = [hop for hop in route.get("nexthops") or [route] if isinstance(hop, dict)]
            for hop in hops:
                yield Route(
                    to=route.get("dst"),
                    via=hop.get("gateway"),
                    interface=hop.get("dev"),
                    metric=route.get("metric"),
                    by=route.get("protocol"),
                )


def _dns(node: Node, places: Places) -> Dns:
    target = node.link(RESOLV) or ""
    managed = next((name for name in ("systemd", "NetworkManager", "resolvconf") if name in target), None)
    lines = [
        line.split() for line in (node.text(RESOLVED) if managed == "systemd" else places.text(RESOLV)).splitlines()
    ]

    def words(*names: str) -> list[str]:
        return [word for line in lines if line and line[0] in names for word in line[1:]]

    return Dns(
        servers=words("nameserver"),
        search=words("search", "domain"),
        options=words("options"),
        managed_by=managed,
    )


def _tools(places: Places, active: dict[str, str]) -> Iterator[NetworkTool]:
    for tool, (directories, endings, unit) in TOOLS.items():
        files = [
            f"{directory}/{name}"
            for directory in directories
            for name in places.names(directory)
            if (name.endswith(endings) or name.startswith(endings))
            and (directory != "/etc/network" or name == INTERFACES)
            and places.data(f"{directory}/{name}") is not None
        ]
        running = active.get(unit) == "active" if unit and active else None
        if files or running:
            yield NetworkTool(tool, files, running)


def _firewall(node: Node, active: dict[str, str]) -> Firewall:
    filters = [name for name, (units, _files) in FILTERS.items() if "active" in map(active.get, units)]
    files = [file for _units, paths in FILTERS.values() for file in paths if node.exists(file)]
    return Firewall(
        there=group.firewalls(node),
        on=group.firewall(node, active.get(FIREWALLD, "")) or next(iter(filters), None),
        files=files,
    )


def _boot(node: Node, places: Places, entries: str) -> Boot:
    running = node.text("/proc/sys/kernel/osrelease")
    found = kernels.versions(node, running)
    chosen, arguments = kernels.following(node, found)
    named = facts_system.distribution(facts_system.os_release(node.text("/etc/os-release")))
    pair = mok.key_pair(node, named["id"])
    certificate = node.data(pair.certificate)
    order = re.search(r"^BootOrder: (\S+)", entries, re.MULTILINE)
    current = re.search(r"^BootCurrent: (\S+)", entries, re.MULTILINE)
    return Boot(
        command_line=_arguments(node.text("/proc/cmdline")),
        next_kernel=chosen,
        next_arguments=None if arguments is None else _arguments(" ".join(arguments)),
        kernels=[Kernel(one, one == running) for one, there in found.items() if there],
        files=[f"{directory}/{name}" for directory in KEPT_NAMES for name in places.names(directory)],
        secure_boot=facts_system.secure_boot(node),
        mok=MachineOwnerKey(
            certificate=pair.certificate if certificate else None,
            fingerprint=mok.fingerprint(certificate) if certificate else None,
            standing=mok.standing(node, pair),
        ),
        firmware="uefi" if node.exists("/sys/firmware/efi") else "bios",
        entries=[
            BootEntry(number, label.strip(), bool(star), for_people(path))
            for number, star, label, path in _BOOT.findall(entries)
        ],
        order=order[1].split(",") if order else [],
        current=current[1] if current else None,
        esp=_esp(places),
        sbat_level=facts_system.sbat_level(node),
    )


def _arguments(line: str) -> str:
    """Return a kernel's command line as people may see it: without values called secret, and without who logs in."""
    found = []
    for word in re.findall(r'(?:[^\s"]|"[^"]*"?)+', for_people(line)):
        name, equals, value = word.partition("=")
        if any(map(commands.is_secret, re.findall(r"([\w.-]+)[=:]", word))):
            value = HIDDEN
        elif "@" in value:
            value = f"{HIDDEN}@{value.rpartition('@')[2]}"
        found.append(f"{name}{equals}{value}")
    return " ".join(found)


def _esp(places: Places) -> Esp | None:
    """Find the EFI system partition where it is mounted."""
    for path in ESPS:
        mount = places.mount_of(path)
        if mount.place == path and mount.type == "vfat":
            return Esp(path, mount.source, places.names(f"{path}/EFI"))
    return None
