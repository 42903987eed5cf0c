"""The tiers that gpulab keeps in /etc/fstab, and what is mounted in their places."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core import owned_block
from ansible_collections.gpulab.node.plugins.module_utils.facts import storage

LINES = "UUID=1 /scratch xfs noatime,nofail 0 0\nserver:/export /shared nfs ro,_netdev 0 0"
HERE = "30 22 259:11 / /scratch rw,noatime - xfs /dev/disk/by-uuid/1 rw\n"


@pytest.fixture
def machine(tree):
    tree.file("/etc/fstab", owned_block.merged("UUID=root / ext4 defaults 0 1\n", LINES, "storage"))
    tree.link("/dev/disk/by-uuid/1", "../../nvme1n1")
    tree.link("/sys/dev/block/259:11", "../../devices/pci/nvme1n1")
    tree.directory("/sys/devices/pci/nvme1n1")
    return tree


def read(machine, mountinfo):
    machine.file("/proc/self/mountinfo", mountinfo)
    return {one["mount"]: one for one in storage.read(machine.node())}


def test_only_gpulabs_lines_count(machine):
    assert list(read(machine, "")) == ["/scratch", "/shared"]


def test_a_tier_as_declared(machine):
    assert read(machine, HERE)["/scratch"] == {
        "mount": "/scratch",
        "source": "UUID=1",
        "declared": "/dev/nvme1n1",
        "mounted": "/dev/nvme1n1",
        "waits": False,
        "there": True,
        "options": [],
        "exports": [],
    }


def test_a_tier_that_is_not_mounted(machine):
    assert read(machine, "")["/scratch"]["mounted"] is None


def test_another_device_in_the_place(machine):
    machine.link("/sys/dev/block/8:1", "../../devices/pci/sda1")
    found = read(machine, HERE.replace("259:11", "8:1"))["/scratch"]
    assert (found["declared"], found["mounted"]) == ("/dev/nvme1n1", "/dev/sda1")


def test_a_disk_that_fell_off_its_bus(machine):
    (machine.root / "dev/disk/by-uuid/1").unlink()
    (machine.root / "sys/dev/block/259:11").unlink()
    found = read(machine, HERE)["/scratch"]
    assert (found["declared"], found["there"]) == (None, False)


BTRFS = "30 22 0:45 / /scratch rw,noatime - btrfs /dev/mapper/scratch rw\n"


@pytest.fixture
def encrypted(machine):
    """Return the machine with Btrfs in an encrypted disk; the number of its mount is of no device."""
    (machine.root / "dev/disk/by-uuid/1").unlink()
    machine.link("/dev/disk/by-uuid/1", "../../dm-0")
    machine.link("/dev/mapper/scratch", "../dm-0")
    machine.link("/sys/class/block/dm-0", "../../devices/virtual/block/dm-0")
    machine.directory("/sys/devices/virtual/block/dm-0")
    return machine


def test_btrfs_as_declared(encrypted):
    found = read(encrypted, BTRFS)["/scratch"]
    assert (found["declared"], found["mounted"], found["there"]) == ("/dev/dm-0", "/dev/dm-0", True)


def test_btrfs_on_a_disk_that_fell_off_its_bus(encrypted):
    (encrypted.root / "sys/class/block/dm-0").unlink()
    found = read(encrypted, BTRFS)["/scratch"]
    assert (found["mounted"], found["there"]) == ("/dev/dm-0", False)


def test_options_that_differ(machine):
    assert read(machine, HERE.replace("rw,noatime", "ro"))["/scratch"]["options"] == ["noatime", "rw"]


def test_an_export(machine):
    found = read(machine, "31 22 0:60 / /shared ro - nfs4 server:/export ro\n")["/shared"]
    assert (found["declared"], found["mounted"], found["there"]) == ("server:/export", "server:/export", True)
    assert found["options"] == []


AUTOMOUNT = "31 22 0:50 / /shared rw,relatime shared:20 - autofs systemd-1 rw,fd=50,pgrp=1,direct\n"


@pytest.fixture
def automount(machine):
    """Return the machine with an export that systemd mounts when somebody enters its place."""
    machine.file("/etc/fstab", machine.node().text("/etc/fstab").replace("_netdev", "_netdev,x-systemd.automount"))
    return machine


def test_an_export_that_nobody_has_entered_waits_for_it(automount):
    found = read(automount, AUTOMOUNT)["/shared"]
    assert (found["mounted"], found["waits"], found["options"]) == (None, True, [])


def test_an_export_that_somebody_has_entered_is_mounted(automount):
    found = read(automount, f"{AUTOMOUNT}32 31 0:60 / /shared ro - nfs4 server:/export ro\n")["/shared"]
    assert (found["mounted"], found["waits"], found["options"]) == ("server:/export", False, [])


def test_an_automount_of_somebody_else_is_none_of_the_line(machine):
    found = read(machine, AUTOMOUNT)["/shared"]
    assert (found["mounted"], found["waits"]) == ("systemd-1", False)


EXPORTED = (
    "# Written by gpulab\n/scratch 10.1.2.0/24(rw,root_squash,mountpoint) node2(ro,mountpoint)\n/shared node2(ro)\n"
)
TABLE = "/scratch\t10.1.2.0/24(rw,sync,root_squash,mountpoint)\n/scratch\tnode2.lab(ro,mountpoint)\n"


@pytest.fixture
def server(machine):
    machine.file("/etc/exports.d/gpulab.exports", EXPORTED)
    machine.file("/var/lib/nfs/etab", TABLE)
    machine.file("/etc/hosts", "127.0.0.1 localhost\n10.1.2.2 node2.lab node2\n")
    machine.file("/proc/fs/nfsd/threads", "8\n")
    return machine


def test_what_a_tier_exports_is_live(server):
    assert read(server, HERE)["/scratch"]["exports"] == [
        {"client": "10.1.2.0/24", "live": True, "missing": []},
        {"client": "node2", "live": True, "missing": []},
    ]


def test_an_export_that_is_not_in_the_table_is_not_live(server):
    server.file("/var/lib/nfs/etab", TABLE.splitlines()[1])
    assert [one["live"] for one in read(server, HERE)["/scratch"]["exports"]] == [False, True]


def test_an_export_of_a_server_that_does_not_run_is_not_live(server):
    server.file("/proc/fs/nfsd/threads", "0\n")
    assert [one["live"] for one in read(server, HERE)["/scratch"]["exports"]] == [False, False]


def test_an_export_with_other_options_is_told(server):
    server.file("/var/lib/nfs/etab", TABLE.replace("root_squash", "no_root_squash"))
    assert read(server, HERE)["/scratch"]["exports"][0]["missing"] == ["root_squash"]
