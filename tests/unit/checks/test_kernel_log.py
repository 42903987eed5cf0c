"""What the driver writes to the kernel log is read in all its forms."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils import facts_kernel_log, facts_services
from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import verify

from . import nodes

STAMP = "2026-11-21T00:12:01+0000 node1 kernel: "


@pytest.mark.parametrize(
    ("line", "kind", "xid", "bus_id"),
    [
        ("NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen", "xid", 79, "0000:05:00.0"),
        ("NVRM: Xid (0000:83:00): 48, Double Bit ECC", "xid", 48, "0000:83:00.0"),
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
    ],
)
def test_line_is_an_event(line, kind, xid, bus_id):
    (event,) = facts_kernel_log.events(f"{STAMP}{line}\n")
    assert (event["kind"], event["xid"], event["bus_id"], event["count"]) == (kind, xid, bus_id, 1)
    assert event["time"] == "2026-11-21T00:12:01+0000"


def test_other_lines_are_no_events():
    log = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.178.04\nXid (PCI:0000:05:00): 79, not by the driver\n"
    assert facts_kernel_log.events(log) == []


def test_equal_events_are_one_with_the_last_time():
    line = "NVRM: Xid (PCI:0000:05:00): 13, Graphics Exception\n"
    log = "2026-11-21T00:00:01+0000 n kernel: " + line + "2026-11-21T00:00:09+0000 n kernel: " + line
    (event,) = facts_kernel_log.events(log)
    assert (event["count"], event["time"]) == (2, "2026-11-21T00:00:09+0000")


@pytest.mark.parametrize("order", [1, -1])
def test_fatal_error_of_a_link_is_not_hidden_by_one_that_is_not(order):
    lines = [
        f"NVRM: Xid (PCI:0000:19:00): 149, NETIR_LINK_EVT  {gravity} XC0 i0 Link 05 (0x004505c6 0x00000000)\n"
        for gravity in ("Fatal   ", "Nonfatal", "Nonfatal")
    ]
    facts = nodes.healthy("b200x8")
    facts["kernel_log"]["events"] = facts_kernel_log.events("".join(lines[::order]))
    found = [(r.severity, r.observed) for r in verify(nodes.node(facts)) if r.id == "xids"]
    assert sorted(found) == [("fail", "once"), ("warn", "2 times")]


def test_flood_keeps_the_last_events():
    log = "".join(f"NVRM: Xid (PCI:{n:04x}:05:00): 13, x\n" for n in range(facts_kernel_log.MOST_EVENTS + 9))
    assert len(facts_kernel_log.events(log)) == facts_kernel_log.MOST_EVENTS


def test_unreadable_log_is_unknown_and_not_fine():
    facts = nodes.healthy("t4")
    facts["kernel_log"] = {"readable": False, "events": []}
    assert [r.severity for r in verify(nodes.node(facts)) if r.id == "xids"] == ["unknown"]


def test_log_names_the_gpu():
    facts = nodes.healthy("rtx4090x2")
    facts["kernel_log"]["events"] = facts_kernel_log.events("NVRM: Xid (PCI:0000:29:00): 79, x\n")
    (finding,) = [r for r in verify(nodes.node(facts)) if r.severity == "fail"]
    assert finding.gpu["index"] == 1


def test_systemd_tells_the_state_of_units():
    text = "Id=docker.service\nLoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\n\n"
    text += (
        "Id=nvidia-fabricmanager.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\nUnitFileState=\n"
    )
    assert facts_services.units(text) == {
        "docker": {"load": "loaded", "active": "active", "sub": "running", "enabled": "enabled"},
        "nvidia-fabricmanager": {"load": "not-found", "active": "inactive", "sub": "dead", "enabled": ""},
    }
