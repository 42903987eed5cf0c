# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check what RDMA between nodes came to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.infiniband import NO_FABRIC, fabric_ports
from ansible_collections.gpulab.node.plugins.module_utils.checks.measurements.judging import what_kept
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    Facts,
    Node,
    Result,
    check,
    fail,
    inapplicable,
    info,
    ok,
    unknown,
    warn,
)
from ansible_collections.gpulab.node.plugins.module_utils.checks.roce import SOFT

if TYPE_CHECKING:
    from collections.abc import Iterator

PERFTEST = "https://github.com/linux-rdma/perftest"
# Writes of 64 KiB come to more than nine tenths of a port's rate; PCI Express, or small packets, may be in the way.
SHARE = 0.8
UNMEASURED = "RDMA between nodes was not measured"


@check("rdma-nodes", proves="nodes reach each other by RDMA at their ports' rate, in equal packets", source=PERFTEST)
def rdma_nodes(node: Node) -> Iterator[Result]:
    """Name the port and the node between which nothing passes, or little; soft-RoCE's rates are not judged."""
    ports = fabric_ports(node)
    if not node.declared.get("across_nodes") or node.declared.get("level", "quick") == "quick":
        yield inapplicable("not requested (verify_across_nodes, at level standard)")
    elif not ports:
        yield inapplicable(NO_FABRIC)
    elif node.facts.get("measurements.gpus") is None:
        yield unknown("no measurements were made")
    elif (record := node.facts.get("measurements.nodes_rdma")) is None:
        told = "this node gave no answer while the nodes sent each other RDMA"
        yield fail(told, "check_network", reason="it died, or it hangs")
    elif record["state"] == "unreachable":
        summary = f"{record['nodes'][0]} cannot be reached at {record['meeting_point']}"
        yield fail(summary, "check_network", reason=record["reason"])
    elif record["state"] == "failed":
        yield warn(f"{UNMEASURED}: {record['error.name']}", "check_network")
    elif record["state"] == "not_installed":
        yield warn(f"{UNMEASURED}: {record['reason']}", "install_software")
    elif record["state"] == "too_old":  # no job needs it
        yield info(f"{UNMEASURED}: {record['reason']}", "upgrade_software")
    elif kept := what_kept(node, record, "RDMA between nodes", "check_network"):
        yield kept
    else:
        by_name = {(port["device"], port["port"]): port for port in ports}
        found = [result for pair in record["pairs"] for result in _pair(pair, by_name)]
        yield from found or [_summary(record, ports)]


def _pair(pair: Facts, ports: dict[tuple[str, int], Facts]) -> Iterator[Result]:
    """Yield what is wrong between this node and another one."""
    peer = pair["peer"]
    if pair["state"] == "missing":
        yield unknown(f"{peer}: {pair['reason']}")
        return
    if pair["state"] == "lost":
        yield fail(f"{peer} left while it sent RDMA", "check_network", reason=pair["reason"])
    small = set()
    for rail in pair.get("rails", []):
        port = ports.get((rail["device"], rail["port"]))
        way = f"from {rail['device']} port {rail['port']} to {peer}"
        rate = rail.get("write_gbps")
        if rail["state"] != "done":
            why = f"no end within {rail['seconds']:g} s" if rail["state"] == "late" else rail["error.name"]
            yield fail(f"RDMA does not pass {way} ({rail['test']})", "check_network", reason=why)
        elif port and port.get("mtu") and rail.get("mtu", port["mtu"]) < port["mtu"] and way not in small:
            small.add(way)
            yield warn(
                f"packets {way} have {rail['mtu']} bytes, though this port can send {port['mtu']}",
                "set_interface",
                observed=rail["mtu"],
                expected=port["mtu"],
                unit="bytes",
                reason=f"the interface of {peer} has a smaller MTU",
            )
        if port and port.get("card") and rate and rate < SHARE * port.get("rate_gbps", 0):
            floor = round(SHARE * port["rate_gbps"])
            told = f"RDMA {way} at {rate:g} Gb/s, below {floor}, of a port of {port['rate_gbps']:g} Gb/s"
            yield warn(told, "check_network", observed=rate, expected=floor, unit="Gb/s")


def _summary(record: Facts, ports: list[Facts]) -> Result:
    rails = [rail for pair in record["pairs"] for rail in pair["rails"]]
    slowest = min((rail["write_gbps"] for rail in rails if rail.get("write_gbps") is not None), default=0)
    latency = max((rail["latency_us"] for rail in rails if rail.get("latency_us") is not None), default=0)
    peers = ", ".join(pair["peer"] for pair in record["pairs"])
    soft = not any(port.get("card") for port in ports)
    return ok(
        f"RDMA with {peers}: {slowest:g} Gb/s or more, latency {latency:g} us or less",
        slowest,
        unit="Gb/s",
        reason=f"{SOFT}: the rate is not judged" if soft else None,
    )
