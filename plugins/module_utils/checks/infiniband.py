# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the InfiniBand ports, and the way from the GPUs to what NCCL's data goes through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import check, inapplicable, info, ok, warn
from ansible_collections.gpulab.node.plugins.module_utils.facts import nccl

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts, Node, Result

KERNEL_GUIDE = "https://docs.kernel.org/infiniband/sysfs.html"
VERBS_GUIDE = "https://github.com/linux-rdma/rdma-core/blob/master/README.md"
GPUDIRECT_GUIDE = "https://docs.nvidia.com/cuda/gpudirect-rdma/"
NO_FABRIC = "no InfiniBand or RoCE port is in use"
INFINIBAND, ROCE = "infiniband", "ethernet"  # the kernel's words for a link layer


def ports_of(node: Node, layer: str) -> list[Facts]:
    """Return the ports of a link layer."""
    return [port for port in node.facts["infiniband"] if port.get("link_layer") == layer]


def _active(ports: list[Facts]) -> list[Facts]:
    return [port for port in ports if port.get("state") == "active"]


def has_peers(node: Node) -> bool:
    """Tell whether the node works together with others."""
    return any(not host.get("own") for host in node.facts.get("group.hosts", []))


def named_ports(node: Node) -> list[Facts]:
    """Return the ports that a setting of NCCL names."""
    lists = [one["value"] for one in node.facts.get("nccl", []) if one["name"] == "NCCL_IB_HCA"]
    ports: list[Facts] = node.facts["infiniband"]
    return [port for port in ports if any(nccl.names_port(one, port["device"], port["port"]) for one in lists)]


def fabric_ports(node: Node) -> list[Facts]:
    """Return the ports through which NCCL's data goes: those named that are up, else InfiniBand, else RoCE to peers.

    A server without peers may have adapters that can do RoCE, and use them for other things.
    """
    named, infiniband = _active(named_ports(node)), _active(ports_of(node, INFINIBAND))
    return named or infiniband or (_active(ports_of(node, ROCE)) if has_peers(node) else [])


def fabric_name(ports: list[Facts]) -> str:
    """Return what people call the network of these ports."""
    return "RoCE" if any(port.get("link_layer") == ROCE for port in ports) else "InfiniBand"


def port_name(port: Facts) -> str:
    """Return the name of a port in a result."""
    return f"{port['device']} port {port['port']}"


@check("infiniband", proves="InfiniBand ports are up and run at the same rate", source=KERNEL_GUIDE, on_host=True)
def infiniband(node: Node) -> Iterator[Result]:
    """Compare the ports with each other; a node none of whose ports is up is not on a fabric."""
    ports = ports_of(node, INFINIBAND)
    active = _active(ports)
    if not active and not any(port.get("physical_state") == "linkup" for port in ports):
        yield inapplicable("no InfiniBand port is in use")
        return
    best = max((port.get("rate_gbps", 0) for port in active), default=0)
    found = False
    for port in ports:
        name, rate = port_name(port), port.get("rate_gbps", 0)
        state = {"observed": port.get("state"), "expected": "active"}
        if port in active:
            if rate < best:
                found = True
                yield warn(
                    f"{name} runs at {rate:g} Gb/s, but another port at {best:g} Gb/s",
                    "check_seating",
                    observed=rate,
                    expected=best,
                    unit="Gb/s",
                )
        elif port.get("physical_state") == "linkup":
            found = True
            yield warn(f"{name} has a link but no subnet manager", "start_service", reason="opensm", **state)
        else:
            found = True
            yield warn(f"{name} is {port.get('state')}, but other ports are up", "check_seating", **state)
    if not found:
        yield ok(f"{len(active)} ports at {best:g} Gb/s", len(active))


@check("rdma-programs", proves="programs can use the InfiniBand and RoCE ports", source=VERBS_GUIDE)
def rdma_programs(node: Node) -> Iterator[Result]:
    """Find ports that no program can open: NCCL says nothing of it and takes TCP."""
    ports = fabric_ports(node)
    shut = [port_name(port) for port in ports if port.get("opens") is False]
    untold = [port_name(port) for port in ports if port.get("opens") is None]
    if not ports:
        yield inapplicable(NO_FABRIC)
    elif shut:
        yield warn(
            f"programs cannot open {', '.join(shut)}, so NCCL uses TCP without a word",
            "install_software",
            reason="libibverbs, the card's library (Debian: ibverbs-providers), or /dev/infiniband is missing",
            observed=len(ports) - len(shut),
            expected=len(ports),
        )
    elif untold:
        told = f"whether programs can open {', '.join(untold)} was not tried"
        yield info(told, "install_software", reason="ibv_devinfo (package ibverbs-utils, or libibverbs-utils) tells it")
    else:
        yield ok(f"programs can open {len(ports)} ports", len(ports))


@check("gpudirect", proves="the network adapters can reach GPU memory", source=GPUDIRECT_GUIDE, on_host=True)
def gpudirect(node: Node) -> Iterator[Result]:
    """Expect nvidia_peermem, or the open kernel modules, which offer dma-buf instead."""
    ports = fabric_ports(node)
    if not ports:
        yield inapplicable(NO_FABRIC)
        return
    if not any(port.get("card") for port in ports):
        yield inapplicable("soft-RoCE has no card that could reach GPU memory")
        return
    if not node.gpus:
        yield node.without("NVML lists no GPU (see driver-responsive)")
        return
    flavour = next((k.get("nvidia_module_flavour") for k in node.kernels() if k.get("running")), None)
    if node.facts["modules.nvidia_peermem.loaded"]:
        yield ok("nvidia_peermem is loaded")
    elif flavour == "open":
        yield ok("the open kernel modules share GPU memory through dma-buf", flavour)
    else:
        yield warn(
            "nvidia_peermem is not loaded, so transfers between GPU and network go through host memory",
            "configure",
            observed="absent",
            expected="loaded",
            reason="it needs a kernel whose ib_core offers peer memory, as DOCA-OFED's does; open modules need neither",
        )
