"""What the driver writes to the kernel log is read in all its forms."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import verify
from ansible_collections.gpulab.node.plugins.module_utils.facts import kernel_log, services

from . import nodes

STAMP = "2026-11-21T00:12:01+0000 node1 kernel: "
SWITCH = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0)"
# Several lines of one message (osinit.c, nv-pci.c): of them only the first names the GPU.
LOST = """NVRM: The NVIDIA GPU 0000:b3:00.0
NVRM: (PCI ID: 10de:26b5) installed in this system has
NVRM: fallen off the bus and is not responding to commands."""
OPEN_ONLY = """NVRM: The NVIDIA GPU 0000:b3:00.0 (PCI ID: 10de:2b85)
NVRM: installed in this system requires use of the NVIDIA open kernel modules."""
NO_GSP = """NVRM: The NVIDIA GPU 0000:b3:00.0 (PCI ID: 10de:1db4)
NVRM: installed in this system is not supported by open
NVRM: nvidia.ko because it does not include the required GPU
NVRM: System Processor (GSP)."""
LEGACY = """NVRM: The NVIDIA GPU 0000:b3:00.0 (PCI ID: 10de:1180)
NVRM: installed in this system is not supported by the
NVRM: NVIDIA 580.178.04 driver release."""
BEGUN = "NVRM: The NVIDIA GPU 0000:b3:00.0 (PCI ID: 10de:2b85)"
FAILED = "NVRM: GPU 0000:b3:00.0: RmInitAdapter failed! (0x22:0x56:884)"


XID_79 = "NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("journal", "buffer", "count", "time"),
    [
        # a full file system: the journal ends before the error
        ([STAMP + "booted"], [f"2026-11-21T01:00:00,123456+00:00 {XID_79}"], 1, "2026-11-21T01:00:00+00:00"),
        ([STAMP + "booted"], [f"[  12.345678] {XID_79}"], 1, None),
        # both have it: it counts once
        ([STAMP + XID_79], [f"2026-11-21T00:12:01,000002+00:00 {XID_79}"], 1, "2026-11-21T00:12:01+0000"),
        # the buffer has turned, and lacks what the journal has
        ([STAMP + XID_79] * 2, [f"2026-11-21T00:12:01,000002+00:00 {XID_79}"], 2, "2026-11-21T00:12:01+0000"),
        ([STAMP + XID_79], [f"2026-11-21T00:12:01,2+00:00 {XID_79}"] * 3, 3, "2026-11-21T00:12:01+00:00"),
        # a damaged journal says nothing at all
        ([], [f"2026-11-21T00:12:01,2+00:00 {XID_79}"], 1, "2026-11-21T00:12:01+00:00"),
    ],
    ids=["full", "full, of an old dmesg", "both", "turned", "lost two", "damaged"],
)
def test_what_the_journal_has_lost_is_taken_from_the_kernels_own_buffer(journal, buffer, count, time):
    (event,) = kernel_log.events(kernel_log.joined("\n".join(journal), "\n".join(buffer)))
    assert (event["xid"], event["count"], event["time"]) == (79, count, time)


def test_whom_the_kernel_killed_for_want_of_memory_is_told_by_name():
    log = """
        2026-11-28T03:12:00+00:00 node kernel: Out of memory: Killed process 4242 (python3) total-vm:1kB, UID:1000
        2026-11-28T03:13:00+00:00 node kernel: Memory cgroup out of memory: Killed process 77 (python3) total-vm:1kB
        [ 12.5] Out of memory: Killed process 5 (a b) c) total-vm:9kB
    """
    assert kernel_log.killed("\n".join(line.strip() for line in log.splitlines())) == [
        {"command": "a b", "count": 1, "time": None},
        {"command": "python3", "count": 2, "time": "2026-11-28T03:13:00+00:00"},
    ]


@pytest.mark.parametrize(
    ("line", "kind", "xid", "bus_id"),
    [
        ("NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen", "xid", 79, "0000:05:00.0"),
        ("NVRM: Xid (0000:83:00): 48, Double Bit ECC", "xid", 48, "0000:83:00.0"),
        # of an H100 with driver 580.159.04: a kernel that wrote to an address of nobody's
        (
            "NVRM: Xid (PCI:0000:00:06): 31, pid=1008, name=bad, channel 0x0000000a, intr 00000000. MMU Fault: ENGINE",
            "xid",
            31,
            "0000:00:06.0",
        ),
        ("NVRM: Xid (PCI:00000000:1B:00.0): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08", "xid", 149, "0000:1b:00.0"),
        ("NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.", "fallen_off_the_bus", None, "0000:18:00.0"),
        (
            "NVRM: The NVIDIA GPU 0000:18:00.0 (PCI ID: 10de:2330) installed in this system has fallen off the bus.",
            "fallen_off_the_bus",
            None,
            "0000:18:00.0",
        ),
        (
            "NVRM: rpcRmApiAlloc_GSP: GPU0 Reset required [NV_ERR_RESET_REQUIRED] (0x0000006E)",
            "reset_required",
            None,
            None,
        ),
        # kernel_rc.c of NVIDIA/open-gpu-kernel-modules: krcReportXid
        ("NVRM: Xid (PCI:0000:01:00 GPU-I:05): 95, pid=7, name=python3, Uncontained", "xid", 95, "0000:01:00.0"),
        ("NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:00): 43, pid=7, name=python3, Ch 8", "xid", 43, "0000:01:00.0"),
        ("NVRM: Xid (PCI:0000:01:00): 45, Ch 8 caused by previous Xid 31", "xid", 45, "0000:01:00.0"),
        # common_nvswitch.h and intr_nvswitch.h: NVSWITCH_PRINT_SXID and NVSWITCH_REPORT_*
        (f"{SWITCH}: 12020, Fatal, Link 28 egress sequence ID error (First)", "sxid_fatal", 12020, "0000:c1:00.0"),
        (f"{SWITCH}: 28006, Non-fatal, Link 46 MC TS crumbstore MCTO", "sxid_nonfatal", 28006, "0000:c1:00.0"),
        (f"{SWITCH}: 20009, Correctable, Link 04 RX Short Error Rate", "sxid_nonfatal", 20009, "0000:c1:00.0"),
        (f"{SWITCH}: 10001, Fatal, PRI WRITE SYS error, instance=0, chiplet=1", "sxid_fatal", 10001, "0000:c1:00.0"),
        (f"{SWITCH}: 10003, Fatal, unhandled interrupt in f(9)", "sxid_fatal", 10003, "0000:c1:00.0"),
        (f"{SWITCH}: 10004, NVSWITCH Temperature 105C | TSENSE WARN Threshold 100C", "sxid", 10004, "0000:c1:00.0"),
        # osinit.c: RmInitAdapter, and the same of drivers that name no GPU
        ("NVRM: GPU 0000:98:00.0: RmInitAdapter failed! (0x62:0x65:1792)", "init_failed", None, "0000:98:00.0"),
        ("NVRM: RmInitAdapter failed! (0x27:0x38:1193)", "init_failed", None, None),
        (
            "NVRM: GPU 0000:13:00.0: GPU does not have the necessary power cables connected.",
            "no_power",
            None,
            "0000:13:00.0",
        ),
        ("NVRM: GPU at 0000:01:00.0 has fallen off the bus.", "fallen_off_the_bus", None, "0000:01:00.0"),
    ],
)
def test_line_is_an_event(line, kind, xid, bus_id):
    (event,) = kernel_log.events(f"{STAMP}{line}\n")
    assert (event["kind"], event["xid"], event["bus_id"], event["count"]) == (kind, xid, bus_id, 1)
    assert event["time"] == "2026-11-21T00:12:01+0000"


@pytest.mark.parametrize(
    "between",
    ["\n               ", "\n                                         ", f"\n{STAMP}"],
    ids=["dmesg", "journal", "each with a stamp"],
)
@pytest.mark.parametrize(
    ("message", "kind"),
    [(LOST, "fallen_off_the_bus"), (OPEN_ONLY, "wrong_modules"), (NO_GSP, "wrong_modules"), (LEGACY, "not_supported")],
)
def test_lines_of_one_message_are_one_event_of_the_gpu_in_the_first(message, kind, between):
    log = STAMP + message.replace("\n", between)
    (event,) = kernel_log.events(f"{log}\n{STAMP}NVRM: The NVIDIA probe routine failed for 1 device(s).\n")
    assert (event["kind"], event["bus_id"], event["count"]) == (kind, "0000:b3:00.0", 1)
    assert event["time"] == "2026-11-21T00:12:01+0000"


def test_a_message_that_breaks_off_hides_nothing_after_it():
    first = LOST.splitlines()[0]
    (event,) = kernel_log.events(f"{first}\nNVRM: Xid (PCI:0000:05:00): 79, x\n{first}\n")
    assert event["xid"] == 79


def test_instance_of_a_cut_gpu_is_named():
    line = "NVRM: Xid (PCI:0000:01:00 GPU-I:{} GPU-CI:00): 43, pid=7, name=python3, Ch 8\n"
    found = kernel_log.events(line.format("05") + line.format("05") + line.format("06"))
    assert [(event["text"].partition(",")[0], event["count"]) for event in found] == [
        ("GPU-I:05 GPU-CI:00: pid=7", 2),
        ("GPU-I:06 GPU-CI:00: pid=7", 1),
    ]


def test_registers_of_a_switch_are_no_further_error():
    lines = ("28006, Non-fatal, Link 46 MC TS", "28006, Severity 0 Engine instance 46", "28006, Data {0x00140004, 0x0}")
    (event,) = kernel_log.events("".join(f"{SWITCH}: {line}\n" for line in lines))
    assert event["count"] == 1


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (FAILED, [("fail", "power_cycle")]),
        (f"{OPEN_ONLY}\n{FAILED}", [("fail", "other_modules")]),
        (f"{LEGACY}\n{FAILED}", [("fail", "install_driver")]),
        (f"{LOST}\n{FAILED}", [("fail", "reboot")]),
        (f"NVRM: Xid (PCI:0000:b3:00): 79, x\n{FAILED}", [("fail", "reboot")]),
        (f"NVRM: GPU 0000:b3:00.0: does not have the necessary power cables connected.\n{FAILED}",
         [("fail", "check_power")]),
        (FAILED.replace("b3", "19"), [("info", "none")]),
        (f"{SWITCH}: 12020, Fatal, Link 28 egress sequence ID error", [("fail", "reboot")]),
        (f"{SWITCH}: 10004, NVSWITCH Temperature 105C", [("fail", "contact_support")]),
        (f"{SWITCH}: 28006, Non-fatal, Link 46 MC TS", [("info", "none")]),
        ("NVRM: Xid (PCI:0000:19:00 GPU-I:05): 95, pid=7, name=python3, Uncontained", [("fail", "reset_gpu")]),
    ],
)  # fmt: skip
def test_event_has_its_remedy_and_what_explains_it_is_told_once(log, found):
    facts = nodes.healthy("h100x8")
    facts["kernel_log"]["events"] = kernel_log.events(log)
    results = [r for r in verify(nodes.node(facts)) if r.id == "xids"]
    assert [(r.severity, r.remediation) for r in results] == found


def test_other_lines_are_no_events():
    log = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.178.04\nXid (PCI:0000:05:00): 79, not by the driver\n"
    assert kernel_log.events(log) == []


def test_equal_events_are_one_with_the_last_time():
    line = "NVRM: Xid (PCI:0000:05:00): 13, Graphics Exception\n"
    log = "2026-11-21T00:00:01+0000 n kernel: " + line + "2026-11-21T00:00:09+0000 n kernel: " + line
    (event,) = kernel_log.events(log)
    assert (event["count"], event["time"]) == (2, "2026-11-21T00:00:09+0000")


@pytest.mark.parametrize("order", [1, -1])
def test_fatal_error_of_a_link_is_not_hidden_by_one_that_is_not(order):
    lines = [
        f"NVRM: Xid (PCI:0000:19:00): 149, NETIR_LINK_EVT  {gravity} XC0 i0 Link 05 (0x004505c6 0x00000000)\n"
        for gravity in ("Fatal   ", "Nonfatal", "Nonfatal")
    ]
    facts = nodes.healthy("b200x8")
    facts["kernel_log"]["events"] = kernel_log.events("".join(lines[::order]))
    found = [(r.severity, r.observed) for r in verify(nodes.node(facts)) if r.id == "xids"]
    assert sorted(found) == [("fail", "once"), ("warn", "2 times")]


def test_flood_keeps_the_last_events():
    log = "".join(f"NVRM: Xid (PCI:{n:04x}:05:00): 13, x\n" for n in range(kernel_log.MOST_EVENTS + 9))
    assert len(kernel_log.events(log)) == kernel_log.MOST_EVENTS


def test_unreadable_log_is_unknown_and_not_fine():
    facts = nodes.healthy("t4")
    facts["kernel_log"] = {"readable": False, "events": []}
    assert [r.severity for r in verify(nodes.node(facts)) if r.id == "xids"] == ["unknown"]


def test_log_names_the_gpu():
    facts = nodes.healthy("rtx4090x2")
    facts["kernel_log"]["events"] = kernel_log.events("NVRM: Xid (PCI:0000:29:00): 79, x\n")
    (finding,) = [r for r in verify(nodes.node(facts)) if r.severity == "fail"]
    assert finding.gpu["index"] == 1


def test_systemd_tells_the_state_of_units():
    text = "Id=docker.service\nLoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\n\n"
    text += (
        "Id=nvidia-fabricmanager.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\nUnitFileState=\n"
    )
    assert services.units(text) == {
        "docker": {"load": "loaded", "active": "active", "sub": "running", "enabled": "enabled"},
        "nvidia-fabricmanager": {"load": "not-found", "active": "inactive", "sub": "dead", "enabled": ""},
    }


def test_a_message_whose_end_is_lost_does_not_take_in_all_that_follows():
    log = "".join(f"{STAMP}{line}\n" for line in [BEGUN, *[FAILED] * 3000])
    (event,) = [one for one in kernel_log.events(log) if len(one["text"]) == len(FAILED)]
    assert event["count"] > 2900
