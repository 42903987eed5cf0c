"""Faults of GPUs, links, memory and host; see faults.py."""

from __future__ import annotations

from typing import Any

from unit import machines

from . import nodes
from .faults import OLD, Fault, all_of, every_gpu, put

VOLATILE = ("corrected", "uncorrected", "dram_uncorrected", "sram_uncorrected")
FENCE = {
    "run": "R1",
    "since": "2026-11-26T21:00:00Z",
    "by": "anna on laptop",
    "reason": "driver 550",
    "until": None,
    "engine": "none",
    "held": False,
    "before": {},
    "overdue": False,
}
LOST = {"index": 3, "error": "GPU_IS_LOST", "code": 15}


def gpu(path: str, value: Any, number: int = 0) -> Any:
    """Return an injection into one of NVML's GPUs."""
    return put(f"nvml.gpus.{number}.{path}", value)


def xid(
    number: int | None, text: str = "pid=1234, name=python", kind: str = "xid", bus_id: str = "0000:19:00.0"
) -> Any:
    """Return an injection of one line of the kernel log."""
    event = {
        "kind": kind,
        "xid": number,
        "bus_id": bus_id,
        "count": 1,
        "time": "2026-11-21T00:00:01+0000",
        "text": text,
    }
    return lambda facts: facts["kernel_log"]["events"].append(event)


def tier(**found: Any) -> Any:
    """Return an injection of a tier of storage of which this was found."""
    healthy = {"declared": "/dev/nvme1n1", "mounted": "/dev/nvme1n1", "there": True, "options": []}
    return put("storage", [{"mount": "/scratch", "source": "UUID=1", **healthy, **found}])


def export(**found: Any) -> Any:
    """Return an injection of a tier that is exported, of which the server was found so."""
    return tier(exports=[{"client": "10.1.2.0/24", "live": True, "missing": [], **found}])


def links_down(facts: dict[str, Any], *numbers: int) -> None:
    """Take NVLinks of the first GPU down."""
    for number in numbers:
        facts["nvml"]["gpus"][0]["nvlink"]["links"][number]["active"] = False


def errors(volatile: int = 0, sram: int = 0, corrected: int = 0) -> Any:
    """Return an injection of ECC errors."""
    return all_of(
        gpu("ecc.volatile.uncorrected", volatile),
        gpu("ecc.volatile.corrected", corrected),
        gpu("ecc.aggregate.sram_uncorrected", sram),
    )


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

MEMORY = [
    Fault(
        "ECC off on an H100",
        "h100x8",
        gpu("ecc.mode", {"enabled": False, "pending": False}),
        "ecc-enabled",
        "configure",
    ),
    Fault(
        "ECC not supported on an A100",
        "a100-pcie-x2",
        gpu("ecc.mode", nodes.ABSENT),
        "ecc-enabled",
        "contact_support",
        says="has ecc",
    ),
    Fault(
        "ECC changes at the next reboot", "l40s", gpu("ecc.mode.pending", value=False), "ecc-enabled", "reboot", "warn"
    ),
    Fault(
        "uncorrected error since the driver's load", "a100-pcie-x2", errors(volatile=1), "ecc-uncorrected", "reset_gpu"
    ),
    Fault(
        "uncorrected errors over the board's life, none since the driver's load",
        "a100-pcie-x2",
        gpu("ecc.aggregate.uncorrected", 3),
        "ecc-uncorrected",
        "none",
        "info",
        says="3 uncorrected memory errors over the board's life",
    ),
    Fault("SRAM errors over the board's life", "h200x8", errors(sram=5), "ecc-uncorrected", "contact_support", "warn"),
    Fault(
        "very many corrected errors", "v100x4", errors(corrected=30_000_000), "ecc-corrected", "contact_support", "warn"
    ),
    Fault("SRAM threshold exceeded", "h100x8", gpu("ecc.sram_threshold_exceeded", value=True), "sram-threshold", "rma"),
    Fault("row remap pending", "a100-pcie-x2", gpu("remapped_rows.pending", value=True), "row-remapping", "reset_gpu"),
    Fault(
        "row remap failed, and pending too",
        "h100x8",
        all_of(gpu("remapped_rows.failure", value=True), gpu("remapped_rows.pending", value=True)),
        "row-remapping",
        "rma",
    ),
    Fault("too many rows remapped", "b200x8", gpu("remapped_rows.uncorrected", 512), "row-remapping", "rma"),
    Fault(
        "banks without spare rows",
        "l40s",
        gpu("remapped_rows.banks.none", 2),
        "row-remapping",
        "contact_support",
        "warn",
    ),
    Fault(
        "row remapping not supported on an H200",
        "h200x8",
        gpu("remapped_rows", nodes.ABSENT),
        "row-remapping",
        "contact_support",
    ),
    Fault("pages retired to the limit", "v100x4", gpu("retired_pages.single_bit", 60), "retired-pages", "rma"),
    Fault("page retirement pending", "t4", gpu("retired_pages.pending", value=True), "retired-pages", "reboot"),
    Fault(
        "many double-bit pages",
        "v100x4",
        gpu("retired_pages.double_bit", 15),
        "retired-pages",
        "contact_support",
        "warn",
    ),
]

THERMAL = [
    Fault("no thermal margin left", "h100x8", gpu("temperature.margin", 0), "temperature", "check_cooling"),
    Fault("narrow thermal margin", "b200x8", gpu("temperature.margin", 3), "temperature", "check_cooling", "warn"),
    Fault("above the board's limit", "a100-pcie-x2", gpu("temperature.gpu", 86), "temperature", "check_cooling"),
    Fault(
        "above 85 °C, no limit published",
        "t4",
        all_of(
            gpu("temperature.gpu", 86), *(gpu(f"temperature.{name}", nodes.ABSENT) for name in ("slowdown", "gpu_max"))
        ),
        "temperature",
        "check_cooling",
        says="85",
    ),
    Fault("memory too hot", "v100x4", gpu("temperature.memory", 97), "memory-temperature", "check_cooling"),
    Fault("hardware thermal slowdown", "h200x8", gpu("clocks.event_reasons", 0x48), "clock-events", "check_cooling"),
    Fault("power brake", "h100x8", gpu("clocks.event_reasons", 0x88), "clock-events", "check_power"),
    Fault(
        "hardware slowdown without a cause",
        "rtx4090x2",
        gpu("clocks.event_reasons", 0x8),
        "clock-events",
        "check_power",
    ),
    Fault(
        "software thermal slowdown", "l40s", gpu("clocks.event_reasons", 0x20), "clock-events", "check_cooling", "warn"
    ),
    Fault(
        "power limit lowered",
        "rtx4090x2",
        every_gpu("power_mw.enforced_limit", 300_000),
        "power-limit",
        "configure",
        "warn",
    ),
    Fault(
        "power budget exceeded",
        "h100x8",
        lambda _: None,
        "power-budget",
        "configure",
        "warn",
        declared={"power_budget_watts": 5000},
        says="5600 W of 5000 W",
    ),
    Fault(
        "GPUs without limits on a power supply that was declared",
        "rtx4090x2",
        lambda _: None,
        "power-budget",
        "configure",
        "warn",
        also=("gpu-settings",),
        plan={"gpu_settings": {"settings": {"all": {}, "gpus": {}, "power_budget_watts": 650}}},
        says="900 W of 650 W",
    ),
    Fault("one GPU much warmer", "h100x8", gpu("temperature.gpu", 60, 4), "siblings-alike", "check_cooling", "warn"),
]

BOARD = [
    Fault("GPU lost", "h100x8", put("nvml.gpus.3", LOST), "gpu-count", "reboot", says="GPU_IS_LOST"),
    Fault(
        "GPU lost while it was read",
        "a100-pcie-x2",
        gpu("temperature", {"error": "GPU_IS_LOST", "code": 15}),
        "gpu-answers",
        "reboot",
    ),
    Fault(
        "GPU requires a reset",
        "h200x8",
        gpu("ecc.volatile", {"error": "RESET_REQUIRED", "code": 16}, 5),
        "gpu-answers",
        "reset_gpu",
    ),
    Fault(
        "power cable not connected",
        "rtx4090x2",
        gpu("power_mw.usage", {"error": "INSUFFICIENT_POWER", "code": 8}),
        "gpu-answers",
        "check_power",
    ),
    Fault("driver asks for a GPU reset", "h100x8", gpu("recovery_action", 1), "recovery-action", "reset_gpu"),
    Fault("driver asks for a reboot", "b200x8", gpu("recovery_action", 2), "recovery-action", "reboot"),
    Fault("driver asks for a drain and reset", "h200x8", gpu("recovery_action", 4), "recovery-action", "reset_gpu"),
    Fault("infoROM corrupt", "t4", gpu("inforom.valid", value=False), "inforom", "contact_support"),
    Fault(
        "GSP firmware of another driver", "l40s", gpu("gsp.version", OLD), "gsp-firmware", "reinstall_driver", "warn"
    ),
    Fault(
        "MIG on, not declared",
        "a100-pcie-bridged",
        every_gpu("mig", {"enabled": True, "pending": True}),
        "mig",
        "configure",
    ),
    Fault("MIG declared, off", "h100x8", lambda _: None, "mig", "configure", declared={"mig": True}),
    Fault("MIG changes at the next reset", "h200x8", gpu("mig.pending", value=True), "mig", "reset_gpu", "warn"),
    Fault(
        "one VBIOS differs", "h100x8", gpu("vbios", "96.00.30.00.01", 7), "siblings-alike", "contact_support", "warn"
    ),
    Fault(
        "one GPU has less memory",
        "v100x4",
        gpu("memory_mib.total", 15360, 1),
        "siblings-alike",
        "contact_support",
        "warn",
    ),
    Fault("unknown board", "unknown-model", lambda _: None, "board-known", "none", "info"),
    Fault(
        "somebody computes",
        "a100-pcie-x2",
        put(
            "users_of_gpus",
            {
                "state": "busy",
                "who": [{"pid": 4, "user": "alice", "command": "python", "kind": "process", "service": False}],
                "sessions": [],
            },
        ),
        "gpu-idle",
        "stop_app",
        "info",
        says="alice",
    ),
]

XIDS = [
    Fault("XID 79", "h100x8", xid(79), "xids", "reboot", says="fallen off the bus"),
    Fault("XID 48", "a100-pcie-x2", xid(48), "xids", "reset_gpu"),
    Fault("XID 95", "a100-pcie-x2", xid(95), "xids", "reset_gpu"),
    Fault("XID 119", "l40s", xid(119), "xids", "reset_gpu", says="GSP"),
    Fault("XID 74", "h200x8", xid(74), "xids", "reset_gpu"),
    Fault("XID 54", "rtx4090x2", xid(54), "xids", "check_power"),
    Fault("XID 63", "h100x8", xid(63), "xids", "reset_gpu", "warn"),
    Fault("XID 94", "h100x8", xid(94), "xids", "restart_app", "warn"),
    Fault("XID 149, fatal", "b200x8", xid(149, "NETIR_LINK_EVT Fatal XC0 i0 Link 08"), "xids", "reset_gpu"),
    Fault(
        "XID 149, not fatal", "b200x8", xid(149, "NETIR_LINK_EVT Nonfatal XC0 i0 Link 08"), "xids", "reset_gpu", "warn"
    ),
    Fault("XID 999, unknown to NVIDIA", "t4", xid(999), "xids", "contact_support", "warn"),
    Fault("XID 13, a program's fault", "rtx4090x2", xid(13), "xids", "restart_app", "info"),
    Fault("fallen off the bus, without XID", "v100x4", xid(None, "NVRM: ...", "fallen_off_the_bus"), "xids", "reboot"),
    Fault("reset required, without XID", "h100x8", xid(None, "NVRM: ...", "reset_required"), "xids", "reset_gpu"),
]


def settings(**values: Any) -> dict[str, Any]:
    """Return a plan with these settings of every GPU."""
    return {"gpu_settings": {"settings": {"all": values, "gpus": {}, "power_budget_watts": None}}}


def cut_into(*names: str) -> Any:
    """Return an injection of MIG, on every GPU, with these instances; and of what a driver no longer tells then."""

    def part(facts: dict[str, Any]) -> None:
        for pair in facts["nvml"]["peers"]:
            pair.update(dict.fromkeys(("read", "write", "nvlink"), "not_supported"))
        for each in facts["nvml"]["gpus"]:
            for link in each["nvlink"]["links"]:
                link["active"] = False

    return all_of(
        part,
        every_gpu("mig", {"enabled": True, "pending": True}),
        every_gpu("mig_instances", [{"name": name} for name in names]),
        *(every_gpu(path, nodes.ABSENT) for path in ("utilization", "remapped_rows")),
        *(every_gpu(f"ecc.volatile.{kind}", nodes.ABSENT) for kind in VOLATILE),
    )


def cdi_for(*names: str) -> Any:
    """Return an injection of two MIG devices on the first GPU, and of a CDI specification with these."""
    devices = [{"index": index, "uuid": f"MIG-{index + 1}"} for index in range(2)]
    return all_of(
        put("nvml.gpus.0.mig_instances", [{"name": "3g.20gb", "devices": [device]} for device in devices]),
        put("containers.cdi.0.mig_devices", list(names)),
    )


def set_power(watts: int, number: int = 0) -> Any:
    """Return an injection of another power limit."""
    return all_of(gpu("power_mw.limit", watts * 1000, number), gpu("power_mw.enforced_limit", watts * 1000, number))


SETTINGS = [
    Fault(
        "a power limit that was changed by hand",
        "rtx4090x2",
        all_of(every_gpu("power_mw.limit", 300_000), every_gpu("power_mw.enforced_limit", 300_000), set_power(350, 1)),
        "gpu-settings",
        "configure",
        "warn",
        plan=settings(power_limit_watts=300),
        says="power_limit_watts is 350",
    ),
    Fault(
        "a power limit that a boot took away",
        "l40s",
        lambda _: None,
        "gpu-settings",
        "configure",
        "warn",
        plan=settings(power_limit_watts=300),
        says="power_limit_watts is 350",
    ),
    Fault(
        "a power limit below the declared one",
        "l40s",
        set_power(200),
        "gpu-settings",
        "configure",
        "warn",
        also=("power-limit",),
        plan=settings(power_limit_watts=300),
        says="power_limit_watts is 200",
    ),
    Fault(
        "limits that go past the power supply",
        "rtx4090x2",
        lambda _: None,
        "gpu-settings",
        "configure",
        "warn",
        also=("power-budget",),
        plan={"gpu_settings": {"settings": {"all": {}, "gpus": {}, "power_budget_watts": 650}}},
        says="power_limit_watts is 450",
    ),
    Fault(
        "another compute mode",
        "t4",
        gpu("compute_mode", 0),
        "gpu-settings",
        "configure",
        "warn",
        plan=settings(compute_mode="exclusive_process"),
        says="compute_mode is default",
    ),
    Fault(
        "accounting off",
        "h100x8",
        gpu("accounting", value=False),
        "gpu-settings",
        "configure",
        "warn",
        plan=settings(accounting=True),
    ),
    Fault(
        "ECC waits for a boot",
        "l40s",
        gpu("ecc.mode", {"enabled": True, "pending": False}),
        "gpu-settings",
        "reboot",
        "warn",
        also=("ecc-enabled",),
        plan=settings(ecc=False),
        says="takes effect at the next boot",
    ),
    Fault(
        "clocks that are not held",
        "l40s",
        gpu("clocks.sm", 1980),
        "gpu-settings",
        "configure",
        "warn",
        plan=settings(locked_clocks_mhz=[210, 1200]),
        says="1980 MHz",
    ),
    Fault(
        "MIG declared on a GeForce",
        "rtx4090x2",
        lambda _: None,
        "gpu-settings",
        "configure",
        also=("mig",),
        plan=settings(mig=True),
        says="does not support mig",
    ),
    Fault(
        "MIG instances that a boot took away",
        "a100-pcie-x2",
        cut_into(),
        "mig-instances",
        "configure",
        plan=settings(mig_instances=["3g.20gb", "3g.20gb"]),
        says="none; declared: 3g.20gb, 3g.20gb",
    ),
    Fault(
        "other MIG instances than declared",
        "a100-pcie-x2",
        all_of(cut_into("3g.20gb", "4g.20gb"), put("nvml.gpus.1.mig_instances", [{"name": "7g.40gb"}])),
        "mig-instances",
        "configure",
        plan=settings(mig_instances=["4g.20gb", "3g.20gb"]),
        says="MIG instances: 7g.40gb; declared",
    ),
    Fault(
        "a MIG instance without a compute instance",
        "a100-pcie-x2",
        cut_into("3g.20gb", "3g.20gb()"),
        "mig-instances",
        "configure",
        plan=settings(mig_instances=["3g.20gb", "3g.20gb"]),
        says="3g.20gb()",
    ),
    Fault(
        "MIG on without an instance, none declared",
        "a100-pcie-x2",
        cut_into(),
        "mig-instances",
        "configure",
        "info",
        plan=settings(mig=True),
        says="no program can use the GPU",
    ),
    Fault(
        "a CDI specification without the MIG devices",
        "a100-pcie-x2",
        cdi_for(),
        "cdi-specification",
        "configure",
        "warn",
        says="other MIG devices",
    ),
    Fault(
        "a CDI specification of former MIG devices",
        "a100-pcie-x2",
        cdi_for("0:0", "0:1", "MIG-1", "MIG-7"),
        "cdi-specification",
        "configure",
        "warn",
    ),
    Fault(
        "a CDI specification of MIG devices that are gone",
        "a100-pcie-x2",
        put("containers.cdi.0.mig_devices", ["0:0"]),
        "cdi-specification",
        "configure",
        "warn",
    ),
    Fault(
        "MIG instances that do not fit",
        "a100-pcie-x2",
        cut_into("3g.20gb"),
        "mig-instances",
        "configure",
        also=("gpu-settings",),
        plan=settings(mig_instances=["4g.20gb", "4g.20gb"]),
    ),
    Fault(
        "settings of a GPU that is gone",
        "rtx4090x2",
        lambda _: None,
        "gpu-settings",
        "configure",
        plan={"gpu_settings": {"settings": {"all": {}, "gpus": {"2": {"ecc": False}}, "power_budget_watts": None}}},
        says="no such GPU",
    ),
    Fault(
        "MIG on as nobody declared",
        "a100-pcie-x2",
        gpu("mig", {"enabled": True, "pending": True}),
        "gpu-settings",
        "configure",
        "warn",
        also=("mig",),
        plan=settings(mig=False),
        says="mig is True",
    ),
]

PLAN = {
    "driver": {"branch": "580", "version": nodes.DRIVER, "kernel_modules": "open", "persistence": True},
    "container_toolkit": {"engines": [], "packages": []},
}


def old_driver(version: str) -> Any:
    """Return an injection of another driver, in the same version everywhere."""
    return all_of(
        put("containers.cdi.0.library", version),
        put("modules.nvidia.version", version),
        put("driver.library", version),
        put("nvml.driver_version", version),
        *(put(f"kernels.{n}.nvidia_module", version) for n in (0, 1)),
        every_gpu("gsp.version", version),
    )


HOST = [
    Fault(
        "driver below the security floor",
        "l40s",
        old_driver("580.95.05"),
        "driver-security",
        "upgrade_driver",
        "warn",
        says="580.178.04",
    ),
    Fault(
        "driver of a dead branch",
        "t4",
        old_driver("535.261.03"),
        "driver-security",
        "upgrade_driver",
        "warn",
        says="no longer gets security fixes",
    ),
    Fault(
        "another driver than the plan's",
        "l40s",
        lambda _: None,
        "driver-plan",
        "install_driver",
        plan={"driver": {**PLAN["driver"], "version": "580.200.01"}},
    ),
    Fault(
        "another kind of module than the plan's",
        "rtx4090x2",
        lambda _: None,
        "driver-plan",
        "install_driver",
        plan={"driver": {**PLAN["driver"], "kernel_modules": "proprietary"}},
        says="open modules",
    ),
    Fault(
        "container toolkit with known holes",
        "h100x8",
        put("engines.nvidia_container_toolkit", "1.17.7"),
        "container-toolkit",
        "upgrade_software",
        "warn",
    ),
    Fault(
        "planned container toolkit missing",
        "h100x8",
        put("engines.nvidia_container_toolkit", None),
        "container-toolkit",
        "install_software",
        plan={**PLAN, "container_toolkit": {"packages": ["nvidia-container-toolkit"]}},
    ),
    Fault(
        "kernel value not as planned",
        "rtx4090x2",
        put("tuning.values", {"vm.swappiness": "60"}),
        "tuning-values",
        "reboot",
        "warn",
        plan={**PLAN, "tuning": {"values": {"vm.swappiness": "10"}, "limits": {}}},
    ),
    Fault(
        "limit not as planned",
        "rtx4090x2",
        put("tuning.limits.pam.nofile", "1024:1048576"),
        "tuning-limits",
        "configure",
        "warn",
        plan={**PLAN, "tuning": {"values": {}, "limits": {"nofile": "1048576:1048576"}}},
    ),
    Fault(
        "declared swap switched off",
        "rtx4090x2",
        put("tuning.swaps", {"/dev/sda3": ["/dev/sda3", "UUID=5d"]}),
        "tuning-swap",
        "configure",
        "warn",
        plan={**PLAN, "tuning": {"values": {}, "limits": {}, "swap": {"place": "/swapfile", "mib": 16384}}},
        says="the swap /swapfile is not in use",
    ),
    Fault(
        "service not running as planned",
        "h100x8",
        put("services.irqbalance", {"load": "loaded", "active": "inactive", "sub": "dead", "enabled": "disabled"}),
        "tuning-services",
        "start_service",
        "warn",
        plan={**PLAN, "tuning": {"values": {}, "limits": {}, "services": {"irqbalance": True}}},
    ),
    Fault("tier not mounted", "l40s", tier(mounted=None), "storage-mounts", "check_storage"),
    Fault("tier mounted from another disk", "l40s", tier(mounted="/dev/sda"), "storage-mounts", "check_storage"),
    Fault("disk of a tier gone", "l40s", tier(there=False), "storage-mounts", "check_storage", says="no longer exists"),
    Fault("tier read-only", "l40s", tier(options=["rw"]), "storage-options", "check_storage", says="read-only"),
    Fault("tier without an option", "l40s", tier(options=["noatime"]), "storage-options", "configure", "warn"),
    Fault("export not live", "l40s", export(live=False), "storage-exports", "check_exports"),
    Fault("export without an option", "l40s", export(missing=["sync"]), "storage-exports", "configure", "warn"),
    Fault("file system full", "v100x4", put("filesystems.0.free_mib", 900), "disks", "free_space", "warn"),
    Fault("file system read-only", "v100x4", put("filesystems.0.read_only", value=True), "disks", "reboot"),
    Fault("file system without inodes", "l40s", put("filesystems.0.free_inodes", 0), "disks", "free_space", "warn"),
    Fault("file system does not answer", "l40s", put("filesystems.0.responsive", value=False), "disks", "reboot"),
    Fault(
        "clock not synchronised",
        "h200x8",
        put("system.clock_synchronized", value=False),
        "clock",
        "start_service",
        "warn",
    ),
    Fault("a fence left behind", "l40s", put("fence", {**FENCE, "held": True}), "fleet-fence", "lift_fence", "warn"),
    Fault("few processor cores", "h100x8", put("system.cpu_cores", 16), "cpu-cores", "none", "info"),
    Fault("less memory than the GPUs", "b200x8", put("system.memory_mib", 500_000), "host-memory", "none", "info"),
    Fault(
        "a memory module with errors that stayed",
        "h100x8",
        put("hardware.memory.errors.1.uncorrected", 1),
        "memory-errors",
        "replace_memory",
        "warn",
        says="DIMM_B1: 1 uncorrectable",
    ),
    Fault(
        "a memory module with errors that were repaired",
        "l40s",
        put("hardware.memory.errors.0.corrected", 4000),
        "memory-errors",
        "none",
        "info",
    ),
    Fault(
        "/boot without room for a kernel",
        "rtx4090x2",
        put("filesystems", [{**machines.FILESYSTEM, "mount": "/boot", "size_mib": 500, "free_mib": 119}]),
        "boot-space",
        "free_space",
        "warn",
        says="119 MiB free; the next kernel takes 120 MiB",
    ),
    Fault("a reboot is pending", "t4", put("reboot.reasons", ["nouveau is bound"]), "reboot-pending", "reboot", "info"),
]

CONTAINERS = [
    Fault(
        "daemon.json is not JSON",
        "h100x8",
        put("containers.docker.invalid", "Expecting value: line 3"),
        "container-runtime",
        "configure",
        says="cannot restart",
    ),
    Fault(
        "Docker does not know the GPUs",
        "l40s",
        put("containers.docker.runtimes", []),
        "container-runtime",
        "configure",
        "warn",
    ),
    Fault(
        "Docker without any settings", "t4", put("containers.docker", None), "container-runtime", "configure", "warn"
    ),
    Fault(
        "CDI specification of an earlier driver",
        "a100-pcie-x2",
        put("containers.cdi.0.library", OLD),
        "cdi-specification",
        "configure",
        "warn",
    ),
    Fault(
        "CDI specification names missing files",
        "b200x8",
        put("containers.cdi.0.missing", ["/dev/nvidia7"]),
        "cdi-specification",
        "configure",
        "warn",
        says="/dev/nvidia7",
    ),
    Fault(
        "container toolkit runs the container's ldconfig",
        "v100x4",
        put("containers.toolkit_ldconfig", "/sbin/ldconfig"),
        "toolkit-ldconfig",
        "configure",
        "warn",
    ),
]

HARDWARE_FAULTS = LINKS + MEMORY + THERMAL + SETTINGS + BOARD + XIDS + HOST + CONTAINERS + INFINIBAND
