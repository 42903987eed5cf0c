# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check RoCE ports: whether they are up and alike, their packets, their addresses, and what happens to losses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.infiniband import (
    NO_FABRIC,
    ROCE,
    fabric_ports,
    has_peers,
    named_ports,
    port_name,
    ports_of,
)
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import check, fail, inapplicable, info, ok, warn
from ansible_collections.gpulab.node.plugins.module_utils.facts.infiniband import path_mtu

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts, Node, Result
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.machine import Gid

KERNEL_GUIDE = "https://docs.kernel.org/infiniband/sysfs.html"
NCCL_GUIDE = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
MTU_RULE = "https://github.com/torvalds/linux/blob/v6.12/include/rdma/ib_addr.h"
DCB_GUIDE = "https://man7.org/linux/man-pages/man8/dcb-pfc.8.html"
NO_ROCE = "no RoCE port is in use"
SOFT = "soft-RoCE"
INDEX = "NCCL_IB_GID_INDEX"
VERSION_2 = "RoCE v2"
# A switch that is maintained takes all ports down at once, and rarely. This is a cable or an optical module.
MOST_DOWNS, DOWNS_PER_DAY = 5, 1.0
FAST_GBPS, LARGE_PACKET = 100, 4096


def _used(node: Node) -> list[Facts]:
    """Return the RoCE ports through which NCCL's data goes."""
    return [port for port in fabric_ports(node) if port.get("link_layer") == ROCE]


def _wanted(node: Node) -> list[Facts]:
    """Return the RoCE ports that ought to be up: those named, else those with an IPv4 address."""
    named = [port for port in named_ports(node) if port.get("link_layer") == ROCE]
    if named or not has_peers(node):
        return named
    return [port for port in ports_of(node, ROCE) if any(gid.get("ipv4") for gid in port.get("gids", []))]


def _interface(node: Node, port: Facts) -> dict[str, object]:
    found = (one.data for one in node.facts.get("network", []) if one["name"] == port.get("interface"))
    return next(found, {})


@check("roce-ports", proves="RoCE ports are up, and equal ones run at the same rate", source=KERNEL_GUIDE, on_host=True)
def roce_ports(node: Node) -> Iterator[Result]:
    """Find ports that somebody counts on and that are down, and a card that is slower than its like."""
    used, found = _used(node), False
    named = {port_name(port) for port in named_ports(node)}
    for port in _wanted(node):
        if port.get("state") != "active":
            found = True
            off = port.get("physical_state") == "disabled"
            told = f"its interface {port.get('interface')} is switched off" if off else "it has no link"
            yield warn(
                f"{port_name(port)} is down: {told}",
                "set_interface" if off else "check_seating",
                observed=port.get("state"),
                expected="active",
                reason="a setting of NCCL names it" if port_name(port) in named else "it has an IPv4 address",
            )
    for port in used:
        best = max(other.get("rate_gbps", 0) for other in used if other.get("card") == port.get("card"))
        rate = port.get("rate_gbps", 0)
        if rate < best:
            found = True
            told = f"{port_name(port)} runs at {rate:g} Gb/s, but an equal card at {best:g} Gb/s"
            yield warn(told, "check_seating", observed=rate, expected=best, unit="Gb/s")
    if not found:
        yield ok(f"{len(used)} RoCE ports are up", len(used)) if used else inapplicable(NO_ROCE)


@check("port-downs", proves="the links of InfiniBand and RoCE ports stay up", source=KERNEL_GUIDE, on_host=True)
def port_downs(node: Node) -> Iterator[Result]:
    """Find a port whose link goes down again and again, and more often than that of the others."""
    ports = {port_name(port): port for port in [*fabric_ports(node), *_wanted(node)]}
    counts = [(port, port.get("downed")) for port in ports.values()]
    known = [(port, downs) for port, downs in counts if downs is not None]
    if not known:
        yield inapplicable("no port tells how often its link went down" if ports else NO_FABRIC)
        return
    least = min(downs for _port, downs in known) if len(known) > 1 else 0
    found = False
    for port, downs in known:
        hours = port.get("hours") or 0
        if downs - least >= MOST_DOWNS and (downs - least) * 24 >= DOWNS_PER_DAY * hours:
            found = True
            yield warn(
                f"the link of {port_name(port)} went down {downs} times in {hours:g} hours",
                "check_seating",
                observed=downs,
                expected=least,
                reason="a cable or an optical module; where all ports of a switch do so, the switch",
            )
    if not found:
        yield ok("no link goes down again and again")


@check("roce-mtu", proves="RoCE ports send packets as large as their interfaces permit", source=MTU_RULE, on_host=True)
def roce_mtu(node: Node) -> Iterator[Result]:
    """Compare each port's packets with its interface, and the interfaces with each other."""
    ports = _used(node)
    if not ports:
        yield inapplicable(NO_ROCE)
        return
    mtus = {port_name(port): (port, _interface(node, port).get("mtu")) for port in ports}
    largest = max((mtu for _port, mtu in mtus.values() if isinstance(mtu, int)), default=0)
    found, unread = False, [name for name, (port, mtu) in mtus.items() if port.get("mtu") is None or not mtu]
    for name, (port, mtu) in mtus.items():
        active = port.get("mtu")
        possible = path_mtu(mtu) if isinstance(mtu, int) else None
        where = f"{port.get('interface')} has an MTU of {mtu}"
        if isinstance(mtu, int) and mtu < largest:
            found = True
            told = f"{where}, but another interface of RoCE has {largest}"
            yield warn(told, "set_interface", observed=mtu, expected=largest, unit="bytes", reason=name)
        elif active and possible and active < possible:
            found = True
            told = f"{name} sends packets of {active} bytes, though {where}"
            yield warn(told, "set_interface", observed=active, expected=possible, unit="bytes")
        elif active and active < LARGE_PACKET and port.get("rate_gbps", 0) >= FAST_GBPS:
            found = True
            told = f"{name} sends packets of {active} bytes, because {where}; {LARGE_PACKET} need 4200 or more"
            yield info(told, "set_interface", observed=active, expected=LARGE_PACKET, unit="bytes")
    if unread:
        yield info(
            f"the size of packets was not read of {', '.join(unread)}",
            reason="ibv_devinfo tells it of ports that programs can open (see rdma-programs)",
        )
    elif not found:
        sizes = sorted({port["mtu"] for port in ports})
        yield ok(f"packets of {', '.join(map(str, sizes))} bytes", sizes[0], unit="bytes")


@check("roce-address", proves="RoCE ports have an address of RoCE v2 at the index that NCCL takes", source=NCCL_GUIDE)
def roce_address(node: Node) -> Iterator[Result]:
    """Look for an address that routers pass; and at the index that a setting names, for such a one on each port."""
    ports = _used(node)
    if not ports:
        yield inapplicable(NO_ROCE)
        return
    found = False
    for port in ports:
        if not any(fits(gid) for gid in port.get("gids", [])):
            found = True
            yield warn(
                f"{port_name(port)} has no address of RoCE v2 with IPv4",
                "set_interface",
                observed=", ".join(sorted({gid["type"] for gid in port.get("gids", [])})) or "none",
                expected=f"an IPv4 address on {port.get('interface')}",
                reason="NCCL then takes a link-local address, or one of IPv6 only where NCCL_IB_ADDR_FAMILY says so",
            )
    for setting in node.facts["nccl"]:
        if setting["name"] == INDEX and setting["value"].isdigit():
            for port in ports:
                if wrong := _wrong_index(port, int(setting["value"])):
                    found = True
                    good = [str(gid["index"]) for gid in port.get("gids", []) if fits(gid)]
                    yield fail(
                        f"{INDEX}={setting['value']}: {wrong}",
                        "configure",
                        observed=setting["value"],
                        expected=f"{' or '.join(good) or 'another index'}, or no such line with NCCL 2.21 or later",
                        reason=setting["file"],
                    )
    if not found:
        indexes = sorted({next(gid["index"] for gid in port["gids"] if fits(gid)) for port in ports})
        yield ok(f"RoCE v2 with IPv4 at index {', '.join(map(str, indexes))}", indexes[0])


def fits(gid: Facts | Gid) -> bool:
    """Tell whether an address is one that NCCL takes by itself: RoCE v2, of an IPv4 address."""
    return bool(gid["type"] == VERSION_2 and gid.get("ipv4"))


def _wrong_index(port: Facts, index: int) -> str | None:
    """Return what is wrong with the address at an index of a port, in words; None where it fits."""
    gid = next((one for one in port.get("gids", []) if one["index"] == index), None)
    if gid is None:
        return f"{port_name(port)} has no address there, so NCCL does not connect"
    if gid["type"] != VERSION_2:
        return f"the address of {port_name(port)} there is of {gid['type']}, which passes no router"
    return None if gid.get("ipv4") else f"the address of {port_name(port)} there has no IPv4 and passes no router"


@check("roce-pause", proves="RoCE ports agree on the priorities that pause in place of a loss", source=DCB_GUIDE)
def roce_pause(node: Node) -> Iterator[Result]:
    """Compare the ports' priorities with PFC. What was not read is said, and is not good."""
    ports = [port for port in _used(node) if port.get("card")]
    if not ports:
        yield inapplicable(NO_ROCE if not _used(node) else f"{SOFT} has no priorities")
        return
    unread = [port_name(port) for port in ports if port.get("lossless") is None]
    told = {port_name(port): port["lossless"] for port in ports if port.get("lossless") is not None}
    words = {name: ", ".join(map(str, those)) or "none" for name, those in told.items()}
    if unread:
        yield info(f"priority flow control (PFC) was not read of {', '.join(unread)}", reason="dcb tells nothing of it")
    if len({*words.values()}) > 1:
        summary = "; ".join(f"{name}: {those}" for name, those in words.items())
        yield warn(f"RoCE ports pause on other priorities: {summary}", "check_network", observed=summary)
    elif told and not any(told.values()):
        summary = "no priority of the RoCE ports has flow control (PFC), so packets are lost under load"
        yield info(summary, "check_network", reason="congestion control (ECN) alone can do, where the switches mark")
    elif told:
        yield ok(f"flow control (PFC) on priority {next(iter(words.values()))}")
