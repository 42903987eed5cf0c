"""Tiers of storage are mounted by names that stay, and a disk with anything on it is left as it is."""

import re

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core import owned_block
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.storage import plan as storage
from ansible_collections.gpulab.node.plugins.module_utils.storage import tiers
from ansible_collections.gpulab.node.plugins.module_utils.storage.plan import Place

from . import nodes
from .nodes import ARRAY, DATA, MDADM, OTHER, scratch, tier

UNTOUCHED = "UUID=0d3b6a4e-8f3c-4f0e-9a51-0e6a1c9cbb10 / ext4 errors=remount-ro 0 1\n"


def plan(state, *declared):
    return storage.plan(tiers.read(declared), state)


def kinds(state, *declared):
    return [step.kind for step in plan(state, *declared)]


def refused(state, *declared):
    with pytest.raises(Refusal) as caught:
        plan(state, *declared)
    return caught.value


def written(state, *declared):
    """Return the text of /etc/fstab after the plan."""
    return next((step.text for step in plan(state, *declared) if step.kind == "fstab"), state.fstab)


def fstab_of(*lines):
    return owned_block.merged(UNTOUCHED, "\n".join(lines), "storage")


# What a tier with a filesystem comes to


def test_a_filesystem_that_is_there_is_mounted_and_nothing_is_made():
    state = nodes.workstation(nodes.EXT4).state(UNTOUCHED)
    steps = plan(state, tier(format=True))
    assert [step.kind for step in steps] == ["fstab", "directory", "mount"]
    assert steps[-1].argv == ("mount", "/mnt/data")


def test_the_line_names_the_filesystem_and_lets_the_machine_boot_without_it():
    text = written(nodes.workstation(nodes.EXT4).state(UNTOUCHED), tier())
    assert text.startswith(UNTOUCHED)
    assert f"UUID={DATA} /mnt/data ext4 noatime,nofail,x-systemd.device-timeout=90s 0 2" in text.splitlines()


def test_nothing_is_checked_at_boot_that_nothing_shall_write_to():
    """e2fsck writes to a clean filesystem, too: when it looked at it."""
    text = written(nodes.workstation(nodes.EXT4).state(UNTOUCHED), tier(options=["ro"]))
    assert f"UUID={DATA} /mnt/data ext4 ro,nofail,x-systemd.device-timeout=90s 0 0" in text.splitlines()


def test_a_second_run_changes_nothing():
    machine = nodes.workstation(nodes.XFS)
    text = written(machine.state(UNTOUCHED), tier())
    machine.mount("259:11", "/mnt/data", "/dev/nvme1n1", kind="xfs")
    assert plan(machine.state(text), tier()) == []


@pytest.mark.parametrize(
    "name",
    [
        "S7KGNX0W100001",
        "nvme-SAMSUNG_MZQL2_S7KGNX0W100001",
        "/dev/disk/by-id/nvme-SAMSUNG_MZQL2_S7KGNX0W100001",
        f"UUID={DATA}",
        f"UUID={DATA.upper()}",
    ],
)
def test_names_that_stay_are_understood(name):
    assert kinds(nodes.workstation(nodes.EXT4).state(), tier(devices=[name]))[-1] == "mount"


def test_other_options_are_set_on_the_live_mount():
    machine = nodes.workstation(nodes.EXT4).mount("259:11", "/mnt/data", "/dev/nvme1n1", "rw,relatime")
    text = written(machine.state(UNTOUCHED), tier(options=["ro", "noatime"]))
    (step,) = plan(machine.state(text), tier(options=["ro", "noatime"]))
    assert step.argv == ("mount", "-o", "remount,ro,noatime", "/mnt/data")


def test_a_mount_that_turned_read_only_is_mounted_again():
    machine = nodes.workstation(nodes.EXT4)
    text = written(machine.state(UNTOUCHED), tier())
    machine.mount("259:11", "/mnt/data", "/dev/nvme1n1", "ro,noatime")
    assert [step.argv[2] for step in plan(machine.state(text), tier())] == ["remount,rw,noatime"]


def test_containers_that_have_the_tier_too_do_not_matter():
    machine = nodes.workstation(nodes.EXT4).mount("259:11", "/mnt/data", "/dev/nvme1n1")
    text = written(machine.state(UNTOUCHED), tier())
    machine.mount("259:11", "/var/lib/kubelet/pods/1/volume", "/dev/nvme1n1")
    assert plan(machine.state(text), tier()) == []


def encrypted():
    """Return a workstation with Btrfs in an encrypted disk, and the declaration of its tier."""
    machine = nodes.workstation(nodes.LUKS)
    machine.records[-1]["children"] = [machine.record("dm-0", "crypt", "253:0")]
    machine.holds("dm-0", nodes.BTRFS, DATA)
    machine.mapper["/dev/mapper/data"] = "/dev/dm-0"
    return machine, tier(devices=[f"UUID={DATA}"])


def test_btrfs_is_known_by_its_source():
    """Its number in mountinfo is of no device."""
    machine, wish = encrypted()
    text = written(machine.state(UNTOUCHED), wish)
    machine.mount("0:45", "/mnt/data", "/dev/mapper/data", kind="btrfs")
    assert plan(machine.state(text), wish) == []
    assert kinds(machine.state(text)) == ["unmount", "fstab"]


def test_btrfs_that_is_mounted_elsewhere_is_refused():
    machine, wish = encrypted()
    told = refused(machine.mount("0:45", "/media/alice", "/dev/mapper/data", kind="btrfs").state(), wish)
    assert (told.code, "/media/alice" in told.cause) == ("H157", True)


# Which disk


@pytest.mark.parametrize("name", ["/dev/nvme1n1", "nvme1n1", "/dev/sda", "sdb1", "/dev/md127", "/dev/vdb", "/dev/dm-0"])
def test_a_kernel_name_is_refused(name):
    assert refused(nodes.workstation(nodes.EXT4).state(), tier(devices=[name])).code == "H151"


def test_the_refusal_of_a_kernel_name_says_what_to_write():
    told = str(refused(nodes.workstation(nodes.EXT4).state(), tier(devices=["/dev/nvme1n1"])))
    assert "/dev/disk/by-id/nvme-SAMSUNG_MZQL2_S7KGNX0W100001" in told


def test_a_disk_that_is_missing_is_refused_with_those_that_are_there():
    told = refused(nodes.workstation().state(), tier(devices=["S7KGNX0W999999"], format=True))
    assert told.code == "H152"
    assert "S7KGNX0W100001" in told.remedy


def test_a_uuid_may_be_that_of_a_disk_that_does_not_answer():
    machine = nodes.workstation(nodes.EXT4)
    uuid = re.search(r"^UUID=(.*)$", nodes.EXT4, re.MULTILINE)[1]
    other = uuid[:-1] + ("0" if uuid[-1] != "0" else "1")
    assert refused(machine.state(), tier(devices=[f"UUID={other}"])).code == "H152"
    machine.blkid["/dev/nvme1n1"] = (137, "", "")
    told = refused(machine.state(), tier(devices=[f"UUID={uuid}"]))
    assert told.code == "H163"
    assert "/dev/nvme1n1 (it does not answer in time)" in told.cause
    assert refused(machine.state(), tier(devices=["S7KGNX0W999999"])).code == "H152"


def test_a_serial_number_of_two_disks_is_refused_with_both():
    machine = nodes.workstation()
    machine.disk("sda", "S7KGNX0W100001")
    told = refused(machine.state(), tier(format=True))
    assert told.code == "H153"
    assert "/dev/nvme1n1" in told.cause
    assert "/dev/sda" in told.cause


def test_a_copy_of_a_disk_cannot_be_mounted_in_its_place():
    machine = nodes.workstation(nodes.EXT4)
    machine.disk("sda", "COPY", nodes.EXT4)
    assert refused(machine.state(), tier()).code == "H153"


def test_two_paths_to_a_disk_are_one_disk():
    machine = nodes.Machine()
    for name in ("sda", "sdb"):
        machine.disk(name, None, nodes.EXT4)["children"] = [machine.record("dm-0", "mpath", "253:0")]
    machine.holds("dm-0", nodes.EXT4, DATA)
    assert kinds(machine.state(), tier(devices=[f"UUID={DATA}"]))[-1] == "mount"


def test_two_tiers_cannot_have_one_disk():
    other = tier(name="other", mount="/other", devices=[f"UUID={DATA}"])
    told = refused(nodes.workstation(nodes.EXT4).state(), tier(), other)
    assert told.code == "H165"
    assert "S7KGNX0W100001" in told.cause


# What is never formatted


ON_A_DISK = {
    "ZFS pool": (nodes.ZFS, "zfs_member"),
    "volume group": (nodes.LVM, "LVM2_member"),
    "array": (nodes.RAID, "linux_raid_member"),
    "encrypted": (nodes.LUKS, "crypto_LUKS"),
    "swap": (nodes.SWAP, "swap"),
    "partition table only": (nodes.GPT, "a partition table (gpt)"),
}


@pytest.mark.parametrize("formatted", [True, False])
@pytest.mark.parametrize("holds", ON_A_DISK)
def test_a_disk_with_something_on_it_is_refused_and_named(holds, formatted):
    text, says = ON_A_DISK[holds]
    told = refused(nodes.workstation(text).state(), tier(format=formatted))
    assert says in told.cause
    assert "/dev/nvme1n1 (serial S7KGNX0W100001)" in told.cause
    assert told.code == "H154"


def test_a_filesystem_of_another_kind_is_refused():
    told = refused(nodes.workstation(nodes.EXT4).state(), tier(filesystem="xfs", format=True))
    assert told.code == "H156"


@pytest.mark.parametrize(
    "answer",
    [
        (8, "", "/dev/nvme1n1: ambivalent result (probably more filesystems on the device, use wipefs(8))"),
        (2, "", "error: /dev/nvme1n1: Input/output error"),
        (124, "", ""),
        (137, "", ""),
        (0, "", ""),
        (137, nodes.EXT4, ""),
        (127, "", "blkid: not found"),
    ],
)
def test_what_blkid_cannot_tell_is_not_blank(answer):
    machine = nodes.workstation()
    machine.blkid["/dev/nvme1n1"] = answer
    assert refused(machine.state(), tier(format=True)).code == "H154"


def test_a_signature_that_only_wipefs_finds_is_enough():
    machine = nodes.workstation()
    machine.wipefs["/dev/nvme1n1"] = ["zfs_member at 0x1d1c1100000"]
    assert "zfs_member at 0x1d1c1100000" in refused(machine.state(), tier(format=True)).cause


def test_a_disk_that_nobody_looked_at_more_closely_is_not_blank():
    state = nodes.workstation().state()
    state.known.closer.clear()
    assert refused(state, tier(format=True)).code == "H154"


def test_the_disk_of_the_system_is_refused_with_what_is_on_it():
    told = refused(nodes.workstation().state(), tier(devices=["S5GXNX0T100000"], format=True))
    assert told.code == "H154"
    assert "it is mounted at /" in told.cause


def test_the_systems_own_filesystem_is_no_tier():
    told = refused(nodes.workstation().state(), tier(devices=[f"UUID={nodes.ROOT}"]))
    assert (told.code, "/" in told.cause) == ("H157", True)


def test_a_mounted_disk_without_any_signature_is_refused():
    machine = nodes.workstation().mount("259:11", "/elsewhere", "/dev/nvme1n1")
    assert "it is mounted at /elsewhere" in refused(machine.state(), tier(format=True)).cause


def test_a_disk_that_is_swapped_to_is_refused():
    machine = nodes.workstation()
    machine.swaps += "/dev/nvme1n1 partition 1000 0 -2\n"
    assert "(swap) uses it" in refused(machine.state(), tier(format=True)).cause


def test_partitions_count_though_the_table_cannot_be_read():
    machine = nodes.Machine()
    machine.disk("sda", "DISK")["children"] = [machine.record("sda1", "part", "8:1")]
    assert "part /dev/sda1" in refused(machine.state(), tier(devices=["DISK"], format=True)).cause


def test_a_disk_without_size_is_not_blank():
    machine = nodes.Machine()
    machine.disk("sda", "DISK")["size"] = 0
    assert "it has no size" in refused(machine.state(), tier(devices=["DISK"], format=True)).cause


# A blank disk


def test_a_blank_disk_is_formatted_only_where_the_tier_says_so():
    state = nodes.workstation().state()
    told = refused(state, tier())
    assert (told.code, "format: true" in told.remedy) == ("H155", True)
    assert kinds(state, tier(format=True)) == ["format", "fstab", "directory", "mount"]


@pytest.mark.parametrize(("filesystem", "program"), [(None, "mkfs.ext4"), ("ext4", "mkfs.ext4"), ("xfs", "mkfs.xfs")])
def test_the_new_filesystem_has_the_uuid_that_is_mounted(filesystem, program):
    step, fstab, *_rest = plan(nodes.workstation().state(), tier(format=True, filesystem=filesystem))
    name = "/dev/disk/by-id/nvme-SAMSUNG_MZQL2_S7KGNX0W100001"
    assert (step.argv[0], step.argv[-1], [one.name for one in step.devices]) == (program, name, [name])
    new = step.argv[-2].removeprefix("uuid=")
    assert f"UUID={new} /mnt/data {program[5:]} " in fstab.text
    assert not {"-f", "-F"} & set(step.argv)
    options = ["noatime", "usrquota"]
    step, *_rest = plan(nodes.workstation().state(), tier(format=True, filesystem=filesystem, options=options))
    assert ("quota,project" in step.argv) == (program == "mkfs.ext4")  # XFS always has them


PARTITION = "/dev/disk/by-partuuid/8d7c6b5a-4f3e-4d2c-9b1a-0f9e8d7c6b5a"


def partitioned(holds=nodes.ENTRY):
    """Return a workstation whose second disk has one partition, on which blkid finds this, and its tier."""
    machine = nodes.workstation(nodes.GPT)
    machine.records[-1]["children"] = [machine.record("nvme1n1p1", "part", "259:12")]
    machine.links[PARTITION] = "/dev/nvme1n1p1"
    machine.holds("nvme1n1p1", holds, DATA)
    return machine, tier(devices=[PARTITION], format=True)


def test_a_blank_partition_is_formatted_as_a_blank_disk_is():
    """Of one blkid prints what the table of its disk says, and succeeds."""
    machine, wish = partitioned()
    step, *rest = plan(machine.state(), wish)
    assert (step.argv[0], step.argv[-1], [one.name for one in step.devices]) == ("mkfs.ext4", PARTITION, [PARTITION])
    assert [one.kind for one in rest] == ["fstab", "directory", "mount"]
    assert refused(machine.state(), {**wish, "format": False}).code == "H155"


@pytest.mark.parametrize("holds", ON_A_DISK)
def test_a_partition_with_something_on_it_is_refused(holds):
    text, says = ON_A_DISK[holds]
    machine, wish = partitioned(nodes.ENTRY + text)
    assert says in refused(machine.state(), wish).cause


@pytest.mark.parametrize(
    "answer",
    [
        (0, nodes.ENTRY, "blkid: error: /dev/nvme1n1p1: Input/output error"),
        (4, nodes.ENTRY, ""),
        (8, nodes.ENTRY, ""),
        (137, nodes.ENTRY, ""),
        (0, f"{nodes.ENTRY}VERSION=1.0\n", ""),
        (0, f"{nodes.ENTRY}PTTYPE=dos\n", ""),
        (0, f"{nodes.ENTRY}PART_ENTRY_FL", ""),
        (0, "DEVNAME=/dev/nvme1n1p1\n", ""),
    ],
)
def test_what_blkid_cannot_tell_of_a_partition_is_not_blank(answer):
    machine, wish = partitioned()
    machine.blkid["/dev/nvme1n1p1"] = answer
    assert refused(machine.state(), wish).code == "H154"


def test_what_only_wipefs_or_the_bytes_tell_of_a_partition_is_enough():
    machine, wish = partitioned()
    machine.wipefs["/dev/nvme1n1p1"] = ["unknown data, near byte 0 of 2000"]
    assert "unknown data" in refused(machine.state(), wish).cause


def test_a_blank_partition_that_nobody_looked_at_more_closely_is_not_blank():
    machine, wish = partitioned()
    state = machine.state()
    state.known.closer.clear()
    assert refused(state, wish).code == "H154"


def test_a_disk_with_a_blank_partition_is_not_blank():
    machine, _wish = partitioned()
    assert "part /dev/nvme1n1p1" in refused(machine.state(), tier(format=True)).cause


# A disk that is too large to be read whole


def large(read=400 << 20):
    """Return a workstation whose second disk was read in part."""
    machine = nodes.workstation()
    machine.shares["/dev/nvme1n1"] = read
    return machine


def test_a_disk_that_was_not_read_whole_is_formatted_only_where_a_person_has_checked_it():
    told = refused(large().state(), tier(format=True))
    assert told.code == "H177"
    assert "400 MiB of 1907348 MiB" in told.cause
    assert "blank_checked: [S7KGNX0W100001]" in told.remedy
    step, *_rest = plan(large().state(), tier(format=True, blank_checked=["S7KGNX0W100001"]))
    assert "(read 400 MiB of 1907348 MiB: only zeros)" in step.what
    assert step.devices[0].device.serial == "S7KGNX0W100001"


@pytest.mark.parametrize("words", [["S7KGNX0W100002"], ["/dev/nvme1n1"], ["S7KGNX0W10000"], ["all"]])
def test_a_word_for_another_disk_is_none(words):
    assert refused(large().state(), tier(format=True, blank_checked=words)).code == "H177"


def test_the_word_does_not_help_a_disk_with_something_on_it():
    machine = large()
    machine.wipefs["/dev/nvme1n1"] = ["unknown data near byte 7"]
    assert refused(machine.state(), tier(format=True, blank_checked=["S7KGNX0W100001"])).code == "H154"
    assert refused(large().state(), tier(blank_checked=["S7KGNX0W100001"])).code == "H155"


def test_nothing_that_was_read_is_not_all():
    assert refused(large(0).state(), tier(format=True)).code == "H177"


def test_a_device_without_a_serial_number_has_a_name_that_lasts_for_a_word():
    machine, wish = partitioned()
    machine.shares["/dev/nvme1n1p1"] = 1 << 20
    assert f"blank_checked: [{PARTITION}]" in refused(machine.state(), wish).remedy
    assert plan(machine.state(), {**wish, "blank_checked": [PARTITION]})[0].kind == "format"


def test_each_disk_of_a_new_array_needs_its_word():
    machine = nodes.server()
    machine.shares = {f"/dev/nvme{number}n1": 1 << 20 for number in range(1, 9)}
    wish = scratch(format=True)
    told = refused(machine.state(), {**wish, "blank_checked": wish["devices"][1:]})
    assert (told.code, "S6EVNX0T200001" in told.remedy) == ("H177", True)
    step = plan(machine.state(), {**wish, "blank_checked": wish["devices"]})[0]
    assert (step.kind, step.what.count("only zeros"), len(step.devices)) == ("array", 8, 8)


def test_an_array_goes_by_the_words_of_its_disks():
    machine = nodes.server(nodes.RAID)
    machine.array("md127", machine.records[1:3])
    machine.shares["/dev/md127"] = 1 << 20
    wish = scratch(2, format=True)
    assert refused(machine.state(), {**wish, "blank_checked": wish["devices"][:1]}).code == "H177"
    step = plan(machine.state(), {**wish, "blank_checked": wish["devices"]})[0]
    assert (step.kind, step.argv[-1]) == ("format", f"/dev/disk/by-id/md-uuid-{MDADM}")


# Several disks


def test_eight_blank_disks_become_one_scratch():
    array, form, fstab, _directory, _mount = plan(nodes.server().state(), scratch(format=True, filesystem="xfs"))
    assert array.argv[:2] == ("mdadm", "--create")
    assert "--level=0" in array.argv
    assert len(array.devices) == 8
    assert all(name.startswith("/dev/disk/by-id/") for name in array.argv[-8:])
    assert form.argv[-1] == "/dev/md/scratch"
    new = next(word for word in array.argv if word.startswith("--uuid=")).removeprefix("--uuid=")
    assert f"/dev/disk/by-id/md-uuid-{new} /scratch xfs " in fstab.text


def test_datasets_get_no_raid_0():
    told = refused(nodes.server().state(), scratch(purpose="datasets", format=True))
    assert (told.code, "redundancy" in told.remedy) == ("H158", True)


def test_one_disk_of_eight_that_is_not_blank_saves_them_all():
    machine = nodes.server()
    machine.holds("nvme5n1", nodes.ZFS)
    told = refused(machine.state(), scratch(format=True))
    assert (told.code, "serial S6EVNX0T200005" in told.cause) == ("H154", True)


def test_several_blank_disks_become_an_array_only_where_the_tier_says_so():
    assert refused(nodes.server().state(), scratch()).code == "H155"


@pytest.mark.parametrize("purpose", ["scratch", "datasets"])
def test_an_array_that_does_not_run_is_assembled_and_never_made(purpose):
    step, *rest = plan(nodes.server(nodes.RAID).state(), scratch(purpose=purpose, format=True))
    assert step.argv[:3] == ("mdadm", "--assemble", "/dev/md/scratch")
    assert not {"--create", "--force", "--run"} & set(step.argv)
    assert f"/dev/disk/by-id/md-uuid-{MDADM} /scratch auto " in rest[0].text
    assert "format" not in [one.kind for one in rest]


def test_an_array_that_runs_is_mounted():
    machine = nodes.server(nodes.RAID)
    machine.array("md127", machine.records[1:3], nodes.EXT4)
    assert kinds(machine.state(), scratch(2, purpose="datasets")) == ["fstab", "directory", "mount"]


def test_disks_of_two_arrays_are_refused():
    machine = nodes.server(nodes.RAID)
    machine.holds("nvme2n1", nodes.RAID, OTHER)
    told = refused(machine.state(), scratch(2, format=True))
    assert (told.code, MDADM in told.cause) == ("H164", True)


def test_a_blank_disk_beside_members_of_an_array_is_refused():
    machine = nodes.server(nodes.RAID)
    machine.holds("nvme2n1", nodes.BLANK)
    assert refused(machine.state(), scratch(2, format=True)).code == "H164"


def test_members_that_something_else_holds_are_not_assembled():
    machine = nodes.server(nodes.RAID)
    machine.records[1]["children"] = [machine.record("dm-3", "crypt", "253:3")]
    assert refused(machine.state(), scratch(2)).code == "H157"


def test_an_array_is_read_like_mdadm_writes_it():
    assert nodes.server(nodes.RAID).known().content("/dev/nvme1n1").array == MDADM
    assert ARRAY.replace("-", "") == MDADM.replace(":", "")


@pytest.mark.parametrize(("active", "kind"), [(False, "assemble"), (True, "fstab")])
def test_a_volume_is_activated_where_it_is_not(active, kind):
    machine = nodes.Machine()
    machine.disk("sda", "DISK", nodes.LVM)
    machine.volumes["/dev/data/sets"] = active
    if active:
        machine.records[-1]["children"] = [machine.record("dm-0", "lvm", "253:0")]
        machine.holds("dm-0", nodes.XFS, DATA)
        machine.links["/dev/data/sets"] = "/dev/dm-0"
    steps = plan(machine.state(), tier(devices=["/dev/data/sets"]))
    assert steps[0].kind == kind
    assert active or steps[0].argv == ("lvchange", "--activate", "y", "data/sets")
    assert "/dev/data/sets /mnt/data " in next(step.text for step in steps if step.kind == "fstab")


# Places, and lines of others


@pytest.mark.parametrize(
    ("place", "says"),
    [
        (Place(exists=True, directory=True, real="/mnt/data", entries=("imagenet", "coco")), "imagenet, coco"),
        (Place(exists=True, directory=True, real="/srv/data"), "a link to /srv/data"),
        (Place(exists=True, real="/mnt/data"), "not a directory"),
    ],
)
def test_a_place_that_would_hide_something_is_refused(place, says):
    told = refused(nodes.workstation(nodes.EXT4).state(places={"/mnt/data": place}), tier())
    assert (told.code, says in told.cause) == ("H159", True)


def test_an_empty_directory_will_do():
    place = Place(exists=True, directory=True, real="/mnt/data")
    assert kinds(nodes.workstation(nodes.EXT4).state(places={"/mnt/data": place}), tier()) == ["fstab", "mount"]


def test_a_place_where_something_else_is_mounted_is_refused():
    machine = nodes.workstation(nodes.EXT4).mount("8:1", "/mnt/data", "/dev/sda1")
    told = refused(machine.state(), tier())
    assert (told.code, "/dev/sda1" in told.cause) == ("H159", True)


def test_a_filesystem_that_is_mounted_elsewhere_is_refused():
    machine = nodes.workstation(nodes.EXT4).mount("259:11", "/media/alice", "/dev/nvme1n1")
    told = refused(machine.state(), tier())
    assert (told.code, "/media/alice" in told.cause) == ("H157", True)


@pytest.mark.parametrize(
    "line",
    [
        "/dev/sda1 /mnt/data ext4 defaults 0 2",
        f"UUID={DATA} /srv ext4 defaults 0 2",
        f'UUID="{DATA}" /srv ext4 defaults 0 2',
        "/dev/nvme1n1 /srv ext4 defaults 0 2",
        "/dev/disk/by-id/nvme-SAMSUNG_MZQL2_S7KGNX0W100001 /srv ext4 defaults 0 2",
        "nas:/datasets /mnt/data/",
    ],
)
def test_a_line_of_somebody_else_for_the_same_is_refused(line):
    told = refused(nodes.workstation(nodes.EXT4).state(f"{UNTOUCHED}{line}\n"), tier())
    assert (told.code, line.split()[0] in told.cause) == ("H160", True)


NAMED = (
    "DEVNAME={path}\nLABEL=my\\ data\nUUID={uuid}\nTYPE=ext4\nUSAGE=filesystem\nPART_ENTRY_SCHEME=gpt\n"
    "PART_ENTRY_NAME=sets\nPART_ENTRY_UUID=8d7c6b5a-4f3e-4d2c-9b1a-0f9e8d7c6b5a\n"
)


@pytest.mark.parametrize(
    "line",
    [
        r"LABEL=my\040data /mnt/old ext4 defaults,nofail 0 2",
        r"/dev/disk/by-label/my\x20data /mnt/old ext4 defaults 0 2",
        "PARTLABEL=sets /mnt/old ext4 defaults 0 2",
        'PARTLABEL="sets" /mnt/old ext4 defaults 0 2',
        "PARTUUID=8d7c6b5a-4f3e-4d2c-9b1a-0f9e8d7c6b5a /mnt/old ext4 defaults 0 2",
        "PARTUUID=8D7C6B5A-4F3E-4D2C-9B1A-0F9E8D7C6B5A /mnt/old ext4 defaults 0 2",
        f"UUID={DATA.upper()} /mnt/old ext4 defaults 0 2",
        f"/dev/disk/by-uuid/{DATA} /mnt/old ext4 defaults 0 2",
        f"UUID={DATA} /mnt/old ext4",
        "/dev/disk/by-path/pci-0000:01:00.0-nvme-1 /mnt/old ext4",
        "/dev/sda1 /mnt/data/ ext4 defaults 0 2",
        "/dev/sda1 /mnt//data ext4",
    ],
)
@pytest.mark.parametrize("device", ["S7KGNX0W100001", f"UUID={DATA}"])
def test_a_line_of_somebody_else_is_known_by_each_name_that_fstab_takes(line, device):
    machine = nodes.workstation(NAMED)
    machine.aliases["/dev/disk/by-path/pci-0000:01:00.0-nvme-1"] = "/dev/nvme1n1"
    told = refused(machine.state(f"{UNTOUCHED}{line}\n"), tier(devices=[device]))
    assert (told.code, line.split()[1].rstrip("/").replace("//", "/") in told.cause) == ("H160", True)


@pytest.mark.parametrize(
    "line", ["LABEL=other /srv ext4", "PARTLABEL=my /srv ext4", "UUID=2f3c /srv ext4", "LABEL= /srv ext4"]
)
def test_a_line_for_another_device_is_nobodys_trouble(line):
    for holds in (NAMED, nodes.EXT4):
        kinds(nodes.workstation(holds).state(f"{UNTOUCHED}{line}\n"), tier())


@pytest.mark.parametrize("active", [False, True])
def test_a_volume_is_known_by_its_name_of_the_device_mapper(active):
    machine = nodes.workstation(nodes.LVM)
    machine.volumes["/dev/my-data/sets"] = active
    if active:
        machine.records[1]["children"] = [machine.record("dm-0", "lvm", "253:0")]
        machine.links["/dev/my-data/sets"] = machine.aliases["/dev/mapper/my--data-sets"] = "/dev/dm-0"
        machine.holds("dm-0", nodes.EXT4, DATA)
    state = machine.state(f"{UNTOUCHED}/dev/mapper/my--data-sets /srv ext4 defaults 0 2\n")
    assert refused(state, tier(devices=["/dev/my-data/sets"])).code == "H160"


@pytest.mark.parametrize(
    ("what", "where", "found"),
    [
        ("LABEL=my\\x20data", "/srv", False),  # systemd writes a space as it is
        ("LABEL=my data", "/srv", True),
        ("/dev/nvme1n1", "/srv", True),
        ("/dev/sda1", "/mnt/data", True),
        ("/dev/sda1", "/srv", False),
        ("", "", False),
    ],
)
def test_a_mount_unit_of_the_administrator_counts_as_a_line(what, where, found):
    path = "/etc/systemd/system/own.mount"
    unit = f"[Unit]\nDescription=x\n[Mount]\nWhat = {what}\nWhere={where}\nType=ext4\n"
    state = nodes.workstation(NAMED).state(UNTOUCHED, units={path: unit})
    if found:
        told = refused(state, tier())
        assert (told.code, path in told.cause) == ("H160", True)
    else:
        assert "fstab" in kinds(state, tier())


@pytest.mark.parametrize("line", ["server:/export/ /srv nfs", "SERVER:/export /srv nfs4 ro", "x:/y /shared/ nfs"])
def test_a_line_of_somebody_else_for_the_same_export_is_refused(line):
    assert refused(nodes.Machine().state(f"{UNTOUCHED}{line}\n"), nfs()).code == "H160"


# NFS


def nfs(**more):
    return {"name": "shared", "purpose": "datasets", "mount": "/shared", "nfs": "server:/export", **more}


def test_an_export_is_mounted_and_the_boot_does_not_wait_for_it():
    text = written(nodes.Machine().state(UNTOUCHED), nfs(options=["ro", "nconnect=8"]))
    line = "server:/export /shared nfs ro,nconnect=8,_netdev,nofail,x-systemd.mount-timeout=30s 0 0"
    assert line in text.splitlines()


@pytest.mark.parametrize("export", ["server:/export", "server:/export/", "Server:/export"])
def test_an_export_that_is_mounted_stays(export):
    machine = nodes.Machine()
    text = written(machine.state(UNTOUCHED), nfs(nfs=export))
    machine.mount("0:60", "/shared", "server:/export", kind="nfs4")
    assert plan(machine.state(text), nfs(nfs=export)) == []


def test_what_asks_a_file_server_has_a_deadline():
    machine = nodes.Machine()
    (mount,) = [step for step in plan(machine.state(UNTOUCHED), nfs()) if step.kind == "mount"]
    text = written(machine.state(UNTOUCHED), nfs())
    machine.mount("0:60", "/shared", "server:/export", kind="nfs4")
    (remount,) = plan(machine.state(text), nfs(options=["ro"]))[1:]
    (unmount,) = [step for step in plan(machine.state(text)) if step.kind == "unmount"]
    assert [step.argv for step in (mount, unmount)] == [
        (*storage.DEADLINE, "mount", "/shared"),
        (*storage.DEADLINE, "umount", "/shared"),
    ]
    assert remount.argv[:4] == (*storage.DEADLINE, "mount")
    assert kinds(machine.state(text)) == ["unmount", "fstab"]


def automount(**more):
    """Return a machine on which an automount waits for an export after a boot, its /etc/fstab and the tier."""
    wish = nfs(options=["noatime", "x-systemd.automount"], **more)
    text = written(nodes.Machine().state(UNTOUCHED), wish)
    return nodes.Machine().mount("0:50", "/shared", "systemd-1", "rw,relatime", kind="autofs"), text, wish


def test_an_export_that_nobody_has_entered_since_the_boot_stays():
    machine, text, wish = automount()
    assert plan(machine.state(text), wish) == []
    machine.mount("0:60", "/shared", "server:/export", kind="nfs4")
    assert plan(machine.state(text), wish) == []


def test_an_automount_of_other_than_the_line_is_refused():
    machine, text, wish = automount()
    for state, declared in (
        (machine.state(UNTOUCHED), wish),
        (machine.state(text), {**wish, "nfs": "other:/export"}),
        (machine.state(text), {**wish, "options": ["noatime"]}),
        (machine.state(text.replace(",x-systemd.automount", "")), wish),
    ):
        told = refused(state, declared)
        assert (told.code, "systemd-1" in told.cause) == ("H159", True)


# Taking away


def mounted():
    """Return a machine with a tier in use, and its /etc/fstab."""
    machine = nodes.workstation(nodes.EXT4)
    text = written(machine.state(UNTOUCHED), tier())
    return machine.mount("259:11", "/mnt/data", "/dev/nvme1n1"), text


def test_a_tier_that_goes_is_unmounted_and_the_file_is_as_before():
    machine, text = mounted()
    unmount, fstab = plan(machine.state(text))
    assert unmount.argv == ("umount", "/mnt/data")
    assert fstab.text == UNTOUCHED


def test_a_tier_in_use_is_not_unmounted():
    machine, text = mounted()
    told = refused(machine.state(text, users={"/mnt/data": ["process 4711"]}))
    assert (told.code, "process 4711" in told.cause) == ("H161", True)


def test_what_somebody_else_mounted_in_the_place_stays():
    machine = nodes.workstation(nodes.EXT4)
    text = written(machine.state(UNTOUCHED), tier())
    machine.mount("8:1", "/mnt/data", "/dev/sda1")
    assert kinds(machine.state(text)) == ["fstab"]


def test_a_tier_moves_to_another_place():
    machine, text = mounted()
    assert kinds(machine.state(text), tier(mount="/data")) == ["unmount", "fstab", "directory", "mount"]


def test_without_tiers_nothing_happens():
    assert plan(nodes.workstation(nodes.EXT4).state(UNTOUCHED)) == []


# What is declared


@pytest.mark.parametrize(
    "declared",
    [
        tier(nfs="server:/export"),
        tier(devices=[]),
        tier(name="no spaces"),
        tier(mount="mnt/data"),
        tier(mount="/mnt/../etc"),
        tier(mount="/mnt/da ta"),
        tier(mount="/"),
        tier(devices=["A", "A"]),
        tier(options=["noatime,ro"]),
        tier(options=["x 0 0\n/dev/sda1"]),
        tier(format=True, filesystem="btrfs"),
        nfs(format=True),
        nfs(nfs="server"),
    ],
)
def test_what_cannot_be_meant_is_refused(declared):
    with pytest.raises(Refusal) as caught:
        tiers.read([declared])
    assert caught.value.code == "H150"


@pytest.mark.parametrize(
    "other", [tier(mount="/x"), tier(name="x"), tier(name="x", mount="/mnt"), nfs(mount="/mnt/data/x")]
)
def test_tiers_do_not_collide(other):
    with pytest.raises(Refusal) as caught:
        tiers.read([tier(), other])
    assert caught.value.code == "H150"


def test_only_what_is_needed_is_installed():
    declared = tiers.read([tier(format=True, filesystem="xfs")])
    assert storage.programs(declared, storage.plan(declared, nodes.workstation().state())) == ["mkfs.xfs"]
    assert storage.programs(tiers.read([nfs()]), []) == ["mount.nfs"]
