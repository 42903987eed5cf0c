"""What lives on which disk: read of what the tools print, in the layouts of real labs."""

import json

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.capture import disks

from unit.capture import hardware
from unit.storage import nodes


def disk(section, path):
    """Return the tree of a disk."""
    return next(one for one in section["disks"] if one["path"] == path)


def filesystem(section, place):
    """Return the record of a mounted file system."""
    return next(one for one in section["filesystems"] if one["mount"] == place)


def test_the_tree_of_a_disk_names_it_and_all_that_is_on_it(tmp_path):
    section = hardware.with_data().read(tmp_path)
    system = disk(section, "/dev/nvme0n1")
    named = {key: system[key] for key in ("serial", "wwn", "model", "transport", "rotational", "root", "partitions")}
    assert named == {
        "serial": hardware.ROOT_SERIAL,
        "wwn": hardware.ROOT_WWN,
        "model": "SAMSUNG MZQL2",
        "transport": "nvme",
        "rotational": False,
        "root": True,
        "partitions": "gpt",
    }
    assert system["names"] == [f"nvme-SAMSUNG_MZQL2_{hardware.ROOT_SERIAL}"]
    assert [(one["path"], one["type"], one["esp"], one["places"]) for one in system["below"]] == [
        ("/dev/nvme0n1p1", "vfat", True, ["/boot/efi"]),
        ("/dev/nvme0n1p2", "ext4", False, ["/"]),
    ]
    data = disk(section, "/dev/nvme1n1")
    assert (data["root"], data["type"], data["label"], data["uuid"], data["places"]) == (
        False, "ext4", "datasets", nodes.DATA, ["/data"],
    )  # fmt: skip


def test_file_systems_are_measured_and_one_that_does_not_answer_has_no_size(tmp_path):
    machine = hardware.with_data().mounted("259:99", "/gone", "/dev/nvme9n1")
    section = machine.read(tmp_path)
    data = filesystem(section, "/data")
    assert 0 < data["used"] <= data["size"]
    assert (data["disks"], data["on_root_disk"]) == (["/dev/nvme1n1"], False)
    assert (filesystem(section, "/gone")["size"], filesystem(section, "/gone")["used"]) == (None, None)


def test_a_hung_file_system_does_not_hold_up_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(disks, "SECONDS", 0.5)
    monkeypatch.setattr(
        disks, "_measure", lambda path, _emit: __import__("time").sleep(60 if "data" in str(path) else 0)
    )
    assert filesystem(hardware.with_data().read(tmp_path), "/data")["used"] is None


def test_only_the_root_disk_is_walked(tmp_path):
    machine = hardware.with_data()
    home = machine.part(machine.system, "nvme0n1p3", "259:3", nodes.EXT4, nodes.OTHER)
    machine.mounted("259:3", "/home", f"/dev/{home['kname']}").mounted("0:50", "/nfs", "server:/srv", "nfs4")
    machine.mounted("0:51", "/scratch", "tmpfs", "tmpfs")
    section = machine.read(tmp_path)
    assert section["walked"] == ["/", "/boot/efi", "/home"]
    assert filesystem(section, "/nfs")["on_root_disk"] is False
    assert "/scratch" not in [one["mount"] for one in section["filesystems"]]


def test_bind_mounts_are_not_walked_again(tmp_path):
    machine = hardware.with_data().mounted("259:2", "/srv/share", "/dev/nvme0n1p2", root="/home/share")
    assert machine.read(tmp_path)["walked"] == ["/", "/boot/efi"]


def test_subvolumes_are_walked_once_each(tmp_path):
    section = hardware.subvolumes().read(tmp_path)
    assert section["walked"] == ["/", "/boot/efi", "/home"]
    assert section["root"]["disks"] == ["/dev/nvme0n1"]
    assert filesystem(section, "/home")["subvolume"] == "/@home"


def test_subvolumes_that_are_not_mounted_are_named(tmp_path):
    machine = hardware.subvolumes()
    machine.subvolumes = (
        "ID 256 gen 30 top level 5 path @\nID 257 gen 30 top level 5 path @home\n"
        "ID 258 gen 12 top level 5 path @old data\nID 259 gen 9 top level 256 path @/var/lib/machines\n"
    )
    (found,) = machine.read(tmp_path)["unseen"]
    assert (found["path"], found["type"]) == ("/dev/nvme0n1p2/@old data", "btrfs")


def test_subvolumes_that_nobody_lists_are_unseen(tmp_path):
    """As where btrfs-progs is not installed."""
    machine = hardware.subvolumes()
    machine.subvolumes = ""
    (found,) = machine.read(tmp_path)["unseen"]
    assert (found["path"], "btrfs(8)" in found["why"]) == ("/dev/nvme0n1p2", True)
    machine.mounted("0:31", "/top", "/dev/nvme0n1p2", "btrfs")
    assert machine.read(tmp_path / "top")["unseen"] == [], "with the topmost one mounted, all are seen"


def test_what_lies_beside_the_subvolumes_is_unseen_and_called_like_nothing_that_is_mounted(tmp_path):
    machine = hardware.subvolumes()
    machine.topmost = ["home"]
    (found,) = machine.read(tmp_path)["unseen"]
    assert (found["path"], "topmost directory" in found["why"]) == ("/dev/nvme0n1p2/home", True)


def test_a_volume_that_is_not_mounted_has_a_name_that_lasts(tmp_path):
    machine = hardware.encrypted_root()
    opened = machine.system["children"][1]["children"][0]
    machine.made_of([opened], "dm-7", "lvm", "252:7", holds=nodes.EXT4)
    machine.volumes["/dev/lab/before"] = True
    machine.aliases |= {"/dev/mapper/lab-before": "/dev/dm-7", "/dev/lab/before": "/dev/dm-7"}
    assert [one["path"] for one in machine.read(tmp_path)["unseen"]] == ["/dev/lab/before"]


def test_a_volume_of_luks_is_opened_by_its_key_and_its_header():
    (line,) = disks.crypttab("data UUID=1 /root/data.key luks,header=/root/data.header\n")
    assert line.files == ["/root/data.key", "/root/data.header"]
    assert disks.crypttab("swap /dev/sdb1 none swap\n")[0].files == []


def test_a_mirror_is_on_both_disks(tmp_path):
    section = hardware.mirror().read(tmp_path)
    assert section["root"]["disks"] == ["/dev/nvme0n1", "/dev/nvme1n1"]
    assert section["groups"] == [{"name": f"array {nodes.MDADM}", "disks": ["/dev/nvme0n1", "/dev/nvme1n1"]}]
    assert section["unseen"] == []


@pytest.mark.parametrize("active", [True, False])
def test_a_volume_group_spans_disks_whether_its_volumes_do_or_not(tmp_path, active):
    section = hardware.volume_group(active=active).read(tmp_path)
    assert section["groups"] == [{"name": "volume group lab", "disks": ["/dev/nvme0n1", "/dev/nvme1n1"]}]
    assert section["root"]["disks"] == ["/dev/nvme0n1"]


def test_a_volume_group_of_one_disk_spans_nothing(tmp_path):
    machine = hardware.volume_group()
    machine.groups["/dev/nvme1n1"] = "data"
    assert machine.read(tmp_path)["groups"] == []


def test_members_of_unknown_volume_groups_may_belong_together(tmp_path):
    """As where lvm2 is not installed, or does not answer."""
    machine = hardware.volume_group()
    machine.groups = None
    assert machine.read(tmp_path)["groups"] == [
        {"name": "volume groups that lvm2 does not name", "disks": ["/dev/nvme0n1", "/dev/nvme1n1"]}
    ]


def test_members_of_no_volume_group_do_not_belong_together(tmp_path):
    machine = hardware.volume_group()
    machine.groups = {"/dev/nvme0n1p2": "", "/dev/nvme1n1": ""}
    assert machine.read(tmp_path)["groups"] == []


def test_a_volume_that_is_not_active_is_unseen_where_its_group_is_on_the_root_disk(tmp_path):
    section = hardware.volume_group(active=False).read(tmp_path)
    assert [(one["path"], one["why"]) for one in section["unseen"]] == [("/dev/lab/data", "the volume is not active")]
    machine = hardware.volume_group(active=False)
    machine.volumes = {"/dev/lab/root": True, "/dev/data/data": False}
    machine.groups["/dev/nvme1n1"] = "data"
    assert machine.read(tmp_path / "other")["unseen"] == []


def test_an_array_that_is_not_assembled_spans_disks_all_the_same(tmp_path):
    machine = hardware.Hardware()
    other = machine.data(number="259:11")
    machine.part(machine.system, "nvme0n1p3", "259:3", nodes.RAID, nodes.ARRAY)
    machine.part(other, "nvme1n1p1", "259:12", nodes.RAID, nodes.ARRAY)
    section = machine.read(tmp_path)
    assert section["groups"] == [{"name": f"array {nodes.MDADM}", "disks": ["/dev/nvme0n1", "/dev/nvme1n1"]}]
    assert [(one["path"], one["why"]) for one in section["unseen"]] == [
        ("/dev/nvme0n1p3", "it is neither assembled nor unlocked")
    ]


def test_a_pool_with_its_log_on_the_root_disk_spans_disks(tmp_path):
    machine = hardware.Hardware()
    machine.part(machine.system, "nvme0n1p3", "259:3", nodes.ZFS)
    machine.data(holds=nodes.ZFS, number="259:11")
    section = machine.mounted("0:70", "/tank", "tank/datasets", "zfs").read(tmp_path)
    assert section["groups"] == [{"name": "pool tank", "disks": ["/dev/nvme0n1", "/dev/nvme1n1"]}]
    assert filesystem(section, "/tank")["disks"] == ["/dev/nvme0n1", "/dev/nvme1n1"]
    assert section["unseen"] == []


def test_root_on_a_pool_is_on_the_disks_of_its_members(tmp_path):
    machine = hardware.Hardware()
    machine.holds("nvme0n1p2", nodes.ZFS.replace("LABEL=tank", "LABEL=rpool"))
    machine.mountinfo = machine.mountinfo.replace("259:2 / / rw", "0:31 / / rw").replace(
        "- ext4 /dev/nvme0n1p2", "- zfs rpool/ROOT/debian"
    )
    assert machine.read(tmp_path)["root"]["disks"] == ["/dev/nvme0n1"]


def test_one_btrfs_over_two_disks_is_on_both(tmp_path):
    machine = hardware.subvolumes()
    machine.data(holds=nodes.BTRFS, uuid=nodes.ROOT, number="259:11")
    section = machine.read(tmp_path)
    assert section["root"]["disks"] == ["/dev/nvme0n1", "/dev/nvme1n1"]
    assert [group["disks"] for group in section["groups"]] == [["/dev/nvme0n1", "/dev/nvme1n1"]]
    assert section["unseen"] == []


def test_a_cache_of_the_kernel_over_two_disks_spans_them(tmp_path):
    """As bcache, of which blkid tells no group."""
    machine = hardware.Hardware()
    cache = machine.part(machine.system, "nvme0n1p3", "259:3", "DEVNAME={path}\nTYPE=bcache\nUSAGE=other\n")
    data = machine.data(number="259:11", holds="DEVNAME={path}\nTYPE=bcache\nUSAGE=other\n")
    machine.made_of([cache, data], "bcache0", "disk", "251:0", holds=nodes.EXT4)
    section = machine.read(tmp_path)
    assert section["groups"] == [{"name": "disk /dev/bcache0", "disks": ["/dev/nvme0n1", "/dev/nvme1n1"]}]
    assert [one["path"] for one in section["disks"]] == ["/dev/nvme0n1", "/dev/nvme1n1"]


def test_an_unlocked_disk_is_a_tree(tmp_path):
    section = hardware.encrypted().read(tmp_path)
    data = disk(section, "/dev/nvme1n1")
    assert (data["type"], [(one["type"], one["places"]) for one in data["below"]]) == (
        "crypto_LUKS",
        [("ext4", ["/data"])],
    )
    assert section["crypttab"] == [
        {"name": "data", "device": "UUID=6f1ad2f2", "key": "/etc/keys/data.key", "options": ["luks", "discard"]},
        {"name": "other", "device": "UUID=7", "key": "", "options": []},
    ]


@pytest.mark.parametrize(
    ("holds", "why"),
    [
        (hardware.NTFS, "it is not mounted"),
        (nodes.LUKS, "it is neither assembled nor unlocked"),
        (nodes.EXT4, "it is not mounted"),
    ],
    ids=["another system", "encrypted", "a file system"],
)
def test_what_is_on_the_root_disk_and_not_mounted_is_unseen(tmp_path, holds, why):
    machine = hardware.plain()
    machine.part(machine.system, "nvme0n1p3", "259:3", holds, nodes.OTHER)
    assert [(one["path"], one["why"]) for one in machine.read(tmp_path)["unseen"]] == [("/dev/nvme0n1p3", why)]


def test_an_unlocked_partition_is_unseen_by_what_is_in_it(tmp_path):
    machine = hardware.plain()
    locked = machine.part(machine.system, "nvme0n1p3", "259:3", nodes.LUKS)
    machine.made_of([locked], "dm-0", "crypt", "252:0", holds=nodes.EXT4)
    assert [one["path"] for one in machine.read(tmp_path)["unseen"]] == ["/dev/dm-0"]


def test_what_is_on_another_disk_and_not_mounted_is_nobodys_concern(tmp_path):
    machine = hardware.plain()
    machine.data(holds=hardware.NTFS, number="259:11")
    assert machine.read(tmp_path)["unseen"] == []


def test_an_esp_boot_code_swap_and_blank_partitions_are_not_unseen(tmp_path):
    machine = hardware.plain()
    machine.mountinfo = machine.mountinfo.replace("/boot/efi", "/elsewhere")
    machine.part(machine.system, "nvme0n1p3", "259:3", nodes.SWAP)
    machine.part(machine.system, "nvme0n1p4", "259:4", nodes.ENTRY)
    bios = hardware.PART.format(kind="21686148-6449-6e6f-744e-656564454649")
    machine.part(machine.system, "nvme0n1p5", "259:5", "DEVNAME={path}\n" + bios)
    esp = hardware.VFAT + hardware.PART.format(kind=hardware.ESP_TYPE.upper())
    machine.part(machine.system, "nvme0n1p6", "259:6", esp, "1-2")
    for name in ("nvme0n1p4", "nvme0n1p5"):
        machine.files[f"dev/{name}"] = "\0" * 4096 if name == "nvme0n1p4" else "boot code"
    assert machine.read(tmp_path)["unseen"] == []


def test_bytes_without_a_signature_on_the_root_disk_are_unseen(tmp_path):
    machine = hardware.plain()
    machine.part(machine.system, "nvme0n1p3", "259:3", nodes.ENTRY)
    machine.files["dev/nvme0n1p3"] = "raw data of somebody's"
    assert "unknown data" in machine.read(tmp_path)["unseen"][0]["why"]


def test_what_blkid_cannot_read_on_the_root_disk_is_unseen(tmp_path):
    machine = hardware.plain()
    machine.part(machine.system, "nvme0n1p3", "259:3")
    machine.blkid["/dev/nvme0n1p3"] = (8, "", "")
    assert "several signatures" in machine.read(tmp_path)["unseen"][0]["why"]


def test_swap_of_another_disk_is_named_there(tmp_path):
    machine = hardware.plain()
    machine.data(holds=nodes.SWAP, number="259:11")
    machine.swaps += "/dev/nvme1n1 partition 1 0 -2\n"
    assert disk(machine.read(tmp_path), "/dev/nvme1n1")["places"] == ["(swap)"]


def test_a_container_says_so_and_is_walked_from_its_root(tmp_path):
    section = hardware.container().read(tmp_path)
    assert (section["container"], section["disks"], section["root"]["disks"]) == ("docker", [], [])
    assert section["walked"] == ["/"]
    assert filesystem(section, "/")["on_root_disk"] is True
    assert filesystem(section, "/data")["on_root_disk"] is False


def test_a_bind_mount_of_a_containers_root_is_not_walked_again(tmp_path):
    machine = hardware.container()
    machine.mountinfo = "22 1 254:0 / / rw - ext4 /dev/vda rw\n23 22 254:0 /srv /data rw - ext4 /dev/vda rw\n"
    section = machine.read(tmp_path)
    assert section["walked"] == ["/"]
    assert filesystem(section, "/data")["on_root_disk"] is True


def test_drives_without_disks_and_images_are_no_disks(tmp_path):
    machine = hardware.plain()
    machine.records += [
        machine.record("loop0", "loop", "7:0"),
        machine.record("sr0", "rom", "11:0"),
        machine.record("zram0", "disk", "253:0"),
        {**machine.record("sdz", "disk", "8:100"), "size": 0},
    ]
    assert [one["path"] for one in machine.read(tmp_path)["disks"]] == ["/dev/nvme0n1"]


def test_where_lsblk_does_not_answer_no_disk_is_known(tmp_path, monkeypatch):
    machine = hardware.plain()
    monkeypatch.setattr(machine, "call", lambda _argv: (124, "", ""))
    section = machine.read(tmp_path)
    assert (section["disks"], section["root"]["disks"], section["walked"]) == ([], [], ["/"])


@pytest.mark.parametrize("where", ["mounted", "in fstab"])
def test_boot_devices_are_known_mounted_or_not(tmp_path, where):
    machine = hardware.plain()
    if where == "in fstab":
        machine.mountinfo = machine.mountinfo.replace("/boot/efi", "/elsewhere")
    assert machine.read(tmp_path)["boot_devices"] == [{"place": "/boot/efi", "disks": ["/dev/nvme0n1"]}]


def test_no_secret_of_fstab_is_in_the_record(tmp_path):
    machine = hardware.plain()
    machine.files["etc/fstab"] += (
        "//nas/wei /nas cifs username=wei,password=canary1,pass=canary2,uid=1 0 0\n"
        "https://wei:canary3@dav.lab/ /dav davfs defaults 0 0\nnas:/a /with\\040space/ nfs4 _netdev 0 0\n"
    )
    section = machine.read(tmp_path)
    assert "canary" not in json.dumps(section)
    assert section["fstab"][2] == {
        "source": "//nas/wei",
        "mount": "/nas",
        "type": "cifs",
        "options": ["username=wei", "password=***", "pass=***", "uid=1"],
    }
    assert section["fstab"][4]["mount"] == "/with space"


V4 = 'clientid: 0x1\naddress: "10.0.0.8:847"\nname: "Linux NFSv4.2 node08"\n'


def test_exports_say_who_has_them_mounted(tmp_path):
    machine = hardware.with_data()
    machine.files["etc/exports"] = "/srv/share 10.0.0.0/24(rw)\n/data 10.0.0.0/24(rw)\n/srv/idle 192.168.7.1(ro)\n"
    machine.files["var/lib/nfs/rmtab"] = "10.0.0.7:/srv/share:0x00000001\n10.0.0.9:/srv/other:0x00000001\n"
    machine.files["proc/fs/nfsd/clients/1/info"] = V4
    section = machine.read(tmp_path)
    assert [(one["path"], one["on_root_disk"], one["users"]) for one in section["exports"]] == [
        ("/srv/share", True, ["10.0.0.7", "10.0.0.8"]),
        ("/data", False, ["10.0.0.8"]),
        ("/srv/idle", True, []),
    ]


def test_mdadm_lines_are_kept(tmp_path):
    machine = hardware.mirror()
    machine.files["etc/mdadm/mdadm.conf"] = f"HOMEHOST <system>\nARRAY /dev/md/root UUID={nodes.MDADM}\n"
    assert machine.read(tmp_path)["arrays"] == [f"ARRAY /dev/md/root UUID={nodes.MDADM}"]


def test_the_node_is_asked_by_programs_with_a_deadline():
    assert disks._call(["no-such-program-here"])[0] == 127  # noqa: SLF001
    assert disks._call(["sh", "-c", "echo out; echo err >&2; exit 3"]) == (3, "out\n", "err\n")  # noqa: SLF001
