# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ports of InfiniBand and RoCE adapters, as the kernel shows them in /sys/class/infiniband."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.machine import Gid, InfinibandPort

DEVICES = "/sys/class/infiniband"
# Room that a packet of RoCE v2 may need beside its data: iboe_get_mtu() in the kernel's include/rdma/ib_addr.h.
ROCE_OVERHEAD = 96
PATH_MTUS = (4096, 2048, 1024, 512, 256)
# Of libibverbs, which NCCL opens by this name, on the systems that gpulab knows.
LIBRARY = "libibverbs.so.1"
LIBRARIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/local/lib")
MOST_EMPTY = 16  # entries of a table of addresses in a row; it has up to 1024, of which a few are used
_DEVICE, _PORT, _MTU = (re.compile(rf"{name}:\s+(\w+)") for name in ("^hca_id", r"\bport", "active_mtu"))


# Of DOCA-OFED and MLNX_OFED: their programs and libraries, and their modules of the kernel, fit only each other.
VENDOR = "/usr/bin/ofed_info"


def path_mtu(mtu: int) -> int | None:
    """Return the bytes of data in a packet that a network interface of this MTU has room for; None for none."""
    return next((size for size in PATH_MTUS if size <= mtu - ROCE_OVERHEAD), None)


class InfinibandQuery:
    """Asks ibv_devinfo and dcb beside the caller's other work, where there are adapters."""

    def __init__(self, node: Node) -> None:
        """Start them. Both only read, and are late where an adapter does not answer."""
        self._node = node
        devices = node.names(DEVICES)
        self._told = node.start(["ibv_devinfo"]) if devices else None
        interfaces = {_interface(node, device, port) or "" for device in devices for port in _ports(node, device)}
        self._flow = {one: node.start(["dcb", "-j", "pfc", "show", "dev", one]) for one in sorted(interfaces) if one}

    def facts(self) -> list[InfinibandPort]:
        """Return the facts ``infiniband``, an entry for each port.

        States are the kernel's words in small letters, as "active" and "linkup". card is the PCI device, None for
        soft-RoCE, which has none; interface that of RoCE or IPoIB; gids are the addresses in use. None is what was not
        told: rate_gbps, opens (whether programs can use it), mtu (bytes of data in a packet), lossless (the priorities
        with PFC), downed (how often the link went down, in the hours since the boot).
        """
        node = self._node
        told = self._told.output() if self._told else None
        mtus = active_mtus(told or "")
        untold = None if any(node.exists(f"{place}/{LIBRARY}") for place in LIBRARIES) else False
        lossless = {name: priorities(job.output() or "") for name, job in self._flow.items()}
        hours = _hours(node.text("/proc/uptime"))
        found: list[InfinibandPort] = []
        for device in node.names(DEVICES):
            for port in _ports(node, device):
                home, interface = f"{DEVICES}/{device}/ports/{port}", _interface(node, device, port)
                found.append(
                    {
                        "device": device,
                        "port": int(port),
                        "link_layer": node.text(f"{home}/link_layer").lower(),
                        "state": _word(node.text(f"{home}/state")),
                        "physical_state": _word(node.text(f"{home}/phys_state")),
                        "rate_gbps": rate_gbps(node.text(f"{home}/rate")),
                        "card": _card(node, f"{DEVICES}/{device}/device"),
                        "interface": interface,
                        "opens": (device, port) in mtus if told is not None else untold,
                        "mtu": mtus.get((device, port)),
                        "gids": _gids(node, home),
                        "downed": _downed(node, home),
                        "hours": hours,
                        "lossless": lossless.get(interface or ""),
                    }
                )
        return found


def rate_gbps(text: str) -> float | None:
    """Parse "400 Gb/sec (4X NDR)"."""
    match = re.match(r"([\d.]+) Gb/sec", text)
    return float(match.group(1)) if match else None


def active_mtus(text: str) -> dict[tuple[str, str], int]:
    """Parse what ibv_devinfo prints: by device and port, the bytes of data in a packet."""
    found, device, port = {}, "", ""
    for line in text.splitlines():
        if match := _DEVICE.search(line):
            device = match[1]
        elif match := _MTU.search(line):
            found[device, port] = int(match[1])
        elif match := _PORT.search(line):
            port = match[1]
    return found


def priorities(text: str) -> list[int] | None:
    """Parse what ``dcb -j pfc show`` prints: the priorities that pause in place of a loss; None for no answer."""
    try:
        switched = json.loads(text)["prio_pfc"]
    except (ValueError, KeyError, TypeError):
        return None
    return [number for number, on in enumerate(switched) if on in (True, "on")]


def _ports(node: Node, device: str) -> list[str]:
    return [port for port in node.names(f"{DEVICES}/{device}/ports") if port.isdigit()]


def _interface(node: Node, device: str, port: str) -> str | None:
    """Return the network interface of a port: that of its first address, else of the device."""
    home = f"{DEVICES}/{device}"
    first = node.text(f"{home}/ports/{port}/gid_attrs/ndevs/0")
    return first or node.text(f"{home}/parent") or next(iter(node.names(f"{home}/device/net")), None)


def _card(node: Node, home: str) -> str | None:
    numbers = [node.text(f"{home}/{name}").replace("0x", "") for name in ("vendor", "device")]
    return ":".join(numbers) if all(numbers) else None


def _gids(node: Node, home: str) -> list[Gid]:
    """Return the entries of a port's table of addresses that are in use."""
    found: list[Gid] = []
    empty = index = 0
    while empty < MOST_EMPTY:
        gid = node.text(f"{home}/gids/{index}")
        if gid.strip("0:"):
            kind = node.text(f"{home}/gid_attrs/types/{index}")
            found.append({"index": index, "gid": gid, "type": kind, "ipv4": _ipv4(gid)})
        empty = 0 if gid.strip("0:") else empty + 1
        index += 1
    return found


def _ipv4(gid: str) -> str | None:
    """Return the IPv4 address of 0000:0000:0000:0000:0000:ffff:0a63:0001."""
    mapped = gid.replace(":", "")
    if not re.fullmatch("0{20}ffff[0-9a-f]{8}", mapped):
        return None
    return ".".join(str(int(mapped[at : at + 2], 16)) for at in range(24, 32, 2))


def _downed(node: Node, home: str) -> int | None:
    told = [node.number(f"{home}/{counters}/link_downed") for counters in ("counters", "hw_counters")]
    return next((number for number in told if number is not None), None)


def _hours(uptime: str) -> float | None:
    """Parse /proc/uptime: the hours since the machine has booted."""
    seconds = uptime.partition(" ")[0]
    return round(float(seconds) / 3600, 2) if re.fullmatch(r"\d+\.\d+", seconds) else None


def _word(text: str) -> str:
    """Return the word of "4: ACTIVE"."""
    return text.rpartition(":")[2].strip().lower()


def vendors(node: Node) -> bool:
    """Return the fact ``ofed``: whether the node has the vendor's own software for its adapters."""
    return node.exists(VENDOR)
