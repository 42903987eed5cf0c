"""Errors of disks in the kernel log."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.facts import kernel_log


@pytest.fixture
def node(tree):
    for device, removable in {"sda": 0, "nvme0n1": 0, "dm-0": 0, "sr0": 1, "sdc": 0}.items():
        tree.file(f"/sys/class/block/{device}/removable", f"{removable}\n")
    tree.directory("/sys/class/block/sda1")
    return tree.node()


@pytest.mark.parametrize(
    ("line", "device"),
    [
        (
            "blk_update_request: I/O error, dev sda, sector 2048 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 0",
            "sda",
        ),
        ("I/O error, dev sda, sector 2048 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 2", "sda"),
        ("critical medium error, dev nvme0n1, sector 77 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2", "nvme0n1"),
        ("Buffer I/O error on dev dm-0, logical block 16384, async page read", "dm-0"),
        ("Buffer I/O error on dev sda1, logical block 3, lost async page write", "sda1"),
        ("I/O error, dev sr0, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2", None),
        ("I/O error, dev sdb, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2", None),
        ("I/O error, dev sda, sector 0 op 0x3:(DISCARD) flags 0x800 phys_seg 1 prio class 2", None),
        ("critical target error, dev sda, sector 0 op 0x9:(WRITE_ZEROES) flags 0x800 phys_seg 0", None),
        ("EXT4-fs error (device sda1): ext4_find_entry:1463: inode #2: comm ls: reading directory lblock 0", None),
    ],
)
def test_a_line_counts_for_the_disk_that_it_names(node, line, device):
    found = kernel_log.disks(f"2026-11-28T03:12:00+00:00 node kernel: {line}\n", node)
    assert found == ([{"device": device, "count": 1, "time": "2026-11-28T03:12:00+00:00"}] if device else [])


def test_errors_of_a_disk_are_one_with_the_last_time(node):
    line = "node kernel: I/O error, dev sda, sector 1 op 0x0:(READ) flags 0x0"
    log = [
        f"2026-11-28T03:12:00+00:00 {line}",
        f"2026-11-28T03:13:00+00:00 {line}",
        "[ 12.5] I/O error, dev sdc, sector 1",
    ]
    assert kernel_log.disks("\n".join(log), node) == [
        {"device": "sda", "count": 2, "time": "2026-11-28T03:13:00+00:00"},
        {"device": "sdc", "count": 1, "time": None},
    ]
