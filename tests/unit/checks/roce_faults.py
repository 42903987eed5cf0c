"""Faults of RoCE, on a node that has two such ports in place of InfiniBand; see faults.py."""

from __future__ import annotations

from typing import Any

from unit import machines

from . import loaded, nodes
from .faults import Fault, all_of, put
from .nccl_faults import nccl

ALONE = put("group.hosts", [])


def roce_port(number: int) -> dict[str, Any]:
    """Return the facts of a port of a ConnectX-7 at 400 Gb/s, whose table of addresses is as mlx5's."""
    gids = [
        {"index": index, "gid": gid, "type": version, "ipv4": ipv4}
        for index, (gid, ipv4, version) in enumerate(
            (gid, ipv4, version)
            for gid, ipv4 in ((f"fe80::{number}", None), (f"::ffff:10.9.{number}.1", f"10.9.{number}.1"))
            for version in ("IB/RoCE v1", "RoCE v2")
        )
    ]
    return {
        "device": f"mlx5_{number}",
        "port": 1,
        "link_layer": "ethernet",
        "state": "active",
        "physical_state": "linkup",
        "rate_gbps": 400.0,
        "card": "15b3:1021",
        "interface": f"roce{number}",
        "opens": True,
        "mtu": 4096,
        "gids": gids,
        "downed": 0,
        "hours": 240.0,
        "lossless": [3],
    }


def healthy(model: str) -> dict[str, Any]:
    """Return the facts of a healthy node that has two ports of RoCE in place of InfiniBand."""
    facts = nodes.healthy(model)
    facts["infiniband"] = [roce_port(number) for number in (0, 1)]
    own = [{**machines.INTERFACE, "name": f"roce{number}", "default_route": False} for number in (0, 1)]
    facts["network"] = [*facts["network"], *own]
    return facts


DOWN = all_of(put("infiniband.1.state", "down"), put("infiniband.1.physical_state", "disabled"))


def fault(name: str, inject: Any, check: str, remedy: str, severity: str = "warn", **more: Any) -> Fault:
    """Return a fault on a node with RoCE."""
    return Fault(name, "h100x8", inject, check, remedy, severity, healthy=healthy, **more)


ROCE_FAULTS = [
    fault("an interface of RoCE is switched off", DOWN, "roce-ports", "set_interface", says="roce1 is switched off"),
    fault(
        "a cable of RoCE is out",
        all_of(DOWN, put("infiniband.1.physical_state", "polling")),
        "roce-ports",
        "check_seating",
        says="mlx5_1 port 1 is down: it has no link",
    ),
    fault("a port is slower", put("infiniband.1.rate_gbps", 100.0), "roce-ports", "check_seating", says="100 Gb/s"),
    fault(
        "a link of RoCE flaps",
        put("infiniband.1.downed", 12),
        "port-downs",
        "check_seating",
        says="mlx5_1 port 1 went down 12 times",
    ),
    fault(
        "an interface of RoCE has a small MTU",
        all_of(put("network.2.mtu", 1500), put("infiniband.1.mtu", 1024)),
        "roce-mtu",
        "set_interface",
        says="roce1 has an MTU of 1500, but another interface of RoCE has 9000",
    ),
    fault(
        "packets of RoCE smaller than their interface permits",
        put("infiniband.0.mtu", 1024),
        "roce-mtu",
        "set_interface",
        says="mlx5_0 port 1 sends packets of 1024 bytes",
    ),
    fault(
        "no IPv4 address for RoCE",
        lambda facts: facts["infiniband"][0].update(gids=facts["infiniband"][0]["gids"][:2]),
        "roce-address",
        "set_interface",
        says="no address of RoCE v2 with IPv4",
    ),
    fault(
        "an index of NCCL without an address",
        nccl("NCCL_IB_GID_INDEX", "9"),
        "roce-address",
        "configure",
        "fail",
        says="NCCL does not connect",
    ),
    fault(
        "an index of NCCL that leads to RoCE v1",
        nccl("NCCL_IB_GID_INDEX", "2"),
        "roce-address",
        "configure",
        "fail",
        says="passes no router",
    ),
    fault("RoCE ports pause on other priorities", put("infiniband.1.lossless", [0]), "roce-pause", "check_network"),
    fault(
        "no flow control for RoCE",
        all_of(put("infiniband.0.lossless", []), put("infiniband.1.lossless", [])),
        "roce-pause",
        "check_network",
        "info",
        says="packets are lost under load",
    ),
    fault(
        "programs cannot open a card",
        put("infiniband.0.opens", value=False),
        "rdma-programs",
        "install_software",
        says="NCCL uses TCP without a word",
    ),
    fault(
        "sessions may lock 64 KiB, with RoCE",
        put("limits.sessions.memlock", 64 << 10),
        "memlock",
        "configure",
        says="RoCE transfers fail",
    ),
    fault("NCCL is kept from RoCE", nccl("NCCL_IB_DISABLE", "1"), "nccl-transports", "configure", says="from RoCE"),
    fault("NCCL is told to use sockets", nccl("NCCL_NET", "Socket"), "nccl-transports", "configure", says="from RoCE"),
    fault(
        "an adapter has another name since an update",
        nccl("NCCL_IB_HCA", "=mlx5_0:1,mlx5_7:1"),
        "nccl-interfaces",
        "configure",
        says="mlx5_7",
    ),
]
ACROSS = {"level": "standard", "across_nodes": True}
RAILS = "measurements.nodes_rdma.pairs.0.rails"
REFUSED = {"code": 1, "name": "Failed to modify QP to RTR"}


def on_rail(**changes: Any) -> Any:
    """Return an injection into the first measurement of RDMA with the other node."""
    return lambda facts: facts["measurements"]["nodes_rdma"]["pairs"][0]["rails"][0].update(changes)


def between(name: str, inject: Any, remedy: str, severity: str = "fail", **more: Any) -> Fault:
    """Return a fault that shows when nodes send each other RDMA."""
    return Fault(
        name, "h100x8", inject, "rdma-nodes", remedy, severity, healthy=loaded.measured, declared=ACROSS, **more
    )


def _without(*keys: str) -> Any:
    def inject(facts: dict[str, Any]) -> None:
        for key in keys:
            del facts["measurements"]["nodes_rdma"]["pairs"][0]["rails"][0][key]

    return inject


BETWEEN_NODES = [
    between(
        "RDMA does not pass to a node",
        all_of(on_rail(state="failed", error=REFUSED), _without("write_gbps")),
        "check_network",
        says="RDMA does not pass from mlx5_0 port 1 to node2",
    ),
    between(
        "RDMA to a node does not end",
        all_of(on_rail(state="late", seconds=30.0), _without("write_gbps")),
        "check_network",
        says="no end within 30 s",
    ),
    between(
        "RDMA to a node is slow",
        on_rail(write_gbps=96.0),
        "check_network",
        "warn",
        says="96 Gb/s, below 320, of a port",
    ),
    between("a node's packets are smaller", on_rail(mtu=1024), "set_interface", "warn", says="node2 has a smaller MTU"),
    between(
        "a node leaves in the middle of RDMA",
        lambda facts: facts["measurements"]["nodes_rdma"]["pairs"][0].update(state="lost", reason="timed out"),
        "check_network",
        says="node2 left",
    ),
    between(
        "no perftest on a node",
        put(
            "measurements.nodes_rdma",
            {"state": "not_installed", "reason": "ib_write_bw is not installed (package perftest)"},
        ),
        "install_software",
        "warn",
        says="not measured",
    ),
    between(
        "a perftest that would listen to all",
        put(
            "measurements.nodes_rdma",
            {"state": "too_old", "reason": "its perftest does not know --bind_source_ip"},
        ),
        "upgrade_software",
        "info",
    ),
    between(
        "the first node of RDMA cannot be reached",
        put(
            "measurements.nodes_rdma",
            {
                "state": "unreachable",
                "nodes": ["node1", "node2"],
                "meeting_point": "192.0.2.1 port 23457",
                "reason": "No route to host",
            },
        ),
        "check_network",
        says="node1 cannot be reached",
    ),
    between("a node gives no answer about RDMA", put("measurements.nodes_rdma", None), "check_network"),
]
