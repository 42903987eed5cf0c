"""Faults as settings of the simulated driver, and the one finding that must come of each: model, settings, finding.

Unlike those of faults.py they take the whole way: libnvidia-ml.so.1, PCI tree and kernel log, read as on a machine.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import verify
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.facts import kernel_log
from ansible_collections.gpulab.node.plugins.module_utils.facts import pci as facts_pci
from ansible_collections.gpulab.node.plugins.module_utils.nvml.query import NvmlQuery
from sim.hardware import write_kernel_log, write_pci
from sim.settings import Settings

from . import nodes

MODELS = sorted((Path(__file__).parents[2] / "sim/models").glob("*.conf"))
PROVISIONED = f"driver_version = {nodes.DRIVER}\ngpu.*.persistence = 1\n"
SECONDS = 60.0  # a machine under load


def read(model: Path, settings: str, library: Path, directory: Path, seconds: float = SECONDS) -> dict[str, Any]:
    """Return the facts of a provisioned node with these simulated GPUs; in directory, which is new, it keeps files.

    It leaves GPULAB_SIMULATION in the environment, for the library.
    """
    file = directory / "gpu.conf"
    file.write_text(f"{model.read_text(encoding='utf-8')}{PROVISIONED}{settings}\n", encoding="utf-8")
    os.environ["GPULAB_SIMULATION"] = str(file)
    write_pci(directory / "root", Settings(file), "nvidia")
    write_kernel_log(directory, Settings(file), "nvidia", nodes.DRIVER)
    pci, simulated = facts_pci.read(Node(directory / "root"))
    facts = nodes.healthy("t4")
    facts.update(simulated=simulated, pci=pci, nvml=NvmlQuery(seconds, str(library)).facts())
    facts["kernel_log"]["events"] = kernel_log.events((directory / "kernel.log").read_text(encoding="utf-8"))
    if Settings(file).node("kernel_modules", "either") == "proprietary":
        for kernel in facts["kernels"]:
            kernel["nvidia_module_flavour"] = "proprietary"
    facts["system"].update(container=True, memory_mib=4_000_000)
    return facts


def grave(facts: dict[str, Any]) -> dict[tuple[str, str, str], str]:
    """Return what a proof finds of warn and above, and the summary of each."""
    results = verify(nodes.node(facts))
    return {(r.id, r.severity, r.remediation): r.summary for r in results if r.severity in ("warn", "fail")}


SIMULATED_FAULTS: list[tuple[str, str, tuple[str, str, str]]] = [
    ("h100-sxm-8", "gpu.2.pcie_width = 8", ("pcie-width", "fail", "check_seating")),
    ("h100-sxm-8", "gpu.1.clock_event_reasons = 0x40", ("clock-events", "fail", "check_cooling")),
    ("a100-pcie-2", "gpu.0.ecc = 0\ngpu.0.ecc_pending = 0", ("ecc-enabled", "fail", "configure")),
    ("h100-sxm-8", "gpu.3.lost = 15", ("gpu-count", "fail", "reboot")),
    ("h200-sxm-8", "gpu.5.lost = 16", ("gpu-count", "fail", "reset_gpu")),
    ("b200-sxm-8", "gpu.1.recovery_action = 2", ("recovery-action", "fail", "reboot")),
    ("rtx4090-2", "gpu.0.pcie_width = 8", ("pcie-width", "warn", "check_seating")),
    ("t4", "gpu.0.persistence = 0", ("persistence", "warn", "configure")),
    ("l40s", "gpu.0.inforom_valid = ERR:14", ("inforom", "fail", "contact_support")),
    ("h100-sxm-8", "gpu.1.clock_event_reasons = 0x80", ("clock-events", "fail", "check_power")),
    ("h100-sxm-8", "gpu.1.clock_event_reasons = 0x8", ("clock-events", "fail", "check_power")),
    ("l40s", "gpu.0.clock_event_reasons = 0x20", ("clock-events", "warn", "check_cooling")),
    ("h100-sxm-8", "gpu.3.temp_margin = 0", ("temperature", "fail", "check_cooling")),
    ("b200-sxm-8", "gpu.3.temp_margin = 3", ("temperature", "warn", "check_cooling")),
    ("a100-pcie-2", "gpu.0.temp = 90", ("temperature", "fail", "check_cooling")),
    ("t4", "gpu.0.temp = 90", ("temperature", "fail", "check_cooling")),
    ("v100", "gpu.0.temp_memory = 99", ("memory-temperature", "fail", "check_cooling")),
    ("h200-sxm-8", "gpu.4.temp = 60", ("siblings-alike", "warn", "check_cooling")),
    ("h100-sxm-8", "gpu.*.power_limit_w = 500", ("power-limit", "warn", "configure")),
    ("h100-sxm-8", "gpu.2.nvlinks_down = 3 7", ("nvlink", "fail", "reset_gpu")),
    ("h200-sxm-8", "gpu.0.nvlink_errors = 5", ("nvlink-errors", "warn", "contact_support")),
    ("h100-sxm-8", "gpu.*.fabric_state = 2", ("fabric", "fail", "start_fabricmanager")),
    ("h200-sxm-8", "gpu.1.fabric_status = 999", ("fabric", "fail", "start_fabricmanager")),
    ("b200-sxm-8", "gpu.1.fabric_health = 0x1a9", ("fabric", "fail", "contact_support")),
    ("b200-sxm-8", "gpu.1.fabric_health = 0x2aa", ("fabric", "fail", "contact_support")),
    ("b200-sxm-8", "gpu.1.fabric_health_summary = 2", ("fabric", "fail", "contact_support")),
    ("b200-sxm-8", "gpu.0.fabric_state = N/A", ("fabric", "fail", "start_fabricmanager")),
    ("gb200-4", "gpu.0.fabric_status = 23", ("fabric", "fail", "check_rack")),
    ("gb200-4", "gpu.2.fabric_health = 0xa9", ("fabric", "fail", "contact_support")),
    (
        "a100-pcie-2",
        "kernel_log = NVRM: Xid (PCI:0000:17:00 GPU-I:05): 95, pid=1, name=python3, Uncontained",
        ("xids", "fail", "reset_gpu"),
    ),
    (
        "h100-sxm-8",
        "kernel_log = nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 12020, Fatal, Link 28 egress sequence ID error",
        ("xids", "fail", "reboot"),
    ),
    ("h100-sxm-8", "gpu.0.fabric_state = N/A", ("fabric", "fail", "start_fabricmanager")),
    ("h100-sxm-8", "gpu.0.p2p_nvlink = 5", ("peer-access", "fail", "start_fabricmanager")),
    ("rtx4090-2", "gpu.*.p2p = 4", ("peer-access", "warn", "configure")),
    ("a100-pcie-2", "gpu.0.ecc_volatile_uncorrected = 2", ("ecc-uncorrected", "fail", "reset_gpu")),
    ("h200-sxm-8", "gpu.6.ecc_sram_aggregate_uncorrected = 5", ("ecc-uncorrected", "warn", "contact_support")),
    ("v100", "gpu.0.ecc_volatile_corrected = 30000000", ("ecc-corrected", "warn", "contact_support")),
    ("h100-sxm-8", "gpu.7.sram_threshold_exceeded = 1", ("sram-threshold", "fail", "rma")),
    ("a100-pcie-2", "gpu.1.remapped_pending = 1", ("row-remapping", "fail", "reset_gpu")),
    ("h100-sxm-8", "gpu.1.remapped_failure = 1", ("row-remapping", "fail", "rma")),
    ("b200-sxm-8", "gpu.1.remapped_uncorrected = 512", ("row-remapping", "fail", "rma")),
    ("l40s", "gpu.0.remap_histogram = 190 0 0 0 2", ("row-remapping", "warn", "contact_support")),
    ("h200-sxm-8", "gpu.0.remapped_pending = N/A", ("row-remapping", "fail", "contact_support")),
    ("t4", "gpu.0.retired_pending = 1", ("retired-pages", "fail", "reboot")),
    ("v100", "gpu.0.retired_double_bit = 20", ("retired-pages", "warn", "contact_support")),
    ("v100", "gpu.0.retired_single_bit = 60", ("retired-pages", "fail", "rma")),
    ("a100-pcie-2", "gpu.0.ecc = N/A", ("ecc-enabled", "fail", "contact_support")),
    ("l40s", "gpu.0.ecc_pending = 0", ("ecc-enabled", "warn", "reboot")),
    ("h100-sxm-8", "gpu.0.recovery_action = 1", ("recovery-action", "fail", "reset_gpu")),
    ("h200-sxm-8", "gpu.0.recovery_action = 4", ("recovery-action", "fail", "reset_gpu")),
    ("h100-sxm-8", "gpu.0.recovery_action = 5", ("recovery-action", "fail", "start_imex")),
    ("h100-sxm-8", "gpu.0.recovery_action = 3", ("recovery-action", "fail", "stop_app")),
    ("l40s", "gpu.0.gsp_firmware = 550.1", ("gsp-firmware", "warn", "reinstall_driver")),
    ("a100-pcie-2", "gpu.0.mig = 1\ngpu.0.mig_pending = 1", ("mig", "fail", "configure")),
    ("h200-sxm-8", "gpu.0.mig_pending = 1", ("mig", "warn", "reset_gpu")),
    ("h100-sxm-8", "gpu.3.vbios = 96.00.30.00.01", ("siblings-alike", "warn", "contact_support")),
    ("h100-sxm-8", "gpu.3.memory_mib = 71559", ("siblings-alike", "warn", "contact_support")),
    ("h100-sxm-8", "driver_count = 7", ("gpu-count", "fail", "reboot")),
    ("h100-sxm-8", "driver_count = 0", ("gpu-count", "fail", "reboot")),
    ("t4", "init = 9", ("driver-responsive", "fail", "reboot")),
    ("t4", "init = 999", ("driver-responsive", "fail", "reboot")),
    ("l40s", "gpu.0.pcie_width = 4", ("pcie-width", "fail", "check_seating")),
    ("a100-pcie-2", "gpu.0.pcie_width = 8\ngpu.0.pcie_width_max = 8", ("pcie-width", "warn", "check_seating")),
    ("t4", "gpu.0.pcie_gen = 1\ngpu.0.utilization = 90", ("pcie-generation", "warn", "check_seating")),
    ("t4", "gpu.0.temp = ERR:15", ("gpu-answers", "fail", "reboot")),
    ("rtx4090-2", "gpu.0.power_limit_w = ERR:8", ("gpu-answers", "fail", "check_power")),
    ("h200-sxm-8", "gpu.0.utilization = ERR:16", ("gpu-answers", "fail", "reset_gpu")),
    ("v100", "gpu.0.clock_sm = ERR:10", ("gpu-answers", "fail", "reboot")),
    ("rtx4090-2", "gpu.0.clock_event_reasons = 0x8", ("clock-events", "fail", "check_power")),
    ("rtx4090-2", "gpu.0.lost = 8", ("gpu-count", "fail", "check_power")),
    ("rtx4090-2", "gpu.0.lost = 10", ("gpu-count", "fail", "reboot")),
    ("a100-pcie-2", "gpu.0.lost = 11", ("gpu-count", "fail", "reboot")),
    ("h100-sxm-8", "gpu.5.temp_margin = -3", ("temperature", "fail", "check_cooling")),
    ("b200-sxm-8", "gpu.*.persistence = 0", ("persistence", "warn", "configure")),
    (
        "h100-sxm-8",
        "kernel_log = NVRM: Xid (PCI:0000:19:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        ("xids", "fail", "reboot"),
    ),
    (
        "a100-pcie-2",
        "kernel_log = NVRM: Xid (PCI:0000:17:00): 48, pid=1, Double Bit ECC Error",
        ("xids", "fail", "reset_gpu"),
    ),
    ("h100-sxm-8", "kernel_log = NVRM: Xid (PCI:0000:19:00): 63, pid=1, Row Remapper", ("xids", "warn", "reset_gpu")),
    ("h200-sxm-8", "kernel_log = NVRM: Xid (PCI:0000:19:00): 94, pid=1, Contained", ("xids", "warn", "restart_app")),
    (
        "l40s",
        "kernel_log = NVRM: Xid (PCI:0000:00:1e): 119, Timeout waiting for RPC from GSP",
        ("xids", "fail", "reset_gpu"),
    ),
    (
        "b200-sxm-8",
        "kernel_log = NVRM: Xid (PCI:00000000:1B:00.0): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08",
        ("xids", "fail", "reset_gpu"),
    ),
    ("v100", "kernel_log = NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.", ("xids", "fail", "reboot")),
    (
        "h100-sxm-8",
        "kernel_log = NVRM: rpcRmApiAlloc_GSP: GPU0 Reset required [NV_ERR_RESET_REQUIRED] (0x0000006E)",
        ("xids", "fail", "reset_gpu"),
    ),
]
