"""What is read of a node: real blkid and wipefs on images of disks, and the files of a tree."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core import owned_block
from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import Mount
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.storage import devices, host, plan, tiers

from .nodes import DATA, EXT4, tier

SIGNATURES = Path(__file__).parents[2] / "stubs/disk_signatures.py"
KINDS = {
    "partition_table": "dos",
    "array": "linux_raid_member",
    "volume_group": "LVM2_member",
    "zfs_pool": "zfs_member",
    "encrypted": "crypto_LUKS",
    "nobodys": "unknown data",
}
MIB = 1 << 20


def call(argv):
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "disk.img"
    with path.open("wb") as file:
        file.truncate(64 * MIB)
    return path


def closer(path):
    return list(host.Reader(Node(), call).closer([str(path)])[str(path)].found)


def test_a_disk_of_zeros_is_blank(image):
    assert closer(image) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_disk_of_somebody_else_is_not_blank(image, kind):
    subprocess.run([sys.executable, SIGNATURES, kind, image], check=True, timeout=60)
    assert KINDS[kind] in closer(image)[0]


@pytest.mark.parametrize("place", [0, 5000, 16 * MIB - 1, 32 * MIB, 48 * MIB, 64 * MIB - 1])
def test_one_byte_is_enough(image, place):
    with image.open("r+b") as file:
        file.seek(place)
        file.write(b"\1")
    assert "unknown data" in closer(image)[0]


def test_old_signatures_are_found_beside_new_ones(image):
    subprocess.run(["mkswap", image], check=True, capture_output=True, timeout=60)
    subprocess.run([sys.executable, SIGNATURES, "zfs_pool", image], check=True, timeout=60)
    assert {one.split()[0] for one in closer(image)} == {"zfs_member", "swap"}
    # blkid calls it ambivalent, or like that of Debian 13 says nothing at all.
    assert not devices.content(*call([*host.BLKID, str(image)])).type


def test_what_is_missing_is_not_blank(tmp_path):
    assert "unknown data" in closer(tmp_path / "none")[0]


@pytest.mark.parametrize("answer", [(1, "", "probing failed"), (0, "garbage", ""), (0, "{}", ""), (124, "", "")])
def test_what_wipefs_cannot_tell_is_not_blank(answer):
    assert "unknown data" in devices.signatures(*answer)[0]


# A whole node

LSBLK = {
    "blockdevices": [
        {"kname": "nvme1n1", "type": "disk", "size": 2 * 10**12, "serial": "S7KGNX0W100001", "maj:min": "259:11"},
        {"kname": "sr0", "type": "rom", "size": 0, "serial": None, "maj:min": "11:0"},
    ]
}


@pytest.fixture
def node(tmp_path):
    files = {
        "etc/fstab": "UUID=old /old ext4 defaults 0 2\n",
        "proc/self/mountinfo": "22 1 259:2 / / rw - ext4 /dev/nvme0n1p2 rw\n"
        "23 22 8:1 / /mnt/data/sub rw - ext4 /dev/sda1 rw\n",
        "proc/swaps": "Filename Type Size Used Priority\n/dev/sdb partition 1 0 -2\n",
        "mnt/data/imagenet": "",
        "etc/systemd/system/own.mount": "[Mount]",
        "etc/systemd/system/own.service": "[Service]",
        "dev/mapper/own": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for name, target in {
        "dev/disk/by-id/nvme-X": "../../nvme1n1",
        "proc/4711/cwd": "/mnt/data/sub",
        "proc/4712/fd/3": "/mnt/data/x",
        "proc/4713/cwd": "/mnt/database",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).symlink_to(target)
    return Node(tmp_path)


def answers(argv):
    command = argv[3:]  # after timeout and its arguments
    if command[0] == "lsblk":
        return 0, json.dumps(LSBLK), ""
    if command[0] == "blkid":
        assert command[-1] == "/dev/nvme1n1"  # nothing is asked of a device without a medium
        return 0, EXT4.format(path=command[-1], uuid=DATA), ""
    return 127, "", "not found"


def test_a_node_is_read(node):
    state = host.Reader(node, answers).state(tiers.read([tier()]))
    assert state.known.links == {"/dev/disk/by-id/nvme-X": "/dev/nvme1n1"}
    assert list(state.known.aliases) == ["/dev/mapper/own"]
    assert state.units == {"/etc/systemd/system/own.mount": "[Mount]"}
    assert state.known.content("/dev/nvme1n1").type == "ext4"
    assert state.known.swaps == ("/dev/sdb",)
    assert state.known.closer == {}  # a filesystem is not looked into
    assert state.places["/mnt/data"].entries == ("imagenet",)
    assert state.fstab.startswith("UUID=old")


def test_lsblk_is_asked_for_its_tree(node):
    """It prints a plain list, and no children, where its first column is not asked for."""
    asked = []
    host.Reader(node, lambda argv: asked.append(argv) or answers(argv)).state(tiers.read([tier()]))
    (columns,) = [argv[-1].split(",") for argv in asked if "lsblk" in argv]
    assert "NAME" in columns


def test_a_server_that_does_not_answer_holds_a_former_place(node, monkeypatch):
    monkeypatch.setattr(host, "ANSWERS", 0.2)
    monkeypatch.setattr(host.os, "statvfs", lambda _place: time.sleep(5))
    known = devices.Devices({}, mounts=(Mount("/mnt/data", "nas:/data", "nfs4", "0:60"),))
    (told,) = host.Reader(node, call)._users("/mnt/data", known)  # noqa: SLF001
    assert told.startswith("nas:/data, which does not answer")


def test_who_uses_a_former_place_is_told(node):
    fstab = owned_block.merged("", f"UUID={DATA} /mnt/data ext4 nofail 0 2", "storage")
    node.path("/etc/fstab").write_text(fstab)
    state = host.Reader(node, answers).state([])
    assert state.users == {"/mnt/data": ["the mount /mnt/data/sub", "process 4711", "process 4712"]}


def test_a_device_without_a_filesystem_is_looked_at(node):
    def blank(argv):
        return (2, "", "") if argv[3] == "blkid" else answers(argv)

    state = host.Reader(node, blank).state(tiers.read([tier()]))
    assert "wipefs cannot read it: not found" in state.known.closer["/dev/nvme1n1"].found[0]


def test_what_is_mounted_already_is_not_listed(node):
    mountinfo = node.path("/proc/self/mountinfo")
    mountinfo.write_text(mountinfo.read_text() + "24 22 0:60 / /mnt/data rw - nfs4 dead:/export rw\n")
    assert host.Reader(node, answers).state(tiers.read([tier()])).places == {}


def test_a_mounted_device_has_the_kernels_name(node):
    mountinfo = node.path("/proc/self/mountinfo")
    mountinfo.write_text(mountinfo.read_text() + "24 22 0:45 / /srv rw - btrfs /dev/mapper/data rw\n")
    node.path("/dev/mapper/data").symlink_to("../dm-0")
    known = host.Reader(node, answers).state(tiers.read([tier()])).known
    assert devices.at("/srv", known.mounts).source == "/dev/dm-0"


def test_without_tiers_no_device_is_asked(node):
    def never(argv):
        raise AssertionError(argv)

    assert plan.plan([], host.Reader(node, never).state([])) == []


def test_volumes_are_read():
    told = {"report": [{"lv": [{"vg_name": "data", "lv_name": "sets", "lv_active": "active"}]}]}
    assert devices.volumes(json.dumps(told)) == {"/dev/data/sets": True}


# Its NFS server


def put(node, **texts):
    for path, text in texts.items():
        place = node.path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


@pytest.fixture
def server(node):
    texts = {
        "/etc/exports": "# mine\n",
        "/etc/exports.d/own.exports": "/srv *(ro)\n",
        "/etc/exports.d/README": "no exports",
        "/var/lib/nfs/etab": "/srv\t*(ro)\n",
        "/proc/fs/nfsd/threads": "8\n",
        "/proc/fs/nfsd/clients/3/info": 'clientid: 0x1\naddress: "10.1.2.7:871"\n',
        "/proc/fs/nfsd/clients/3/states": '- 0x01: { type: open, superblock: "103:0b:13" }\n',
        "/proc/sys/kernel/osrelease": "6.12.0\n",
        "/lib/modules/6.12.0/modules.dep": "kernel/fs/nfsd/nfsd.ko.xz: kernel/fs/lockd/lockd.ko.xz\n",
    }
    put(node, **texts)
    link = node.path("/etc/systemd/system/multi-user.target.wants/nfs-server.service")
    link.parent.mkdir(parents=True)
    link.symlink_to("/usr/lib/systemd/system/nfs-server.service")
    return node


def test_an_nfs_server_is_read(server):
    found = host.server_of(server)
    assert found.files == {"/etc/exports": "# mine\n", "/etc/exports.d/own.exports": "/srv *(ro)\n"}
    assert found.table == "/srv\t*(ro)"
    assert (found.runs, found.at_boot, found.enabled, found.unable) == (True, True, False, "")
    assert found.holders == {"259:11": ["10.1.2.7"]}


def test_a_server_that_is_there_and_does_not_run(server):
    put(server, **{"/proc/fs/nfsd/threads": "0\n"})
    server.path("/etc/systemd/system/multi-user.target.wants/nfs-server.service").unlink()
    assert (host.server_of(server).runs, host.server_of(server).at_boot) == (False, False)


def test_a_container_cannot_serve(server):
    put(server, **{"/run/systemd/container": "docker\n"})
    assert "container" in host.server_of(server).unable


def test_a_kernel_without_the_server_cannot_serve(server):
    put(server, **{"/lib/modules/6.12.0/modules.dep": ""})
    assert "nfsd" in host.server_of(server).unable
    put(server, **{"/lib/modules/6.12.0/modules.builtin": "kernel/fs/nfsd/nfsd.ko\n"})
    assert host.server_of(server).unable == ""


def test_what_gpulab_exports_is_looked_at_without_tiers(server):
    put(server, **{"/etc/exports.d/gpulab.exports": "# Written by gpulab\n"})
    assert host.Reader(server, answers).state([]).known.devices
