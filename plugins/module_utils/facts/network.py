# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network interfaces of a node, and which of them carries the default route."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.facts.pci import bound_driver

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.machine import Interface

INTERFACES = "/sys/class/net"
ARPHRD_ETHERNET, ARPHRD_INFINIBAND, ARPHRD_LOOPBACK = 1, 32, 772  # include/uapi/linux/if_arp.h
_RTF_UP, _RTF_REJECT = 0x1, 0x200
_IPV4_FIELDS, _IPV6_FIELDS = 8, 10


def read(node: Node) -> list[Interface]:
    """Return the facts ``network``: name, kind, link_layer, driver, speed_gbps, mtu, up, default_route, ipv4.

    kind is physical, wireless, bond, bridge, vlan, tunnel or virtual; speed_gbps is None where the interface has or
    tells none. At most one interface has the default route: that of IPv4 with the lowest metric, else that of IPv6.
    Loopback is left out.
    """
    routed = default_interface(node.text("/proc/net/route"), node.text("/proc/net/ipv6_route"))
    return [
        _interface(node, name, default_route=name == routed)
        for name in node.names(INTERFACES)
        if node.number(f"{INTERFACES}/{name}/type") not in (None, ARPHRD_LOOPBACK)
    ]


def default_interface(ipv4: str, ipv6: str) -> str | None:
    """Return the interface of the default route, from /proc/net/route and /proc/net/ipv6_route."""
    found = [
        (4, int(fields[6]), fields[0])
        for fields in map(str.split, ipv4.splitlines()[1:])
        if len(fields) >= _IPV4_FIELDS and _everywhere(fields[1], fields[7]) and int(fields[3], 16) & _RTF_UP
    ] + [
        (6, int(fields[5], 16), fields[9])
        for fields in map(str.split, ipv6.splitlines())
        if len(fields) >= _IPV6_FIELDS
        and _everywhere(fields[0], fields[1])
        and int(fields[8], 16) & (_RTF_UP | _RTF_REJECT) == _RTF_UP
    ]
    return min(found)[2] if found else None


def _everywhere(destination: str, mask: str) -> bool:
    """Tell whether a route, in hexadecimal, is for every address."""
    return int(destination, 16) == int(mask, 16) == 0


def _interface(node: Node, name: str, *, default_route: bool) -> Interface:
    home = f"{INTERFACES}/{name}"
    speed = node.number(f"{home}/speed")  # Mb/s; -1 where it is unknown
    infiniband = node.number(f"{home}/type") == ARPHRD_INFINIBAND
    return {
        "name": name,
        "kind": _kind(node, home),
        "link_layer": "infiniband" if infiniband else "ethernet",
        "driver": bound_driver(node, f"{home}/device"),
        "speed_gbps": speed / 1000 if speed and speed > 0 else None,
        "mtu": node.number(f"{home}/mtu"),
        "up": node.text(f"{home}/operstate") == "up",
        "default_route": default_route,
        "ipv4": node.ipv4(name),
    }


def _kind(node: Node, home: str) -> str:
    if node.is_dir(f"{home}/bonding"):
        return "bond"
    if node.is_dir(f"{home}/bridge"):
        return "bridge"
    uevent = node.text(f"{home}/uevent").split()
    if "DEVTYPE=vlan" in uevent:
        return "vlan"
    if "DEVTYPE=wlan" in uevent:
        return "wireless"
    if node.exists(f"{home}/device"):
        return "physical"
    framed = node.number(f"{home}/type") in (ARPHRD_ETHERNET, ARPHRD_INFINIBAND)
    return "virtual" if framed and not node.exists(f"{home}/tun_flags") else "tunnel"
