"""Faults of the way between nodes and of what NCCL is told; see faults.py."""

from __future__ import annotations

from typing import Any

from .faults import Fault, all_of, every_gpu, put


def nccl(name: str, value: str) -> Any:
    """Return an injection of a setting for every NCCL program."""
    return put("nccl", [{"name": name, "value": value, "file": "/etc/nccl.conf"}])


def below_switch(**device: Any) -> Any:
    """Return an injection in which the GPUs hang on one PCIe switch, with these facts of the PCI bus."""
    return all_of(
        lambda facts: [pair.update(ancestor="single") for pair in facts["nvml"]["peers"]],
        lambda facts: [gpu.update(device) for gpu in facts["pci"]["gpus"]],
    )


GROUP = [
    Fault(
        "somebody emptied all tables of nftables",
        "t4",
        put("group.own_firewall.loaded", value=False),
        "group-firewall",
        "configure",
        says="are open to other hosts",
    ),
    Fault(
        "the node's own name leads back to itself",
        "h100x8",
        put("group.hosts.0.leads.node1", "127.0.1.1"),
        "group-names",
        "configure",
        "warn",
        says="node1 resolves to 127.0.1.1",
    ),
    Fault(
        "a peer's name leads elsewhere",
        "t4",
        put("group.hosts.1.leads.node2", "203.0.113.9"),
        "group-names",
        "configure",
        "warn",
        says="203.0.113.9",
    ),
    Fault(
        "a peer's name leads nowhere",
        "t4",
        put("group.hosts.1.leads.node2", None),
        "group-names",
        "configure",
        "warn",
        says="nothing",
    ),
    Fault(
        "the node's address changed",
        "a100-pcie-x2",
        put("monitoring.addresses", ["10.1.2.99", "127.0.0.1"]),
        "group-names",
        "configure",
        "warn",
        says="10.1.2.3",
    ),
    Fault(
        "cloud-init rewrote /etc/hosts",
        "t4",
        put("group.hosts", []),
        "group-names",
        "configure",
        declared={"group_names": True},
        says="not in /etc/hosts",
    ),
    Fault(
        "the name service hangs",
        "t4",
        put("group.hosts.1.leads", {}),
        "group-names",
        "check_network",
        "warn",
        says="10.1.2.4",
    ),
]
NCCL = [
    Fault(
        "NCCL is told an interface that is not there",
        "h100x8",
        nccl("NCCL_SOCKET_IFNAME", "eth0"),
        "nccl-interfaces",
        "configure",
        says="eth0",
    ),
    Fault(
        "NCCL is told an interface that is down",
        "l40s",
        put("network", [{"name": "enp1s0f0np0", "up": False, "ipv4": None}]),
        "nccl-interfaces",
        "check_network",
        "warn",
        says="enp1s0f0np0, which is down",
    ),
    Fault(
        "NCCL is told whole names that are prefixes",
        "rtx4090x2",
        nccl("NCCL_SOCKET_IFNAME", "=enp1s0,enp2s0"),
        "nccl-interfaces",
        "configure",
    ),
    Fault(
        "the loopback is not among the interfaces that are excluded",
        "l40s",
        nccl("NCCL_SOCKET_IFNAME", "^docker0"),
        "nccl-interfaces",
        "configure",
        "warn",
        says="does not exclude lo",
    ),
    Fault(
        "the loopback's name is no whole name of those that are excluded",
        "l40s",
        nccl("NCCL_SOCKET_IFNAME", "^=docker0,l"),
        "nccl-interfaces",
        "configure",
        "warn",
    ),
    Fault(
        "a comment in NCCL's own file",
        "l40s",
        nccl("NCCL_SOCKET_IFNAME", "enp1s0f0np0 # uplink"),
        "nccl-interfaces",
        "configure",
        says="quotes and comments as part of the value",
    ),
    Fault(
        "NCCL is told an adapter that is not there",
        "h200x8",
        nccl("NCCL_IB_HCA", "=mlx5_0:1,mlx5_8:1"),
        "nccl-interfaces",
        "configure",
        "warn",
        says="mlx5_8",
    ),
    Fault(
        "NCCL is kept from peer access",
        "a100-pcie-x2",
        nccl("NCCL_P2P_DISABLE", "1"),
        "nccl-transports",
        "configure",
        "warn",
        says="peer access",
    ),
    Fault(
        "NCCL is kept from shared memory",
        "rtx4090x2",
        nccl("NCCL_SHM_DISABLE", "1"),
        "nccl-transports",
        "configure",
        "warn",
    ),
    Fault(
        "NCCL is kept from InfiniBand",
        "h100x8",
        nccl("NCCL_IB_DISABLE", "1"),
        "nccl-transports",
        "configure",
        "warn",
        says="InfiniBand",
    ),
]
TOPOLOGY = "/opt/microsoft/ndv4-topo.xml"
H100X8 = [f"0000:{0x19 + 0x10 * n:02x}:00.0" for n in range(8)]


def nccl_file(name: str, **described: Any) -> Any:
    """Return an injection of a file for NCCL, which names these GPUs."""
    return all_of(nccl(name, TOPOLOGY), put("nccl_files", {TOPOLOGY: {"gpus": [], "devices": [], **described}}))


NCCL_FILES = [
    Fault(
        "NCCL's topology is not there",
        "h100x8",
        nccl("NCCL_TOPO_FILE", TOPOLOGY),
        "nccl-files",
        "set_by_hand",
        "warn",
        says="does not exist",
    ),
    Fault(
        "NCCL's graph is not there",
        "l40s",
        nccl("NCCL_GRAPH_FILE", TOPOLOGY),
        "nccl-files",
        "set_by_hand",
        says="NCCL does not start",
    ),
    Fault("NCCL's graph has no name", "l40s", nccl("NCCL_GRAPH_FILE", ""), "nccl-files", "set_by_hand", says="no file"),
    Fault(
        "NCCL's topology is of a machine with more GPUs",
        "l40s",
        nccl_file("NCCL_TOPO_FILE", gpus=H100X8),
        "nccl-files",
        "set_by_hand",
        "warn",
        says="0000:29:00.0",
    ),
    Fault(
        "NCCL's topology is of as many GPUs elsewhere",
        "h100x8",
        nccl_file("NCCL_TOPO_FILE", gpus=[*H100X8[:7], "000e:00:00.0"]),
        "nccl-files",
        "set_by_hand",
        "warn",
        says="0000:89:00.0 and 000e:00:00.0",
    ),
    Fault(
        "NCCL's graph is of more GPUs",
        "a100-pcie-x2",
        nccl_file("NCCL_GRAPH_FILE", devices=[0, 1, 2, 3]),
        "nccl-files",
        "set_by_hand",
        says="it has GPU 3, and this node has 2",
    ),
    Fault(
        "a plugin of NCCL's is not there",
        "l40s",
        nccl("NCCL_NET_PLUGIN", "/opt/hpcx/libnccl-net.so"),
        "nccl-files",
        "set_by_hand",
        "warn",
    ),
]
WAYS = [
    Fault(
        "PCIe switch sends peer traffic up to the processor",
        "a100-pcie-x2",
        below_switch(redirecting_bridges=["0000:18:08.0"]),
        "pcie-acs",
        "configure",
        "warn",
        says="0000:18:08.0",
    ),
    Fault(
        "IOMMU translates between GPUs without NVLink",
        "a100-pcie-x2",
        put("pci.gpus.1.iommu", "DMA-FQ"),
        "iommu",
        "configure",
        "warn",
        says="silently corrupt data",
    ),
    Fault(
        "fatal PCI Express errors",
        "h100x8",
        put("pci.gpus.3.errors.fatal", 2),
        "pcie-errors",
        "check_seating",
        "warn",
        says="2 fatal",
    ),
    Fault("PCI Express transfers were repeated", "t4", every_gpu("pcie.replays", 7), "pcie-errors", "none", "info"),
    Fault(
        "slot of an older generation than the board",
        "rtx3060",
        all_of(put("nvml.gpus.0.pcie.max_generation", 3), put("nvml.gpus.0.pcie.generation", 3)),
        "pcie-generation",
        "none",
        "info",
        says="the slot has generation 3",
    ),
]
