"""What kernels, drivers and adapters print about GPUs is read by kind; harmless lines are not read.

Forms: github:NVIDIA/open-gpu-kernel-modules 595.45.04, Linux 6.12 (drivers/pci/pcie/aer.c, mlx5/core), NVIDIA's XID
catalogue for NVLink 5. Half of the cases were written down before the code that reads them.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import verify
from ansible_collections.gpulab.node.plugins.module_utils.driver import errors
from ansible_collections.gpulab.node.plugins.module_utils.facts import kernel_log

from . import nodes


class Case(NamedTuple):
    """A log, and what is found: severity, remedy, a word of the finding; None where nothing may be found."""

    name: str
    log: str
    severity: str | None
    remedy: str = "none"
    says: str = ""
    board: str = "h100x8"


def nvlink5(xid, unit, gravity, status, info="0x004505c6"):
    words = f"{unit} {gravity} XC0 i0 Link 05 ({info} {status} 0x00000000 0x00000000 0x00000000 0x00000000)"
    return f"NVRM: Xid (PCI:0000:19:00): {xid}, {words}"


def recovery(action):
    return f"NVRM: Xid (PCI:0000:19:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 ({action})"


UVM = "NVRM: nvGpuOpsReportFatalError: uvm encountered global fatal error 0x60, requiring os reboot to recover."
BAR = """NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:
NVRM: BAR1 is 0M @ 0x0 (PCI:0000:84:00.0)
NVRM: The system BIOS may have misconfigured your GPU."""
ONLINE = """NVRM: Failing GPU memory onlining as the onlining zone is not movable. pa: 0x42000000 size: 0x8000000
NVRM: The NVIDIA GPU 0009:01:00.0 installed in the system
NVRM: requires auto onlining mode online_movable enabled in
NVRM: /sys/devices/system/memory/auto_online_blocks"""
NO_VGPU = """NVRM: The NVIDIA vGPU 0000:02:01.0 (PCI ID: 10de:2230)
NVRM: installed in this system is not supported by open
NVRM: nvidia.ko."""
OWNER = """NVRM: The NVIDIA probe routine was not called for 1 device(s).
NVRM: This can occur when another driver was loaded and
NVRM: obtained ownership of the NVIDIA device(s)."""
AER = "nvidia 0000:19:00.0: {}PCIe Bus Error: severity={}, type=Transaction Layer, (Receiver ID)"
CASES = [
    # NVLink 5, by unit and error status
    Case("ber", nvlink5(149, "NETIR_BER_EVENT", "Nonfatal", "0x00000002"), "info"),
    Case("saw", nvlink5(144, "SAW_MVB", "Nonfatal", "0x00000020", "0x00000021"), "info"),
    Case("rlw", nvlink5(145, "RLW_SRC_TRACK", "Nonfatal", "0x00000002"), "info"),
    Case("tlw", nvlink5(146, "TLW_RX_PIPE1", "Nonfatal", "0x00000001"), "info"),
    Case("nvlpw", nvlink5(148, "NVLPW", "Nonfatal", "0x80000000"), "info"),
    Case("two bits, one of which resets", nvlink5(144, "SAW_MVB", "Nonfatal", "0x00000003"), "warn", "reset_gpu"),
    Case("remap waits for 154", nvlink5(145, "RLW_REMAP", "Nonfatal", "0x00000001"), "info", "restart_app", "154"),
    Case("rxpipe loses packets", nvlink5(145, "RLW_RXPIPE", "Nonfatal", "0x00000001"), "warn", "reset_gpu"),
    Case("mfde", nvlink5(149, "NETIR_MFDE_EVENT", "Fatal   ", "0x00000004"), "fail", "reset_gpu"),
    Case("link down", nvlink5(149, "NETIR_LINK_DOWN", "Fatal   ", "0x00000000"), "fail", "reset_gpu"),
    Case("watchdog", nvlink5(150, "MSE_WATCHDOG", "Fatal   ", "0x00000000"), "fail", "reset_gpu"),
    Case("a unit that nobody lists", nvlink5(144, "SAW_NEW", "Nonfatal", "0x1"), "warn", "contact_support", "SAW_NEW"),
    # 154 says what is needed
    Case("154 reboot", recovery("Node Reboot Required"), "fail", "reboot", "reboot"),
    Case("154 reset", recovery("GPU Reset Required"), "fail", "reset_gpu"),
    Case("154 drain", recovery("Drain and Reset"), "fail", "reset_gpu", "drain"),
    Case("154 peers", recovery("Drain P2P"), "warn", "stop_app"),
    Case("154 imex", recovery("Recover IMEX Domain"), "fail", "start_imex"),
    Case("154 over", recovery("Node Reboot Required") + "\n" + recovery("None"), "info"),
    Case("154 of a newer driver", recovery("Replace Fan"), "warn", "contact_support", "Replace Fan"),
    # numbers of NVIDIA's header
    Case("61", "NVRM: Xid (PCI:0000:01:00): 61, pid=1234, 0cec(3098) 00000000 00000000", "warn", "contact_support",
         "PMU_BREAKPOINT"),
    Case("14", "NVRM: Xid (PCI:0000:19:00): 14, x", "info", says="ROBUST_CHANNEL_FAKE_ERROR"),
    Case("125", "NVRM: Xid (PCI:0000:19:00): 125, x", "warn", "contact_support", "INFOROM_FS_ERROR"),
    Case("173", "NVRM: Xid (PCI:0000:19:00): 173, x", "warn", "contact_support", "C2C_FATAL_LINK_FAILURE"),
    Case("174", "NVRM: Xid (PCI:0000:19:00): 174, x", "info", "restart_app", "KILL_PROCESS_SILENT"),
    Case("175", "NVRM: Xid (PCI:0000:19:00): 175, x", "warn", "contact_support", "MEMORY_SUBSYSTEM_ERROR"),
    Case("176", "NVRM: Xid (PCI:0000:19:00): 176, x", "warn", "contact_support", "PCIE_CORRECTABLE_ERROR_FAULT"),
    Case("one to come", "NVRM: Xid (PCI:0000:19:00): 399, x", "warn", "contact_support", "newer than the list"),
    # without a number
    Case("uvm", UVM, "fail", "reboot", "UVM"),
    Case("bar", BAR, "fail", "firmware_setting", "BAR1"),
    Case("bar alone", BAR.splitlines()[1], "fail", "firmware_setting", "BAR1"),
    Case("bar that is not mapped", "NVRM: BAR1 is 131072M @ 0x0 (PCI:0000:84:00.0)", "fail", "firmware_setting"),
    Case("resizing", "NVRM: FATAL: Failed to re-allocate BAR1.", "fail", "firmware_setting"),
    Case("irq", "NVRM: Can't find an IRQ for your NVIDIA card!", "fail", "firmware_setting"),
    Case("no irq", "NVRM: GPU 0000:b3:00.0: No interrupts of any type are available", "fail", "firmware_setting"),
    Case("online", ONLINE, "fail", "online_movable", "online_movable"),
    Case("online, a line apart", "NVRM: requires auto onlining mode online_movable enabled", "fail", "online_movable"),
    Case("online, by another word", "NVRM: GPU memory zone movable auto onlining failed!", "fail", "online_movable"),
    Case("wpr2", "NVRM: GPU0 kgspPrepareForBootstrap_GH100: unexpected WPR2 already up, cannot proceed",
         "fail", "reset_gpu", "GSP"),
    Case("vgpu", NO_VGPU, "fail", "install_grid", "vGPU"),
    Case("modeset of another version", "nvidia-modeset: Version mismatch: nvidia.ko(580.95.05) nvidia-modeset.ko(57)",
         "fail", "reinstall_driver", "nvidia-modeset"),
    Case("switch", "nvidia-nvswitch0: Failed to initialize device : -5", "fail", "reboot", "NVSwitch"),
    Case("switch storm", "nvidia-nvswitch2: Interrupts disabled to avoid a storm", "fail", "reboot", "NVSwitch"),
    Case("imex", "NVRM: failed to initialize IMEX channels.", "warn", "start_imex"),
    Case("crash dump", "NVRM: A GPU crash dump has been created. If possible, please run", "warn", "contact_support"),
    # mlx5
    Case("power", "mlx5_core 0000:c1:00.0: Detected insufficient power on the PCIe slot (27W).", "warn", "check_power",
         "0000:c1:00.0"),
    Case("power with its place",
         "mlx5_core 0000:c1:00.0: mlx5_pcie_event:301:(pid 1402): Detected insufficient power on the PCIe slot (27W).",
         "warn", "check_power", "27 W"),
    Case("power on a GB10, which always says so",
         "mlx5_core 0002:01:00.0: mlx5_pcie_event:326:(pid 3202): Detected insufficient power on the PCIe slot (27W).",
         "info", board="gb10"),
    Case("health", "mlx5_core 0000:c1:00.0: poll_health:988:(pid 0): device's health compromised - reached miss count",
         "fail", "reboot", "0000:c1:00.0"),
    Case("heat", "mlx5_core 0000:c1:00.0: temp_warn:213:(pid 9): High temperature on sensors with bit set 0 1", "warn",
         "check_cooling", "0000:c1:00.0"),
    # AER
    Case("aer fatal", AER.format("", "Uncorrected (Fatal)"), "fail", "check_seating", "0000:19:00.0"),
    Case("aer of a newer kernel", AER.format("AER: ", "Uncorrectable (Fatal)"), "fail", "check_seating"),
    Case("aer nonfatal", AER.format("", "Uncorrected (Non-Fatal)"), "warn", "check_seating"),
    Case("aer of an adapter", AER.format("", "Uncorrected (Fatal)").replace("nvidia", "mlx5_core"), "fail",
         "check_seating"),
    # healthy texts
    Case("aer corrected", AER.format("", "Corrected"), None),
    Case("aer of a disk", AER.format("", "Uncorrected (Non-Fatal)").replace("nvidia", "nvme"), None),
    Case("power that suffices", "mlx5_core 0000:c1:00.0: PCIe slot advertised sufficient power (75W).", None),
    Case("power unknown", "mlx5_core 0000:c1:00.0: PCIe slot power capability was not advertised.", None),
    Case("cable", "mlx5_core 0000:c1:00.0: Port module event: module 0, Cable plugged", None),
    Case("persistence", "NVRM: Persistence mode is deprecated and will be removed in a future release.", None),
    Case("owner", OWNER, None),
    Case("register", "NVRM: gpuHandleSanityCheckRegReadError_GM107: Possible bad register read: addr: 0x110094", None),
    Case("assertion", "NVRM: nvAssertFailedNoLog: Assertion failed: 0 @ g_mem_mgr_nvoc.h:2095", None),
    Case("vf", "NVRM: Ignoring probe for VF 0000:c8:04.5", None),
    Case("peermem", "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping", None),
    Case("registers", "NVRM: iovaspaceDestruct_IMPL: 1 left-over mappings in IOVAS 0xc800", None),
    Case("i2c", "NVRM: i2c transfer failed for addr: 0x50", None),
    Case("edid", "nvidia-modeset: ERROR: GPU:0: Failure reading maximum pixel clock value for display DP-0", None),
    Case("drm", "[drm:nv_drm_load [nvidia_drm]] *ERROR* [nvidia-drm] [GPU ID 0x100] Failed to allocate device", None),
    Case("dma-buf", "NVRM: dma-buf attach failed: PCI topology not supported for dma-buf", None),
    Case("api", "NVRM: API mismatch: the client 'nvidia-smi' (pid 71) has the version 535.1, but", None),
    Case("a log of somebody's program", "python3[77]: print('requires auto onlining mode online_movable')", None),
    Case("quoted", "kernel: logger: mlx5_core says: Detected sufficient power", None),
]  # fmt: skip


def test_what_kept_a_gpu_from_starting_is_over_when_all_answer():
    facts = nodes.healthy("h100x8")
    facts["kernel_log"]["events"] = kernel_log.events("NVRM: GPU0 kgspX: unexpected WPR2 already up, cannot proceed\n")
    (one,) = [r for r in verify(nodes.node(facts)) if r.id == "xids"]
    assert (one.severity, one.summary.endswith("but it answers now")) == ("info", True)


@pytest.mark.parametrize("log", [BAR.replace("84", "19"), ONLINE.replace("0009:01", "0000:19")], ids=["bar", "online"])
def test_a_setting_that_is_wrong_is_told_even_if_the_gpu_answers(log):
    facts = nodes.healthy("h100x8")
    facts["kernel_log"]["events"] = kernel_log.events(log)
    assert [r.severity for r in verify(nodes.node(facts)) if r.id == "xids"] == ["fail"]


def test_the_name_of_a_program_does_not_hide_how_grave_an_error_is():
    line = nvlink5(144, "SAW_MVB", "Fatal   ", "0x2").replace("144, ", "144, pid=7, name=AB Nonfatal, ")
    (event,) = kernel_log.events(f"{line}\n")
    assert errors.judged(event).severity == "fail"


def test_an_adapter_that_recovered_is_no_finding():
    lost = "mlx5_core 0000:c1:00.0: poll_health:988:(pid 0): device's health compromised - reached miss count\n"
    recovered = "mlx5_core 0000:c1:00.0: mlx5_health_try_recover:327:(pid 9): health recovery succeeded\n"
    assert kernel_log.events(lost + recovered.replace("c1", "c2") + lost + recovered) == []
    assert len(kernel_log.events(lost + recovered.replace("c1", "c2"))) == 1
    assert len(kernel_log.events(lost + recovered + lost)) == 1


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_line_is_judged(case):
    facts = nodes.healthy(case.board)
    facts["nvml"]["gpus"][1:] = facts["nvml"]["gpus"][1:-1]  # of several, one does not answer
    stamp = "2026-11-21T00:12:01+0000 node1 kernel: "
    facts["kernel_log"]["events"] = kernel_log.events("".join(f"{stamp}{line}\n" for line in case.log.splitlines()))
    found = [r for r in verify(nodes.node(facts)) if r.id == "xids" and r.severity != "ok"]
    if case.severity is None:
        assert found == []
        return
    (one,) = found
    assert (one.severity, one.remediation) == (case.severity, case.remedy)
    assert case.says in f"{one.summary} {one.reason}"


def test_an_event_without_its_number_which_a_node_may_send_is_judged_all_the_same():
    event = {"kind": "adapter_power", "xid": None, "text": "Detected insufficient power"}
    assert errors.judged(event).meaning.endswith("too little power (? W)")
