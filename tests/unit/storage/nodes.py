"""Nodes with disks, made of what lsblk, blkid and wipefs print; written by hand in the form of util-linux 2.38."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.core import lsblk, mount_table
from ansible_collections.gpulab.node.plugins.module_utils.storage import devices as storage_devices
from ansible_collections.gpulab.node.plugins.module_utils.storage import plan
from ansible_collections.gpulab.node.plugins.module_utils.storage.blank import Look
from ansible_collections.gpulab.node.plugins.module_utils.storage.devices import Devices

TB = 10**12
EXT4 = "DEVNAME={path}\nUUID={uuid}\nVERSION=1.0\nBLOCK_SIZE=4096\nTYPE=ext4\nUSAGE=filesystem\n"
XFS = "DEVNAME={path}\nUUID={uuid}\nBLOCK_SIZE=512\nTYPE=xfs\nUSAGE=filesystem\n"
BTRFS = "DEVNAME={path}\nUUID={uuid}\nUUID_SUB=5e1c6a0e-1f2a-4c55-9d3f-0f6b7c1d2e3f\nTYPE=btrfs\nUSAGE=filesystem\n"
RAID = "DEVNAME={path}\nUUID={uuid}\nVERSION=1.2\nTYPE=linux_raid_member\nUSAGE=raid\n"
LVM = "DEVNAME={path}\nUUID=c9xVgO-6Ofg-pYpP-5cqd-2sN5-jHZL-wn4eIG\nVERSION=LVM2 001\nTYPE=LVM2_member\nUSAGE=raid\n"
ZFS = "DEVNAME={path}\nVERSION=5000\nLABEL=tank\nUUID=12073471905876112378\nTYPE=zfs_member\nUSAGE=filesystem\n"
LUKS = "DEVNAME={path}\nVERSION=2\nUUID=6f1ad2f2-8b0a-4a69-a5f4-9ab8b5a0c1f3\nTYPE=crypto_LUKS\nUSAGE=crypto\n"
SWAP = "DEVNAME={path}\nUUID=c6ea88a8-474c-4d30-89b7-728ec73148df\nVERSION=1\nTYPE=swap\nUSAGE=other\n"
GPT = "DEVNAME={path}\nPTUUID=5bd9ff9d-3c0a-4bd3-a5f2-5d2a0ef0ab7f\nPTTYPE=gpt\n"
ENTRY = (
    "DEVNAME={path}\nPART_ENTRY_SCHEME=gpt\nPART_ENTRY_NAME=scratch\nPART_ENTRY_NUMBER=1\nPART_ENTRY_OFFSET=2048\n"
    "PART_ENTRY_UUID=8d7c6b5a-4f3e-4d2c-9b1a-0f9e8d7c6b5a\nPART_ENTRY_TYPE=0fc63daf-8483-4772-8e79-3d69d8477de4\n"
    "PART_ENTRY_SIZE=3907024896\nPART_ENTRY_DISK=259:11\n"
)
BLANK = ""
ROOT = "0d3b6a4e-8f3c-4f0e-9a51-0e6a1c9cbb10"
DATA = "2f3c0a6b-7d0e-42f4-8d0c-9a551f2f3c0a"
OTHER = "9c1f7a52-55e0-4c2f-8a39-6f0b2f8f7d11"
ARRAY = "a1b2c3d4-e5f6-0718-293a-4b5c6d7e8f90"
MDADM = "a1b2c3d4:e5f60718:293a4b5c:6d7e8f90"


class Machine:
    """Collects disks as the tools print them, and makes the node's state of it."""

    def __init__(self) -> None:
        """Start with a system disk: an NVMe with the root on its second partition."""
        self.records: list[dict[str, Any]] = []
        self.links: dict[str, str] = {}
        self.mapper: dict[str, str] = {}
        self.blkid: dict[str, tuple[int, str, str]] = {}
        self.wipefs: dict[str, list[str]] = {}
        self.mountinfo = "22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n"
        self.swaps = "Filename\t\tType\tSize\tUsed\tPriority\n"
        self.shares: dict[str, int] = {}  # bytes of a device that a closer look read, where that was not all
        self.volumes: dict[str, bool] = {}
        self.aliases: dict[str, str] = {}
        system = self.disk("nvme0n1", "S5GXNX0T100000", GPT, number="259:0")
        system["children"] = [self.record("nvme0n1p1", "part", "259:1"), self.record("nvme0n1p2", "part", "259:2")]
        self.holds("nvme0n1p1", "DEVNAME=x\nUUID=ABCD-1234\nTYPE=vfat\nUSAGE=filesystem\n")
        self.holds("nvme0n1p2", EXT4, ROOT)

    @staticmethod
    def record(name: str, kind: str, number: str, serial: str | None = None) -> dict[str, Any]:
        """Return a device as lsblk lists it."""
        return {"kname": name, "type": kind, "size": 2 * TB, "serial": serial, "maj:min": number}

    def disk(self, name: str, serial: str | None, holds: str = BLANK, uuid: str = DATA, **more: Any) -> dict[str, Any]:
        """Add a disk with names below /dev/disk/by-id, and what is on it."""
        record = self.record(name, "disk", more.get("number", f"259:{10 + len(self.records)}"), serial)
        self.records.append(record)
        if serial:
            self.links[f"/dev/disk/by-id/nvme-SAMSUNG_MZQL2_{serial}"] = f"/dev/{name}"
        self.holds(name, holds, uuid)
        return record

    def holds(self, name: str, text: str, uuid: str = "") -> None:
        """Let a device hold what blkid prints so."""
        path = f"/dev/{name}"
        self.blkid[path] = (0 if text else 2, text.format(path=path, uuid=uuid), "")

    def array(self, name: str, members: list[dict[str, Any]], holds: str = BLANK, uuid: str = DATA) -> None:
        """Let an array run on these disks."""
        for member in members:
            member["children"] = [self.record(name, "raid1", "9:127")]
        self.holds(name, holds, uuid)
        self.links[f"/dev/disk/by-id/md-uuid-{MDADM}"] = f"/dev/{name}"

    def mount(self, number: str, place: str, source: str, options: str = "rw,noatime", kind: str = "ext4") -> Machine:
        """Mount a device."""
        self.mountinfo += f"50 22 {number} / {place} {options} shared:9 - {kind} {source} {options[:2]}\n"
        return self

    def known(self) -> Devices:
        """Return the devices."""
        contents = {path: storage_devices.content(*answer) for path, answer in self.blkid.items()}
        found = lsblk.parse(json.dumps({"blockdevices": self.records}))
        return Devices(
            found,
            self.links,
            contents,
            {path: Look(tuple(self.wipefs.get(path, ())), self.shares.get(path, found[path].size)) for path in found},
            storage_devices.mounts(self.mountinfo, lambda source: self.mapper.get(source, source)),
            tuple(mount_table.swaps(self.swaps)),
            self.volumes,
            self.aliases,
        )

    def state(self, fstab: str = "", **more: Any) -> plan.State:
        """Return the whole node."""
        return plan.State(self.known(), fstab, **more)


def workstation(holds: str = BLANK, uuid: str = DATA) -> Machine:
    """Return a workstation with two NVMe disks, of which the second holds this."""
    machine = Machine()
    machine.disk("nvme1n1", "S7KGNX0W100001", holds, uuid)
    return machine


def server(holds: str = BLANK) -> Machine:
    """Return a server with eight NVMe disks beside that of the system, each of which holds this."""
    machine = Machine()
    for number in range(1, 9):
        machine.disk(f"nvme{number}n1", f"S6EVNX0T20000{number}", holds, ARRAY)
    return machine


def tier(**more: Any) -> dict[str, Any]:
    """Return the declaration of a tier on the workstation's second disk."""
    return {"name": "data", "purpose": "datasets", "mount": "/mnt/data", "devices": ["S7KGNX0W100001"], **more}


def scratch(count: int = 8, **more: Any) -> dict[str, Any]:
    """Return the declaration of scratch space on the server's disks."""
    devices = [f"S6EVNX0T20000{number}" for number in range(1, count + 1)]
    return tier(**{"name": "scratch", "purpose": "scratch", "mount": "/scratch", "devices": devices, **more})
