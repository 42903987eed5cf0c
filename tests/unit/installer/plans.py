"""A plan, and the machine and the disks that it is for."""

from __future__ import annotations

import copy

from ansible_collections.gpulab.node.plugins.module_utils.installer.judge import Disk, Machine
from ansible_collections.gpulab.node.plugins.module_utils.installer.plan import identified

GIB = 1 << 30
UUID = "4C4C4544-0042-3010-8051-B7C04F4A3532"
PLAN = {
    "schema": 1,
    "host": "node07",
    "capture": "20261126T021500Z",
    "made": "2026-11-26T02:15:00Z",
    "machine": {"dmi_uuid": UUID},
    "disk": {"kind": "serial", "value": "SYS1", "size": 480 * GIB, "holds": ["aaaa-1111", "BBBB-2222"]},
    "kept": [
        {"kind": "serial", "value": "DATA1", "size": 4000 * GIB, "holds": ["dddd-1"]},
        {"kind": "wwn", "value": "eui.0025", "size": 2000 * GIB, "holds": []},
        {"kind": None, "value": None, "size": 960 * GIB, "holds": ["eeee-1"]},
    ],
    "firmware": "uefi",
    "hostname": "node07",
    "user": {
        "name": "admin",
        "uid": 1000,
        "gid": 1000,
        "group": "admin",
        "gecos": "",
        "home": "/home/admin",
        "shell": "/bin/bash",
        "password": None,
    },
    "kernel_arguments": ["console=tty0", "console=ttyS0"],
    "minutes": 15,
    "least": {"memory": 3 * GIB, "disk": 4 * GIB},
}
MACHINE = Machine(UUID.lower(), "uefi", 256 * GIB)
SYSTEM = Disk("/dev/sdb", 480 * GIB, "SYS1", "", frozenset({"bbbb-2222", "cccc"}), "cccc")
DATA = Disk("/dev/sda", 4000 * GIB, "DATA1", "", frozenset({"dddd-1"}))
BLANK = Disk("/dev/nvme0n1", 2000 * GIB, "", "eui.0025")
NAMELESS = Disk("/dev/sdc", 960 * GIB, "", "", frozenset({"eeee-1"}))
DISKS = [DATA, SYSTEM, NAMELESS, BLANK]


def plan(**changes):
    """Return the plan with some parts of it replaced, and the id that follows."""
    return identified({**copy.deepcopy(PLAN), **changes})


def changed(part, **changes):
    """Return the plan with fields of one part replaced."""
    return plan(**{part: {**PLAN[part], **changes}})
