"""Faults of software, settings and the ways between GPUs that settings decide; see faults.py."""

from __future__ import annotations

from typing import Any

from . import nodes
from .faults import Fault, all_of, every_gpu, put

DRIVER_PLAN = {"branch": "580", "version": nodes.DRIVER, "kernel_modules": "open", "persistence": True}


def planned(**libraries: str) -> dict[str, Any]:
    """Return a plan with these libraries."""
    return {
        "driver": DRIVER_PLAN,
        "container_toolkit": {"packages": []},
        "libraries": {name: {"version": version} for name, version in libraries.items()},
    }


def nccl(name: str, value: str) -> Any:
    """Return an injection of a setting for every NCCL program."""
    return put("nccl", [{"name": name, "value": value, "file": "/etc/nccl.conf"}])


def below_switch(**device: Any) -> Any:
    """Return an injection in which the GPUs hang on one PCIe switch, with these facts of the PCI bus."""
    return all_of(
        lambda facts: [pair.update(ancestor="single") for pair in facts["nvml"]["peers"]],
        lambda facts: [gpu.update(device) for gpu in facts["pci"]["gpus"]],
    )


def left(*drift: str) -> Any:
    """Return an injection of a receipt, with what somebody else changed of what it names."""
    receipt = {"inputs": {}, "problem": "", "differs": list(drift), "drift": list(drift)}
    return put("receipts", {"base": receipt, "nccl": receipt})


LIBRARIES = [
    Fault(
        "planned cuDNN missing",
        "l40s",
        put("libraries.cudnn", []),
        "cuda-libraries",
        "install_software",
        plan=planned(cudnn="9.14.0.64"),
        says="cuDNN 9.14.0.64 is not installed",
    ),
    Fault(
        "another NCCL than the plan's",
        "h100x8",
        lambda _: None,
        "cuda-libraries",
        "install_software",
        plan=planned(nccl="2.29.2"),
        says="NCCL 2.28.3 is installed",
    ),
]

CONTAINERS = [
    Fault(
        "Docker's default runtime is not defined",
        "h100x8",
        all_of(put("containers.docker.default_runtime", "nvidia"), put("containers.docker.runtimes", [])),
        "container-runtime",
        "configure",
        says="cannot restart",
    ),
    Fault(
        "Docker starts no container",
        "l40s",
        put("container_started", {"seconds": 0.9, "problem": "docker run: no space left on device"}),
        "container-start",
        "mend_docker",
        "warn",
    ),
    Fault(
        "the Docker that is planned starts no container",
        "l40s",
        put("container_started", {"seconds": 0.9, "problem": "docker run: no space left on device"}),
        "container-start",
        "mend_docker",
        plan={"container_toolkit": {"engines": ["docker"], "packages": []}},
    ),
    Fault(
        "the program of Docker's default runtime is gone",
        "h100x8",
        all_of(
            put("containers.docker.default_runtime", "nvidia"),
            put("containers.docker.missing_programs", {"nvidia": "/opt/nvidia-container-runtime"}),
        ),
        "container-runtime",
        "set_by_hand",
        says="/opt/nvidia-container-runtime",
    ),
    Fault(
        "the root of the driver holds none",
        "t4",
        all_of(put("containers.toolkit_root", "/run/nvidia/driver"), put("containers.toolkit_root_there", value=False)),
        "toolkit-driver-root",
        "set_by_hand",
        "warn",
    ),
    Fault(
        "containerd has CDI off",
        "h100x8",
        lambda _: None,
        "containerd-cdi",
        "set_by_hand",
        "warn",
        plan={"container_toolkit": {"engines": ["containerd"], "packages": []}},
    ),
    Fault(
        "SELinux keeps Podman's containers from the GPUs",
        "l40s",
        all_of(
            put("engines.podman", "5.4.2"),
            put("containers.selinux", {"enforcing": True, "devices": False}),
        ),
        "container-selinux",
        "allow_devices",
        "warn",
    ),
    Fault(
        "Docker has failed",
        "l40s",
        put("services.docker", {"load": "loaded", "active": "failed", "sub": "failed", "enabled": "enabled"}),
        "container-runtime",
        "start_service",
    ),
    Fault(
        "Podman without a CDI specification",
        "rtx4090x2",
        all_of(put("engines.podman", "5.4.2"), put("containers.cdi", [])),
        "cdi-specification",
        "configure",
        "warn",
        says="Podman",
    ),
]

SLURM = {
    "munge": True,
    "answers": True,
    "node": {"name": "node1", "states": ["IDLE"], "reason": "", "gpus": 2},
    "accounting": True,
    "door": {"opens": False, "why": "", "beside": [], "as_root": []},
}


def slurm(**node):
    """Return a change that lets Slurm know a node of two GPUs, with what differs."""
    return put("slurm", {**SLURM, "node": {**SLURM["node"], **node}})


def door(**differs):
    """Return a change that closes the door beside Slurm, with what differs."""
    return put("slurm", {**SLURM, "door": {**SLURM["door"], **differs}})


MONITORING = [
    Fault(
        "MUNGE is stopped",
        "rtx4090x2",
        put("slurm", {**SLURM, "munge": False}),
        "slurm-munge",
        "start_service",
        "fail",
    ),
    Fault(
        "slurmctld does not answer",
        "rtx4090x2",
        put("slurm", {**SLURM, "answers": False, "node": None}),
        "slurm-node",
        "set_up_slurm",
        "fail",
        says="does not answer",
    ),
    Fault(
        "slurmctld does not know the node",
        "rtx4090x2",
        put("slurm", {**SLURM, "node": None}),
        "slurm-node",
        "set_up_slurm",
        "fail",
        says="does not know",
    ),
    Fault(
        "slurmd is stopped",
        "rtx4090x2",
        slurm(states=["DOWN"]),
        "slurm-node",
        "start_service",
        "fail",
    ),
    Fault(
        "the node is drained",
        "rtx4090x2",
        slurm(states=["IDLE", "DRAIN"], reason="gpulab health: GPU 0"),
        "slurm-node",
        "resume_node",
        "warn",
        says="gpulab health: GPU 0",
    ),
    Fault(
        "MariaDB is stopped",
        "rtx4090x2",
        put("slurm", {**SLURM, "accounting": False}),
        "slurm-accounting",
        "start_service",
        "warn",
        says="jobs go on",
    ),
    Fault(
        "the door beside Slurm is open",
        "rtx4090x2",
        door(opens=True, why="/dev/nvidia0"),
        "slurm-door",
        "close_door",
        "fail",
        says="/dev/nvidia0",
    ),
    Fault(
        "cron is a way round the door",
        "rtx4090x2",
        door(beside=["cron", "systemd-cron"]),
        "slurm-door",
        "close_door",
        "warn",
        says="systemd-cron",
    ),
    Fault(
        "Docker is a way round the door",
        "rtx4090x2",
        door(as_root=["ada", "ben"]),
        "slurm-door",
        "close_door",
        "warn",
        says="ada, ben",
    ),
    Fault("Slurm knows too few GPUs", "rtx4090x2", slurm(gpus=1), "slurm-gpus", "set_up_slurm", "fail", says="1 of 2"),
    Fault(
        "node exporter does not answer",
        "rtx4090x2",
        put("monitoring.exporter", {"listen": "10.1.2.3:9100", "answers": False, "serves_gpus": None}),
        "node-exporter",
        "start_service",
        "warn",
        says="10.1.2.3:9100",
    ),
    Fault(
        "node exporter serves no text files",
        "rtx4090x2",
        put("monitoring.exporter.serves_gpus", value=False),
        "node-exporter",
        "configure",
        "warn",
    ),
    Fault(
        "DCGM's exporter does not answer",
        "h100x8",
        put("monitoring.dcgm_exporter", {"listen": "10.1.2.3:9400", "answers": False, "serves_gpus": None}),
        "dcgm-exporter",
        "start_service",
        "warn",
        says="10.1.2.3:9400",
    ),
    Fault(
        "DCGM's exporter sees no GPU",
        "a100-pcie-x2",
        put("monitoring.dcgm_exporter.serves_gpus", value=False),
        "dcgm-exporter",
        "start_service",
        "warn",
        says="no GPU",
    ),
    Fault(
        "the collector of GPU metrics stopped",
        "rtx4090x2",
        put("monitoring.collector.age_seconds", 121),
        "gpu-metrics",
        "start_service",
        "warn",
        says="121 s old",
    ),
    Fault(
        "the collector of GPU metrics never wrote",
        "l40s",
        put("monitoring.collector.age_seconds", None),
        "gpu-metrics",
        "start_service",
        "warn",
    ),
]

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

LIMITS = [
    Fault(
        "sessions may lock 8 MiB, with InfiniBand",
        "h100x8",
        put("limits.sessions.memlock", 8 << 20),
        "memlock",
        "configure",
        "warn",
        says="limits.d",
    ),
    Fault(
        "services may lock 64 KiB, with InfiniBand",
        "h200x8",
        put("limits.services.memlock", 64 << 10),
        "memlock",
        "configure",
        "warn",
        says="DefaultLimitMEMLOCK",
    ),
    Fault(
        "sessions may open few files", "l40s", put("limits.sessions.nofile", 4096), "open-files", "configure", "info"
    ),
    Fault(
        "64 MiB of shared memory for several GPUs",
        "v100x4",
        put("limits.shared_memory_mib", 64),
        "shared-memory",
        "configure",
        "warn",
        says="64 MiB",
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

DRIFT = [
    Fault(
        "somebody edited what gpulab keeps",
        "rtx4090x2",
        left("/etc/nccl.conf was edited", "libnvidia-ml1 was removed"),
        "drift",
        "configure",
        "warn",
        says="not by gpulab: /etc/nccl.conf was edited; libnvidia-ml1 was removed",
    ),
]

SOFTWARE_FAULTS = DRIFT + LIBRARIES + CONTAINERS + MONITORING + GROUP + NCCL + NCCL_FILES + LIMITS + WAYS
