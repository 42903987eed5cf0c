# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network of a node between its installation and its rebuild: files of systemd-networkd, by captured addresses.

The captured files come back later. Until then the node answers where it answered before, on plain Ethernet; other
networks need files of their own (reinstall_network_files). No I/O here.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.system import (
        Dns,
        Interface,
        Network,
        NetworkTool,
        Route,
    )

DIRECTORY, RESOLV = "/etc/systemd/network", "/etc/resolv.conf"
PREFIX = "10-gpulab-reinstall-"
ETHERNET_MTU = 1500
PLAIN = "physical"
_BY_ITSELF = ("dhcp", "ra", "redirect")  # routes that come without a file


def needed(network: Network, server: str, client: str) -> list[Interface]:
    """Return the interfaces that the controller reaches the node by.

    server and client are the ends of the controller's connection, empty where nobody knows them. The interface of the
    default route is among them, but for a client on the network of the other one.
    """
    known = network.interfaces
    answering = [one for one in known if server and _holds(one, server)]
    routed = [one for one in known if one.default_route]
    if answering and client and any(_is_near(one, client) for one in answering):
        return answering
    return [*answering, *(one for one in routed if one not in answering)]


def obstacle(wanted: list[Interface]) -> str:
    """Say why plain files cannot make the network by which the node is reached; nothing where they can."""
    if not wanted:
        return "no interface has the address that this run connects to, nor the default route"
    for one in wanted:
        name = one.name
        if one.kind != PLAIN or one.link_layer != "ethernet":
            kind = one.kind if one.kind != PLAIN else one.link_layer
            return f"{name}, by which it is reached, is not plain Ethernet, but {kind}"
        if one.master:
            return f"{name}, by which it is reached, is a part of {one.master}"
        if not one.mac:
            return f"{name}, by which it is reached, has no hardware address"
        if not one.addresses:
            return f"{name}, by which it is reached, has no address"
    return ""


def files(network: Network, wanted: list[Interface]) -> dict[str, str]:
    """Return the texts of the files for all plain interfaces with addresses, by path."""
    plain = [
        one
        for one in network.interfaces
        if one.kind == PLAIN and one.link_layer == "ethernet" and not one.master and one.mac
    ]
    made = {
        f"{DIRECTORY}/{PREFIX}{one.name}.network": "\n".join(_lines(one, network, needed=one in wanted))
        for one in plain
        if one.addresses
    }
    return {**made, **resolv(network.dns)}


def resolv(dns: Dns) -> dict[str, str]:
    """Return resolv.conf with the captured servers, but for those on the node itself; nothing without others."""
    servers = [one for one in dns.servers if not _is_loopback(one)]
    lines = [f"nameserver {one}" for one in servers]
    lines += [f"search {' '.join(dns.search)}"] if dns.search else []
    return {RESOLV: "\n".join([*lines, ""])} if servers else {}


def _lines(one: Interface, network: Network, *, needed: bool) -> Iterator[str]:
    yield "# Written by gpulab for the time until the rebuild"
    yield from _link(one, needed=needed)
    mine = [route for route in network.routes if route.interface == one.name]
    fixed = [each.address for each in one.addresses if not each.dynamic]
    moving = {_family(each.address) for each in one.addresses if each.dynamic}
    advertised = 6 in moving or any(route.by == "ra" for route in mine)  # noqa: PLR2004
    yield from ("", "[Network]", f"DHCP={'ipv4' if 4 in moving else 'no'}")  # noqa: PLR2004
    yield f"IPv6AcceptRA={'yes' if advertised else 'no'}"  # which starts DHCPv6 where the router says so
    yield from (f"Address={address}" for address in fixed)
    if 4 in moving:  # noqa: PLR2004
        yield from ("", "[DHCPv4]", *_lease(one, network.tools))
    for route in mine:
        if route.by not in _BY_ITSELF and route.to:
            yield from ("", "[Route]", *_route(route, fixed))
    yield ""


def _link(one: Interface, *, needed: bool) -> Iterator[str]:
    """Yield what an interface is known by, and its own settings."""
    permanent = one.permanent_mac
    changed = permanent is not None and permanent.lower() != (one.mac or "").lower()
    yield from ("[Match]", f"PermanentMACAddress={permanent}" if changed else f"MACAddress={one.mac}", "Type=ether")
    yield from ("", "[Link]")
    if changed:
        yield f"MACAddress={one.mac}"
    if one.mtu and one.mtu != ETHERNET_MTU:
        yield f"MTUBytes={one.mtu}"
    yield f"RequiredForOnline={'yes' if needed else 'no'}"


def _lease(one: Interface, tools: list[NetworkTool]) -> Iterator[str]:
    """Yield what lets the server give the address that the node had."""
    if not any(tool.name == "networkd" and tool.active for tool in tools):
        yield "ClientIdentifier=mac"  # as dhclient and NetworkManager call themselves; networkd goes by the machine-id
    former = next(each.address for each in one.addresses if each.dynamic and _family(each.address) == 4)  # noqa: PLR2004
    yield f"RequestAddress={former.partition('/')[0]}"  # systemd before 255 ignores it


def _route(route: Route, fixed: list[str]) -> Iterator[str]:
    if route.to != "default":
        yield f"Destination={route.to}"
    elif not route.via:
        yield "Destination=0.0.0.0/0"
    if route.via:
        yield f"Gateway={route.via}"
        gateway = ipaddress.ip_address(route.via.partition("%")[0])
        if (
            not any(gateway in ipaddress.ip_interface(address).network for address in fixed)
            and not gateway.is_link_local
        ):
            yield "GatewayOnLink=yes"
    else:
        yield "Scope=link"
    if route.metric:
        yield f"Metric={route.metric}"


def _holds(one: Interface, address: str) -> bool:
    wanted = _address(address)
    return any(_address(each.address.partition("/")[0]) == wanted for each in one.addresses) or (
        wanted is not None and _address(one.ipv4 or "") == wanted
    )


def _is_near(one: Interface, address: str) -> bool:
    wanted = _address(address)
    return wanted is not None and any(wanted in ipaddress.ip_interface(each.address).network for each in one.addresses)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def _family(address: str) -> int:
    return ipaddress.ip_interface(address).version


def _is_loopback(address: str) -> bool:
    found = _address(address)
    return found is None or found.is_loopback
