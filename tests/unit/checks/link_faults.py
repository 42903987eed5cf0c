"""Faults of links: PCI Express, NVLink, its fabric, InfiniBand; see faults.py."""

from __future__ import annotations

from typing import Any

from . import nodes
from .faults import OLD, Fault, all_of, every_gpu, gpu, put


def links_down(facts: dict[str, Any], *numbers: int) -> None:
    """Take NVLinks of the first GPU down."""
    for number in numbers:
        facts["nvml"]["gpus"][0]["nvlink"]["links"][number]["active"] = False


LINKS = [
    Fault("x8 of x16 on an H100", "h100x8", gpu("pcie.width", 8, 2), "pcie-width", "check_seating"),
    Fault("x4 on an L40S wired x8", "l40s", gpu("pcie.width", 4), "pcie-width", "check_seating"),
    Fault("x8 of x16 on a GeForce", "rtx4090x2", gpu("pcie.width", 8, 1), "pcie-width", "check_seating", "warn"),
    Fault(
        "A100 in a slot of 8 lanes",
        "a100-pcie-x2",
        all_of(gpu("pcie.width", 8), put("pci.gpus.0.bridge_link.max_width", 8)),
        "pcie-width",
        "check_seating",
        "warn",
        says="slot has 8 lanes",
    ),
    Fault("x4 on an A10G", "a10g", gpu("pcie.width", 4), "pcie-width", "check_seating", says="x4 of x8"),
    Fault("x4 on a GeForce of eight lanes", "rtx4060ti", gpu("pcie.width", 4), "pcie-width", "check_seating"),
    Fault("generation 1 under load", "t4", gpu("utilization.gpu", 90), "pcie-generation", "check_seating", "warn"),
    Fault("two NVLinks down", "h100x8", lambda f: links_down(f, 3, 7), "nvlink", "reset_gpu", says="down: 3, 7"),
    Fault(
        "NVLink not supported on a V100 SXM2",
        "v100x4",
        all_of(gpu("nvlink.count", nodes.ABSENT), gpu("nvlink.links", [])),
        "nvlink",
        "reset_gpu",
    ),
    Fault(
        "NVLink bridge of one board half up",
        "a100-pcie-bridged",
        lambda f: links_down(f, 8, 9, 10, 11),
        "nvlink",
        "check_seating",
        "warn",
    ),
    Fault(
        "NVLink replays", "h200x8", gpu("nvlink.links.4.errors.replay", 12), "nvlink-errors", "contact_support", "warn"
    ),
    Fault(
        "NVLink recoveries",
        "b200x8",
        gpu("nvlink.links.1.errors.recovery", 1),
        "nvlink-errors",
        "contact_support",
        "warn",
    ),
    Fault(
        "NVLink bit errors",
        "v100x4",
        gpu("nvlink.links.0.errors.crc_data", 5000),
        "nvlink-errors",
        "contact_support",
        "warn",
    ),
    Fault(
        "fabric registration does not end",
        "h100x8",
        every_gpu("fabric.state", "in_progress"),
        "fabric",
        "start_fabricmanager",
    ),
    Fault("fabric registration failed", "h200x8", gpu("fabric.status", "UNKNOWN", 6), "fabric", "start_fabricmanager"),
    Fault("no fabric state beside NVSwitches", "h100x8", gpu("fabric", nodes.ABSENT), "fabric", "start_fabricmanager"),
    Fault(
        "no fabric state on a B200, whose switches are on no PCI bus",
        "b200x8",
        gpu("fabric", nodes.ABSENT),
        "fabric",
        "start_fabricmanager",
    ),
    Fault(
        "a GB200 without a partition of its rack",
        "gb200x4",
        every_gpu("fabric.status", "INSUFFICIENT_RESOURCES"),
        "fabric",
        "check_rack",
        says="INSUFFICIENT_RESOURCES",
    ),
    Fault(
        "a GB200 that its rack does not know, in an NVLink domain",
        "gb200x4",
        gpu("fabric", nodes.ABSENT),
        "fabric",
        "check_rack",
    ),
    Fault(
        "Fabric Manager failed on a B200, whose switches are on no PCI bus",
        "b200x8",
        put("services.nvidia-fabricmanager.active", "failed"),
        "fabric-manager",
        "start_fabricmanager",
    ),
    Fault(
        "fabric bandwidth degraded",
        "b200x8",
        gpu("fabric.health_mask", 0b01),
        "fabric",
        "contact_support",
        says="degraded bandwidth",
    ),
    *(
        Fault(f"fabric {says}", "b200x8", gpu("fabric.health_mask", 0xAA | number << 8), "fabric", remedy, says=says)
        for number, says, remedy in (
            (2, "incorrect system GUID", "contact_support"),
            (3, "incorrect chassis serial number", "contact_support"),
            (4, "no partition", "check_rack"),
            (5, "insufficient NVLinks", "contact_support"),
            (6, "incompatible GPU firmware", "upgrade_software"),
            (7, "invalid location", "check_seating"),
            (8, "invalid state of the GPU", "reset_gpu"),
            (9, "configuration error 9", "contact_support"),
        )
    ),
    Fault("fabric limited in summary", "b200x8", gpu("fabric.health_summary", 3), "fabric", "contact_support"),
    Fault(
        "a GPU that is slow and says no reason",
        "gb10",
        all_of(
            gpu("clocks.sm", 513),
            gpu("clocks.max_sm", 3003),
            gpu("utilization.gpu", 96),
            gpu("power_mw.usage", 14_000),
            gpu("clocks.event_reasons", 0),
            gpu("processes", [{"pid": 77, "memory_mib": 900}]),
        ),
        "clock-without-reason",
        "power_cycle",
        severity="warn",
        says="513 of 3003 MHz",
    ),
    Fault(
        "a virtual GPU without a licence",
        "t4",
        all_of(
            put("pci.gpus.0.vgpu", value=True),
            put("services.nvidia-gridd", {"load": "loaded", "active": "active"}),
            gpu("name", "NVIDIA RTXA6000-24Q"),
            gpu("licence", {"product": "NVIDIA RTX Virtual Workstation", "licensed": False}),
        ),
        "vgpu-licence",
        "license_vgpu",
        says="NVIDIA RTX Virtual Workstation",
    ),
    Fault(
        "a virtual GPU without the daemon that gets its licence",
        "t4",
        all_of(gpu("vbios", "00.00.00.00.00"), gpu("name", "GRID T4-16C")),
        "vgpu-licence",
        "license_vgpu",
        says="nvidia-gridd is not installed",
    ),
    Fault(
        "a GPU that is busy for nobody",
        "h100x8",
        all_of(gpu("utilization.gpu", 100), gpu("processes", [])),
        "busy-for-nobody",
        "power_cycle",
        severity="warn",
        says="100 %",
    ),
    Fault("fabric unhealthy in summary", "b200x8", gpu("fabric.health_summary", 2), "fabric", "contact_support"),
    Fault(
        "Fabric Manager stopped",
        "h100x8",
        all_of(
            put("services.nvidia-fabricmanager.active", "failed"),
            lambda f: f["driver"]["packages"].append(
                {"name": "nvidia-fabricmanager", "version": f"{nodes.DRIVER}-1", "source": "nvidia"}
            ),
        ),
        "fabric-manager",
        "start_fabricmanager",
        says="nvidia-fabricmanager is failed",
    ),
    Fault(
        "Fabric Manager not installed",
        "h200x8",
        put("services", {"docker": {"active": "active"}}),
        "fabric-manager",
        "start_fabricmanager",
    ),
    Fault(
        "Fabric Manager of another version",
        "h100x8",
        lambda f: f["driver"]["packages"].append(
            {"name": "nvidia-fabricmanager", "version": f"{OLD}-1", "source": "nvidia"}
        ),
        "fabric-manager",
        "start_fabricmanager",
        says=OLD,
    ),
    Fault(
        "IMEX does not answer",
        "h100x8",
        put("imex", {"nodes": ["10.1.2.3"], "own": True, "state": None, "channel": True}),
        "imex",
        "start_imex",
        says="no answer",
    ),
    Fault(
        "IMEX waits for other nodes",
        "h100x8",
        put("imex", {"nodes": ["10.1.2.3"], "own": True, "state": "WAITING_FOR_PEERS", "channel": True}),
        "imex",
        "start_imex",
        "warn",
    ),
    Fault(
        "IMEX without a channel",
        "h100x8",
        put("imex", {"nodes": ["10.1.2.3"], "own": True, "state": "READY", "channel": False}),
        "imex",
        "reboot",
    ),
    Fault(
        "IMEX of another version",
        "h100x8",
        all_of(
            put("imex", {"nodes": ["10.1.2.3"], "own": True, "state": "READY", "channel": True}),
            lambda f: f["driver"]["packages"].append(
                {"name": "nvidia-imex", "version": f"{OLD}-1", "source": "nvidia"}
            ),
        ),
        "imex",
        "start_imex",
        says=OLD,
    ),
    Fault(
        "no NVLink between two SXM GPUs",
        "h100x8",
        put("nvml.peers.0.nvlink", "not_supported"),
        "peer-access",
        "start_fabricmanager",
    ),
    Fault(
        "a V100 with no NVLink to any other",
        "v100x4",
        all_of(*(put(f"nvml.peers.{pair}.nvlink", "not_supported") for pair in range(3))),
        "peer-access",
        "reset_gpu",
        says="3 of 6 pairs",
    ),
    Fault(
        "a GPU of a cube mesh with no NVLink to any other",
        "v100x8",
        all_of(*(put(f"nvml.peers.{pair}.nvlink", "not_supported") for pair in range(7))),
        "peer-access",
        "reset_gpu",
        says="7 of 28 pairs",
    ),
    Fault(
        "no NVLink between two V100",
        "v100x4",
        put("nvml.peers.0.nvlink", "not_supported"),
        "peer-access",
        "none",
        "info",
        says="no NVLink",
    ),
    Fault(
        "peer access disabled by an option",
        "a100-pcie-x2",
        put("nvml.peers.0.read", "disabled_by_regkey"),
        "peer-access",
        "configure",
        "warn",
    ),
    Fault(
        "peer access not supported",
        "rtx4090x2",
        put("nvml.peers.0.read", "chipset_not_supported"),
        "peer-access",
        "none",
        "info",
    ),
]
INFINIBAND = [
    Fault(
        "InfiniBand port down",
        "h100x8",
        all_of(put("infiniband.3.state", "down"), put("infiniband.3.physical_state", "polling")),
        "infiniband",
        "check_seating",
        "warn",
        says="mlx5_3 port 1 is down",
    ),
    Fault(
        "InfiniBand port slower than the others",
        "h200x8",
        put("infiniband.0.rate_gbps", 200.0),
        "infiniband",
        "check_seating",
        "warn",
        says="200 Gb/s",
    ),
    Fault("no subnet manager", "h100x8", put("infiniband.5.state", "init"), "infiniband", "start_service", "warn"),
    Fault(
        "no way from GPUs to the network",
        "h100x8",
        all_of(
            put("modules.nvidia_peermem.loaded", value=False), put("kernels.0.nvidia_module_flavour", "proprietary")
        ),
        "gpudirect",
        "configure",
        "warn",
    ),
]
