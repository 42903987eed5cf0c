"""Faults of GPUs: memory, heat, the board, errors in the kernel log; see faults.py."""

from __future__ import annotations

from typing import Any

from . import nodes
from .faults import OLD, Fault, all_of, every_gpu, gpu, put

LOST = {"index": 3, "error": "GPU_IS_LOST", "code": 15}


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


def errors(volatile: int = 0, sram: int = 0, corrected: int = 0) -> Any:
    """Return an injection of ECC errors."""
    return all_of(
        gpu("ecc.volatile.uncorrected", volatile),
        gpu("ecc.volatile.corrected", corrected),
        gpu("ecc.aggregate.sram_uncorrected", sram),
    )


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
