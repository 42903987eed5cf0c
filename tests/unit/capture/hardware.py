"""Machines with disks, made of what lsblk, blkid, pvs and the kernel print, each in a layout that a lab has."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from unittest import mock

from ansible_collections.gpulab.node.plugins.module_utils.capture import disks
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

from unit.storage import nodes

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.disks import Disks

ESP_TYPE = "c12a7328-f81f-11d2-ba4b-00c93ec93b3b"
DATA_TYPE = "0fc63daf-8483-4772-8e79-3d69d8477de4"
PART = "PART_ENTRY_SCHEME=gpt\nPART_ENTRY_TYPE={kind}\nPART_ENTRY_NUMBER=1\n"
VFAT = "DEVNAME={path}\nUUID={uuid}\nTYPE=vfat\nUSAGE=filesystem\n"
EXT4_DATASETS = nodes.EXT4 + "LABEL=datasets\n"
NTFS = "DEVNAME={path}\nLABEL=Windows\nUUID=0123456789ABCDEF\nTYPE=ntfs\nUSAGE=filesystem\n"
LUKS = "DEVNAME={path}\nVERSION=2\nUUID={uuid}\nTYPE=crypto_LUKS\nUSAGE=crypto\n"
DATA_LUKS = "6f1ad2f2-8b0a-4a69-a5f4-9ab8b5a0c1f3"
ROOT_SERIAL, DATA_SERIAL = "S5GXNX0T100000", "S7KGNX0W100001"
ROOT_WWN, DATA_WWN = "eui.0025385100000000", "eui.0025385100000001"


class Hardware(nodes.Machine):
    """A machine: the system on nvme0n1, with an ESP and /."""

    def __init__(self) -> None:
        """Start with the system disk, and an empty swap and fstab."""
        super().__init__()
        self.files: dict[str, str] = {}
        self.directories: list[str] = []
        self.groups: dict[str, str] | None = {}
        self.subvolumes = ""
        self.topmost: list[str] = []  # beside the subvolumes
        self.system = self.records[0]
        self.system.update(wwn=ROOT_WWN, tran="nvme", model="SAMSUNG MZQL2", rota=False)
        self.holds("nvme0n1p1", VFAT + PART.format(kind=ESP_TYPE), "ABCD-1234")
        self.mountinfo += "23 22 259:1 / /boot/efi rw,relatime shared:2 - vfat /dev/nvme0n1p1 rw\n"
        self.files["etc/fstab"] = f"UUID={nodes.ROOT} / ext4 defaults 0 1\nUUID=ABCD-1234 /boot/efi vfat umask=77 0 1\n"

    def data(self, name: str = "nvme1n1", serial: str | None = DATA_SERIAL, **more: Any) -> dict[str, Any]:
        """Add a disk for data, and return it."""
        wwn = more.pop("wwn", DATA_WWN if serial else None)
        record = self.disk(name, serial, **more)
        record.update(wwn=wwn, tran="nvme", model="SAMSUNG MZQL2", rota=False)
        return record

    def part(self, disk: dict[str, Any], name: str, number: str, holds: str = "", uuid: str = "") -> dict[str, Any]:
        """Add a partition to a disk."""
        record = self.record(name, "part", number)
        disk.setdefault("children", []).append(record)
        self.holds(name, holds, uuid)
        return record

    def made_of(self, devices: list[dict[str, Any]], name: str, kind: str, number: str, **holds: str) -> dict[str, Any]:
        """Add what is made of devices: an array, a volume, what is unlocked."""
        record = self.record(name, kind, number)
        for device in devices:
            device.setdefault("children", []).append(record)
        self.holds(name, holds.get("holds", ""), holds.get("uuid", nodes.DATA))
        return record

    def mounted(self, number: str, place: str, source: str, kind: str = "ext4", root: str = "/") -> Hardware:
        """Mount something; root is the directory of the file system that is shown."""
        self.mountinfo += f"60 22 {number} {root} {place} rw,relatime shared:9 - {kind} {source} rw\n"
        return self

    def call(self, argv: list[str]) -> tuple[int, str, str]:
        """Answer a command as its program does."""
        volumes = [
            {**dict(zip(("vg_name", "lv_name"), name.split("/")[2:])), "lv_active": "active" if active else ""}
            for name, active in self.volumes.items()
        ]
        members = [{"pv_name": name, "vg_name": group} for name, group in (self.groups or {}).items()]
        answers = {
            "blkid": self.blkid.get(argv[-1], (2, "", "")),
            "btrfs": (0, self.subvolumes, ""),
            "lsblk": (0, json.dumps({"blockdevices": self.records}), ""),
            "lvs": (0, json.dumps({"report": [{"lv": volumes}]}), ""),
            "pvs": (0 if self.groups is not None else 5, json.dumps({"report": [{"pv": members}]}), ""),
            "wipefs": (0, json.dumps({"signatures": []}), ""),
        }
        return answers[argv[3]]

    def read(self, root: Any) -> dict[str, Any]:
        """Return the section as the manifest has it; the node's files are written below root."""
        return asdict(self.disks(root))

    def disks(self, root: Any) -> Disks:
        """Return the section; the node's files are written below root."""
        files = {"proc/self/mountinfo": self.mountinfo, "proc/swaps": self.swaps, **self.files}
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        for name, target in {**self.links, **self.aliases}.items():
            (root / name.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            (root / name.lstrip("/")).symlink_to(target)
        for name in self.directories:
            (root / name).mkdir(parents=True, exist_ok=True)
        with mock.patch.object(disks.btrfs, "beside_subvolumes", return_value=self.topmost):
            return disks.read(Node(root), self.call)


def plain() -> Hardware:
    """Return a machine with one disk."""
    return Hardware()


def with_data() -> Hardware:
    """Return a machine with a disk for data, ext4 without a partition."""
    machine = Hardware()
    machine.data(holds=EXT4_DATASETS, number="259:11")
    machine.files["etc/fstab"] += f"UUID={nodes.DATA} /data ext4 noatime,nofail 0 2\n"
    machine.directories.append("data")
    return machine.mounted("259:11", "/data", "/dev/nvme1n1")


def mirror() -> Hardware:
    """Return a machine with / on a mirror of two disks."""
    machine = Hardware()
    other = machine.data(number="259:11")
    halves = [
        machine.part(disk, name, number, nodes.RAID, nodes.ARRAY)
        for disk, name, number in ((machine.system, "nvme0n1p3", "259:3"), (other, "nvme1n1p3", "259:13"))
    ]
    machine.made_of(halves, "md127", "raid1", "9:127", holds=nodes.EXT4, uuid=nodes.ROOT)
    machine.blkid["/dev/nvme0n1p2"] = (2, "", "")
    machine.system["children"] = [one for one in machine.system["children"] if one["kname"] != "nvme0n1p2"]
    machine.mountinfo = machine.mountinfo.replace("259:2 / / rw", "9:127 / / rw").replace("nvme0n1p2", "md127")
    return machine


def volume_group(*, active: bool = True) -> Hardware:
    """Return a machine with / on a volume, and a group of it that has a disk for data, too."""
    machine = Hardware()
    other = machine.data(holds=nodes.LVM, number="259:11")
    system = machine.system["children"][1]
    machine.holds("nvme0n1p2", nodes.LVM)
    machine.made_of([system], "dm-0", "lvm", "252:0", holds=nodes.EXT4, uuid=nodes.ROOT)
    machine.volumes = {"/dev/lab/root": True, "/dev/lab/data": active}
    machine.groups = {"/dev/nvme0n1p2": "lab", "/dev/nvme1n1": "lab"}
    machine.mountinfo = machine.mountinfo.replace("259:2 / / rw", "252:0 / / rw").replace(
        "/dev/nvme0n1p2", "/dev/mapper/lab-root"
    )
    machine.aliases["/dev/mapper/lab-root"] = "/dev/dm-0"
    if active:
        machine.made_of([other], "dm-1", "lvm", "252:1", holds=nodes.EXT4)
        machine.aliases["/dev/mapper/lab-data"] = "/dev/dm-1"
        machine.mounted("252:1", "/data", "/dev/mapper/lab-data")
    return machine


def encrypted() -> Hardware:
    """Return a machine with an encrypted disk for data."""
    machine = Hardware()
    disk = machine.data(holds=nodes.LUKS, number="259:11")
    machine.made_of([disk], "dm-0", "crypt", "252:0", holds=EXT4_DATASETS)
    machine.aliases["/dev/mapper/data"] = "/dev/dm-0"
    machine.files["etc/crypttab"] = "# name device key options\ndata UUID=6f1ad2f2 /etc/keys/data.key luks,discard\n"
    machine.files["etc/crypttab"] += "other UUID=7 none\n"
    return machine.mounted("252:0", "/data", "/dev/mapper/data")


def encrypted_root() -> Hardware:
    """Return a machine with / and swap on LVM on LUKS, and with an encrypted disk for data whose key is on /."""
    machine = Hardware()
    data = machine.data(holds=LUKS, number="259:11", uuid=DATA_LUKS)
    system = machine.system["children"][1]
    machine.holds("nvme0n1p2", LUKS, nodes.OTHER)
    opened = machine.made_of([system], "dm-0", "crypt", "252:0", holds=nodes.LVM)
    machine.made_of([opened], "dm-1", "lvm", "252:1", holds=nodes.EXT4, uuid=nodes.ROOT)
    machine.made_of([data], "dm-2", "crypt", "252:2", holds=EXT4_DATASETS)
    for number, name in enumerate(("cryptroot", "lab-root", "data")):
        machine.aliases[f"/dev/mapper/{name}"] = f"/dev/dm-{number}"
        machine.links[f"/dev/disk/by-id/dm-name-{name}"] = f"/dev/dm-{number}"
    machine.volumes = {"/dev/lab/root": True}
    machine.groups = {"/dev/mapper/cryptroot": "lab"}
    machine.mountinfo = machine.mountinfo.replace("259:2 / / rw", "252:1 / / rw").replace(
        "/dev/nvme0n1p2", "/dev/mapper/lab-root"
    )
    machine.files["etc/crypttab"] = (
        f"cryptroot UUID={nodes.OTHER} /etc/keys/root.key luks\ndata UUID={DATA_LUKS} /root/data.key luks\n"
    )
    return machine.mounted("252:2", "/data", "/dev/mapper/data")


def subvolumes() -> Hardware:
    """Return a machine with / and /home on subvolumes of one Btrfs."""
    machine = Hardware()
    machine.holds("nvme0n1p2", nodes.BTRFS, nodes.ROOT)
    machine.subvolumes = "ID 256 gen 30 top level 5 path @\nID 257 gen 30 top level 5 path @home\n"
    machine.mountinfo = machine.mountinfo.replace("259:2 / / rw", "0:31 /@ / rw").replace("- ext4", "- btrfs")
    machine.mounted("0:31", "/home", "/dev/nvme0n1p2", "btrfs", "/@home")
    machine.mounted("0:31", "/srv/wei", "/dev/nvme0n1p2", "btrfs", "/@home/wei")
    return machine


def container() -> Hardware:
    """Return a container on a machine with disks."""
    machine = Hardware()
    machine.files["run/systemd/container"] = "docker"
    machine.mountinfo = (
        "22 1 0:60 / / rw,relatime - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w\n"
        "23 22 0:61 / /proc rw - proc proc rw\n"
        "24 22 259:2 /var/lib/docker/containers/1f/hosts /etc/hosts rw - ext4 /dev/nvme0n1p2 rw\n"
        "25 22 259:2 /var/lib/docker/volumes/d/_data /data rw - ext4 /dev/nvme0n1p2 rw\n"
    )
    return machine
