# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the InfiniBand ports, and the way from the GPUs to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import check, inapplicable, ok, warn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts, Node, Result

KERNEL_GUIDE = "https://docs.kernel.org/infiniband/sysfs.html"
GPUDIRECT_GUIDE = "https://docs.nvidia.com/cuda/gpudirect-rdma/"
NO_FABRIC = "no InfiniBand port is in use"


def _ports(node: Node) -> list[Facts]:
    return [port for port in node.facts["infiniband"] if port.get("link_layer") == "infiniband"]


def active_ports(node: Node) -> list[Facts]:
    """Return the InfiniBand ports that are up."""
    return [port for port in _ports(node) if port.get("state") == "active"]


@check("infiniband", proves="InfiniBand ports are up and run at the same rate", source=KERNEL_GUIDE, on_host=True)
def infiniband(node: Node) -> Iterator[Result]:
    """Compare the ports with each other; a node none of whose ports is up is not on a fabric."""
    ports = _ports(node)
    active = [port for port in ports if port.get("state") == "active"]
    if not active and not any(port.get("physical_state") == "linkup" for port in ports):
        yield inapplicable(NO_FABRIC)
        return
    best = max((port.get("rate_gbps", 0) for port in active), default=0)
    found = False
    for port in ports:
        name, rate = f"{port.get('device')} port {port.get('port')}", port.get("rate_gbps", 0)
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


@check("gpudirect", proves="the network adapters can reach GPU memory", source=GPUDIRECT_GUIDE, on_host=True)
def gpudirect(node: Node) -> Iterator[Result]:
    """Expect nvidia_peermem, or the open kernel modules, which offer dma-buf instead."""
    if not active_ports(node):
        yield inapplicable(NO_FABRIC)
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
        )
