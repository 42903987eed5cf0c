"""The storage role, seen from the node."""

import pytest


def mount_of(host, place):
    words = host.check_output(f"findmnt --noheadings --output SOURCE,FSTYPE,OPTIONS --mountpoint {place}").split()
    return words[0], words[1], set(words[2].split(","))


def disk(host, name):
    return host.check_output(f"readlink -f /dev/disk/by-id/stand-in-$(hostname)-{name}")


@pytest.fixture
def lines(host):
    return host.check_output("cat /etc/fstab").splitlines()


def test_the_blank_disk_is_scratch_now(host):
    source, filesystem, options = mount_of(host, "/scratch")
    assert (source, filesystem) == (disk(host, "blank"), "xfs")
    assert {"rw", "noatime", "nodev"} <= options
    host.check_output("echo result > /scratch/result && sync /scratch/result && grep result /scratch/result")


def test_the_datasets_are_there_and_cannot_be_written(host):
    source, filesystem, options = mount_of(host, "/mnt/lab/data")
    assert (source, filesystem, "ro" in options) == (disk(host, "data"), "ext4", True)
    assert host.check_output("tail -n 1 /mnt/lab/data/imagenet/labels") == "50000"
    assert host.run("touch /mnt/lab/data/x").rc != 0


def test_the_boot_mounts_them_by_uuid_and_does_not_wait(host, lines):
    ours = [line.split() for line in lines if line.startswith("UUID=")]
    assert [line[1] for line in ours] == ["/scratch", "/mnt/lab/data"]
    for source, place, _type, options, *_rest in ours:
        uuid = host.check_output(f"blkid --probe --match-tag UUID --output value {mount_of(host, place)[0]}")
        assert source == f"UUID={uuid}"
        assert {"nofail", "x-systemd.device-timeout=90s"} <= set(options.split(","))


def test_the_nodes_own_lines_stay(host, lines):
    assert lines[:2] == ["# mine", "tmpfs /srv/own tmpfs size=1m 0 0"]
    assert host.file("/etc/fstab").mode == 0o640


def test_the_node_can_mount_them_by_its_own_file(host):
    host.check_output("umount /scratch && mount /scratch && grep result /scratch/result")


def test_docker_waits_for_its_tier(host):
    show = "systemctl show --value --property RequiresMountsFor docker.service"
    assert "/scratch/docker" in host.check_output(show).split()


def test_facts_tell_the_tiers(host):
    found = host.ansible("gpulab.node.gpu_facts", become=True)["ansible_facts"]["gpulab"]["storage"]
    assert {one["mount"]: (one["mounted"], one["options"]) for one in found} == {
        "/scratch": (disk(host, "blank"), []),
        "/mnt/lab/data": (disk(host, "data"), []),
    }
