"""Accounts, and on which file system a home is: without touching one that may not answer."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.capture import homes
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

ROOT = "21 1 8:2 / / rw - ext4 /dev/sda2 rw\n"


def places(tree, mounts):
    tree.file("/proc/self/mountinfo", mounts)
    return homes.Places(tree.node())


@pytest.mark.parametrize("kind", ["nfs4", "autofs", "fuse.sshfs", "cifs", "lustre"])
def test_a_mount_that_may_not_answer_is_not_looked_into(tree, kind, monkeypatch):
    found = places(tree, f"{ROOT}30 21 0:40 / /home rw - {kind} nas:/home rw\n")
    touched = []
    monkeypatch.setattr(Node, "link", lambda _node, path: touched.append(path))
    assert found.local("/home/wei/.config") is None
    assert found.followed("/home/wei/.config") == "/home/wei/.config"
    assert [path for path in touched if path.startswith("/home")] == []


def test_a_link_to_a_mount_that_may_not_answer(tree):
    tree.link("/home", "srv/home")
    found = places(tree, f"{ROOT}30 21 0:40 / /srv/home rw - nfs4 nas:/home rw\n")
    assert found.followed("/home/wei") == "/srv/home/wei"
    assert found.local("/home/wei") is None


def test_links_are_followed(tree):
    tree.directory("/data/homes/wei").link("/home", "/data/old/../homes").link("/data/homes/wei/.config", "../conf")
    tree.directory("/data/homes/conf").directory("/data/old")
    assert places(tree, ROOT).local("/home/wei/.config/systemd") == "/data/homes/conf/systemd"


def test_links_in_a_circle_end(tree):
    tree.link("/home", "/home")
    assert places(tree, ROOT).local("/home/wei") == "/home/wei"


def block(tree, name, number, disk=None, slaves=()):
    home = f"/sys/devices/{disk}/{name}" if disk else f"/sys/devices/{name}"
    tree.file(f"{home}/dev", number)
    if disk:
        tree.file(f"{home}/partition", "1")
    for one in slaves:
        tree.directory(f"{home}/slaves/{one}")
    tree.link(f"/sys/dev/block/{number}", home).link(f"/sys/class/block/{name}", home)


@pytest.mark.parametrize(
    ("line", "on_root_disk"),
    [
        ("", True),
        ("30 21 8:3 / /home rw - ext4 /dev/sda3 rw\n", True),
        ("30 21 8:17 / /home rw - ext4 /dev/sdb1 rw\n", False),
        ("30 21 253:0 / /home rw - xfs /dev/mapper/vg-home rw\n", True),
        ("30 21 253:1 / /home rw - xfs /dev/mapper/vg-data rw\n", False),
        ("30 21 0:41 / /home rw - btrfs /dev/sdb1 rw\n", False),
        ("30 21 0:41 / /home rw - btrfs /dev/mapper/vg-home rw\n", True),
        ("30 21 0:40 / /home rw - nfs4 nas:/home rw\n", False),
    ],
    ids=["root", "partition", "disk", "volume", "volume-elsewhere", "btrfs-elsewhere", "btrfs-on-a-volume", "nfs"],
)
def test_whether_a_home_is_on_the_root_disk(tree, line, on_root_disk):
    for name, number, disk in (
        ("sda2", "8:2", "sda"),
        ("sda3", "8:3", "sda"),
        ("sda4", "8:4", "sda"),
        ("sdb1", "8:17", "sdb"),
    ):
        block(tree, name, number, disk)
    block(tree, "dm-0", "253:0", slaves=["sda4"])
    block(tree, "dm-1", "253:1", slaves=["sdb1"])
    tree.link("/dev/mapper/vg-home", "../dm-0")
    assert places(tree, ROOT + line).on_root_disk("/home/wei") is on_root_disk


def test_a_container_without_disks(tree):
    found = places(tree, "1 0 0:50 / / rw - overlay overlay rw\n2 1 0:60 / /srv rw - tmpfs tmpfs rw\n")
    assert found.on_root_disk("/home/wei")
    assert not found.on_root_disk("/srv/wei")


def test_homes_of_people_are_named_by_where_they_lie(tmp_path):
    (tmp_path / "srv/home/li").mkdir(parents=True)
    (tmp_path / "home").symlink_to("srv/home")
    (tmp_path / "etc").mkdir()
    lines = ["li:x:1000:1000::/home/li:/bin/bash", "sync:x:4:4::/bin:/bin/sync", "halt:x:7:0::/:/bin/sh", "no:x:9:9:::"]
    (tmp_path / "etc/passwd").write_text("\n".join(lines))
    assert homes.of_people(Node(tmp_path)) == ["/srv/home/li"]
