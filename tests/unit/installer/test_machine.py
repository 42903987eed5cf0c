"""How machine and disks are read: by the output of lsblk and blkid of a real node, and by files of the kernel."""

from __future__ import annotations

import json

from ansible_collections.gpulab.node.plugins.module_utils.core import lsblk
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.installer import machine
from ansible_collections.gpulab.node.plugins.module_utils.installer.judge import Disk, Machine

LISTED = {
    "blockdevices": [
        {"name": "loop0", "kname": "loop0", "type": "loop", "size": 4096, "serial": None, "wwn": None},
        {"name": "sr0", "kname": "sr0", "type": "rom", "size": 4096, "serial": "QM3", "wwn": None},
        {"name": "zram0", "kname": "zram0", "type": "disk", "size": 4096, "serial": None, "wwn": None},
        {"name": "sdd", "kname": "sdd", "type": "disk", "size": 0, "serial": "READER", "wwn": None},
        {
            "name": "sda",
            "kname": "sda",
            "type": "disk",
            "size": 1000,
            "serial": " S1 ",
            "wwn": "0x5000",
            "children": [
                {
                    "name": "sda1",
                    "kname": "sda1",
                    "type": "part",
                    "size": 500,
                    "serial": None,
                    "wwn": "0x5000",
                    "children": [{"name": "md0", "kname": "md0", "type": "raid1", "size": 400}],
                },
            ],
        },
        {"name": "c0d0", "kname": "cciss!c0d0", "type": "disk", "size": 2000, "serial": None, "wwn": None},
    ]
}
PROBED = {
    "/dev/sda": "DEVNAME=/dev/sda\nPTUUID=6A0B\nPTTYPE=gpt\n",
    "/dev/sda1": "UUID=AAAA-1\nTYPE=linux_raid_member\nPART_ENTRY_UUID=bbbb\n",
    "/dev/md0": "UUID=cccc\nTYPE=ext4\n",
}


def call(argv):
    return json.dumps(LISTED) if argv == [*lsblk.COMMAND] else PROBED.get(argv[-1], "")


def test_disks_are_read_with_all_that_they_hold():
    holds = frozenset({"6a0b", "aaaa-1", "bbbb", "cccc"})
    assert machine.disks(call) == [Disk("/dev/sda", 1000, "S1", "0x5000", holds, "6a0b"), Disk("/dev/cciss/c0d0", 2000)]


def test_no_disks_are_known_where_lsblk_fails():
    assert machine.disks(lambda _argv: "") == []


def test_a_machine_is_read(tmp_path):
    for path, text in {
        "sys/class/dmi/id/product_uuid": "UU\n",
        "proc/meminfo": "MemTotal:  2048 kB\nMemFree: 1 kB",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert machine.machine(Node(tmp_path)) == Machine("UU", "bios", 2 << 20)
    (tmp_path / "sys/firmware/efi").mkdir(parents=True)
    assert machine.machine(Node(tmp_path)).firmware == "uefi"


def test_a_command_that_fails_or_is_missing_prints_nothing():
    assert machine.output(["false"]) == ""
    assert machine.output(["gpulab-no-such-program"]) == ""
    assert machine.output(["echo", "x"]) == "x\n"
