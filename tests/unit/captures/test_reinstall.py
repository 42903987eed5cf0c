"""What a reinstall keeps and wipes, and what stands in its way, in the layouts of real labs."""

import json

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import manifest as manifests
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import reinstall

from unit.capture import hardware
from unit.captures import captured
from unit.storage import nodes

HOME = {"path": "/home/wei", "files": 3, "bytes": 2_500_000_000, "owner": "wei", "why": ""}
WEI = {"name": "wei", "home": "/home/wei", "home_on_root_disk": True}
VOLUME = {"name": "grafana", "mountpoint": "/var/lib/docker/volumes/grafana/_data", "on_root_disk": True}


def manifest(section, sections=None, **more):
    """Return the manifest of a node with these disks, as it is after it was written and read."""
    keys = dict.fromkeys(more.pop("keys", ()), b"key")
    whole = captured.manifest({}, keys, sections={"disks": section, **(sections or {})}, **more)
    return manifests.typed(json.loads(json.dumps(whole)))


@pytest.fixture
def plan(tmp_path):
    """Return a function that reads a machine and plans its reinstall."""

    def planned(machine, sections=None, **more):
        return reinstall.plan(manifest(machine.read(tmp_path), sections, **more))

    return planned


def codes(plan):
    """Return the codes of the blockers."""
    return [one.code for one in plan.blockers]


# What is wiped and what stays


def test_a_machine_with_one_disk_is_wiped_by_its_serial_number(plan):
    found = plan(hardware.plain())
    assert found.disk == ("serial", hardware.ROOT_SERIAL)
    assert codes(found) == []
    (line,) = found.lines()
    assert line.startswith(
        f"WIPE serial {hardware.ROOT_SERIAL} (SAMSUNG MZQL2, nvme, 2 TB): vfat ABCD-1234 at /boot/efi"
    )
    assert f"ext4 {nodes.ROOT} at /" in line


def test_a_disk_with_data_stays_and_is_described_by_what_is_on_it(tmp_path):
    machine = hardware.with_data()
    section = machine.read(tmp_path / "node")
    for one in section["filesystems"]:
        one["used"] = 1_230_000_000_000 if one["mount"] == "/data" else 7_000_000_000
    found = reinstall.plan(manifest(section))
    assert found.keep == (
        f"serial {hardware.DATA_SERIAL} (SAMSUNG MZQL2, nvme, 2 TB): ext4 datasets at /data, 1.23 TB used",
    )
    assert [line.split()[0] for line in found.lines()] == ["WIPE", "KEEP"]
    assert codes(found) == []


def test_an_encrypted_disk_stays_and_is_called_so(plan):
    found = plan(hardware.encrypted())
    assert "ext4 datasets at /data (encrypted)" in found.keep[0]
    assert codes(found) == []


def test_a_locked_disk_stays_and_is_called_encrypted(plan):
    machine = hardware.plain()
    machine.data(holds=nodes.LUKS, number="259:11")
    assert "crypto_LUKS" in plan(machine).keep[0]


def test_swap_of_another_disk_stays(plan):
    machine = hardware.plain()
    machine.data(holds=nodes.SWAP, number="259:11")
    machine.swaps += "/dev/nvme1n1 partition 1 0 -2\n"
    found = plan(machine)
    assert "swap" in found.keep[0]
    assert "in use" in found.keep[0]
    assert codes(found) == []


def test_an_empty_disk_and_one_that_cannot_be_read_stay(plan):
    machine = hardware.plain()
    machine.data(number="259:11")
    machine.data("nvme2n1", "S7KGNX0W100002", number="259:21", wwn="eui.2")
    machine.blkid["/dev/nvme2n1"] = (8, "", "")
    found = plan(machine)
    assert found.keep[0].endswith("nothing that is known")
    assert "several signatures" in found.keep[1]


def test_an_array_of_disks_with_data_stays_whole(plan):
    machine = hardware.plain()
    disks = [machine.data(number="259:11", holds=nodes.RAID, uuid=nodes.ARRAY)]
    disks += [
        machine.data("nvme2n1", "S7KGNX0W100002", number="259:21", holds=nodes.RAID, uuid=nodes.ARRAY, wwn="eui.2")
    ]
    machine.made_of(disks, "md127", "raid0", "9:127", holds=hardware.EXT4_DATASETS)
    found = plan(machine)
    assert [f"part of array {nodes.MDADM}" in line for line in found.keep] == [True, True]
    assert codes(found) == []


def test_subvolumes_of_the_root_disk_go_with_it(plan):
    found = plan(hardware.subvolumes())
    assert "at /, /home, /srv/wei" in found.wipe[0]
    assert codes(found) == []


# Which disk


def test_a_shared_serial_number_gives_way_to_the_wwn(plan):
    """As of two namespaces of one NVMe drive."""
    machine = hardware.plain()
    machine.data(serial=hardware.ROOT_SERIAL, number="259:11")
    found = plan(machine)
    assert found.disk == ("wwn", hardware.ROOT_WWN)
    assert codes(found) == []
    assert [line.split()[:2] for line in (*found.wipe, *found.keep)] == [
        ["WWN", hardware.ROOT_WWN],
        ["WWN", hardware.DATA_WWN],
    ]


def test_a_shared_serial_number_without_a_wwn_is_refused(plan):
    machine = hardware.plain()
    machine.system["wwn"] = None
    machine.data(serial=hardware.ROOT_SERIAL, number="259:11", wwn=None)
    found = plan(machine)
    assert (found.disk, codes(found)) == (None, ["R004"])
    assert hardware.ROOT_SERIAL in found.blockers[0].cause


@pytest.mark.parametrize("serial", [None, "000000000000", "0x0000"])
def test_a_root_disk_without_a_name_of_its_own_is_refused(plan, serial):
    machine = hardware.plain()
    machine.system.update(serial=serial, wwn=None)
    found = plan(machine)
    assert (found.disk, codes(found)) == (None, ["R004"])
    assert "without a name" in found.wipe[0]


def test_a_disk_for_data_without_a_serial_number_is_no_obstacle(plan):
    machine = hardware.plain()
    machine.data(serial=None, number="259:11")
    assert codes(plan(machine)) == []


def test_a_mirror_is_refused_for_nobody_knows_which_half_to_install_on(plan):
    found = plan(hardware.mirror())
    assert (found.disk, codes(found)) == (None, ["R004"])
    assert len(found.wipe) == 2
    assert found.keep == ()


def test_a_container_has_nothing_to_reinstall(plan):
    found = plan(hardware.container())
    assert (found.disk, codes(found), found.lines()) == (None, ["R004"], [])
    assert "docker" in found.blockers[0].cause


def test_a_root_that_is_on_no_disk_is_refused(plan):
    """As of a node that runs from the network."""
    machine = hardware.plain()
    machine.mountinfo = "22 1 0:31 / / rw - nfs4 server:/nodes/7 rw\n"
    found = plan(machine)
    assert codes(found) == ["R004"]
    assert "server:/nodes/7" in found.blockers[0].cause


# What spans disks


def test_a_volume_group_over_both_is_refused_and_both_are_named(plan):
    found = plan(hardware.volume_group())
    assert codes(found) == ["R005"]
    for word in ("volume group lab", hardware.ROOT_SERIAL, hardware.DATA_SERIAL):
        assert word in found.blockers[0].cause


def test_a_pool_with_a_part_on_the_root_disk_is_refused(plan):
    machine = hardware.plain()
    machine.part(machine.system, "nvme0n1p3", "259:3", nodes.ZFS)
    machine.data(holds=nodes.ZFS, number="259:11")
    assert codes(plan(machine.mounted("0:70", "/tank", "tank", "zfs"))) == ["R005"]


# Homes and volumes


def test_a_home_on_the_root_disk_that_nothing_brings_back_is_refused(plan):
    found = plan(hardware.plain(), {"users": [WEI]}, remainder=[HOME])
    assert codes(found) == ["R014"]
    assert "/home/wei" in found.blockers[0].cause
    assert "3 files (2.5 GB)" in found.blockers[0].cause


@pytest.mark.parametrize("path", ["/", "/home", "/home/wei/code"])
def test_a_home_is_refused_for_what_is_left_over_above_or_below_it(plan, path):
    assert codes(plan(hardware.plain(), {"users": [WEI]}, remainder=[{**HOME, "path": path}])) == ["R014"]


@pytest.mark.parametrize("path", ["/home/weiss", "/opt/matlab"])
def test_what_is_left_over_elsewhere_is_not_the_homes(plan, path):
    assert codes(plan(hardware.plain(), {"users": [WEI]}, remainder=[{**HOME, "path": path}])) == ["R002"]


def test_a_home_with_a_receipt_is_no_obstacle(plan):
    """The walk put its files into the bin of receipts, so that nothing of it is left over."""
    assert codes(plan(hardware.plain(), {"users": [WEI]}, receipts=[{"path": "/home/wei"}])) == []


def test_a_home_on_another_disk_is_no_obstacle(plan):
    users = [{**WEI, "home_on_root_disk": False}]
    assert codes(plan(hardware.with_data(), {"users": users}, remainder=[HOME])) == ["R002"]


def test_accounts_whose_home_is_the_root_do_not_claim_all_that_is_left_over(plan):
    users = [{"name": "daemon", "home": "/", "home_on_root_disk": True}]
    assert codes(plan(hardware.plain(), {"users": users}, remainder=[{**HOME, "path": "/opt/matlab"}])) == ["R002"]


@pytest.mark.parametrize("on_root_disk", [True, False])
def test_volumes_on_the_root_disk_that_nothing_brings_back_are_refused(plan, on_root_disk):
    engines = [{"program": "docker", "volumes": [{**VOLUME, "on_root_disk": on_root_disk}]}]
    rest = [{**HOME, "path": VOLUME["mountpoint"]}]
    found = plan(hardware.plain(), {"containers": {"engines": engines}}, remainder=rest)
    assert codes(found) == ["R014" if on_root_disk else "R002"]


# What the node boots from


def test_an_esp_on_a_disk_with_data_is_refused(plan):
    machine = hardware.plain()
    data = machine.data(holds=nodes.GPT, number="259:11")
    machine.part(data, "nvme1n1p1", "259:12", hardware.VFAT + hardware.PART.format(kind=hardware.ESP_TYPE), "9-9")
    machine.mountinfo = machine.mountinfo.replace("259:1 / /boot/efi", "259:12 / /boot/efi").replace("0n1p1", "1n1p1")
    found = plan(machine)
    assert codes(found) == ["R015"]
    assert "/boot/efi" in found.blockers[0].cause
    assert "/dev/nvme1n1" in found.blockers[0].cause


def test_boot_on_a_disk_with_data_is_refused(plan):
    machine = hardware.with_data().mounted("259:11", "/boot", "/dev/nvme1n1")
    assert codes(plan(machine)) == ["R015"]


def esp_elsewhere(*, own):
    """Return a machine with an ESP on the disk for data that nothing names."""
    machine = hardware.plain()
    machine.directories.append("sys/firmware/efi")
    machine.files["etc/fstab"] = ""
    machine.mountinfo = machine.mountinfo.replace("/boot/efi", "/elsewhere")
    if not own:
        machine.holds("nvme0n1p1", hardware.VFAT, "ABCD-1234")
    data = machine.data(holds=nodes.GPT, number="259:11")
    machine.part(data, "nvme1n1p1", "259:12", hardware.VFAT + hardware.PART.format(kind=hardware.ESP_TYPE), "9-9")
    return machine


def test_the_only_esp_on_a_disk_with_data_is_refused_though_nothing_names_it(plan):
    assert codes(plan(esp_elsewhere(own=False))) == ["R015"]


def test_the_esp_of_another_system_is_no_obstacle(plan):
    assert codes(plan(esp_elsewhere(own=True))) == []


def test_boot_on_the_root_disk_is_no_esp(plan):
    machine = esp_elsewhere(own=False).mounted("259:1", "/boot", "/dev/nvme0n1p1")
    assert codes(plan(machine)) == ["R015"]


def test_an_esp_is_known_by_where_it_is_mounted_whatever_its_type(plan):
    machine = esp_elsewhere(own=False).mounted("259:1", "/boot/efi", "/dev/nvme0n1p1")
    assert codes(plan(machine)) == []


def test_an_esp_is_of_no_concern_where_the_node_boots_without_uefi(plan):
    machine = esp_elsewhere(own=False)
    machine.directories.clear()
    assert codes(plan(machine)) == []


# Exports


@pytest.mark.parametrize(
    ("path", "clients", "expected"),
    [
        ("/srv/share", "10.0.0.7:/srv/share:0x1\n", ["R016"]),
        ("/srv/share", "", []),
        ("/data", "10.0.0.7:/data:0x1\n", []),
    ],
    ids=["mounted", "mounted by nobody", "on another disk"],
)
def test_an_export_of_the_root_disk_is_refused_while_others_have_it_mounted(plan, path, clients, expected):
    machine = hardware.with_data()
    machine.files["etc/exports"] = f"{path} 10.0.0.0/24(rw)\n"
    machine.files["var/lib/nfs/rmtab"] = clients
    found = plan(machine)
    assert codes(found) == expected
    assert all("10.0.0.7" in one.cause for one in found.blockers)


# What no capture has seen


def windows():
    """Return a machine with another system on its root disk."""
    machine = hardware.plain()
    machine.part(machine.system, "nvme0n1p3", "259:3", hardware.NTFS)
    return machine


def test_another_system_on_the_root_disk_is_refused(plan):
    found = plan(windows())
    assert codes(found) == ["R021"]
    assert "/dev/nvme0n1p3" in found.blockers[0].cause
    assert "ntfs, Windows, 2 TB" in found.blockers[0].cause


def test_another_system_that_may_be_lost_is_no_obstacle(plan):
    assert codes(plan(windows(), acknowledged=[{"path": "/dev/nvme0n1p3", "reason": "unused"}])) == []


def test_what_is_left_over_is_counted_once_and_named(plan):
    others = [{**HOME, "path": f"/opt/{number}", "files": 2, "bytes": 500} for number in range(5)]
    home, rest = plan(hardware.plain(), {"users": [WEI]}, remainder=[HOME, *others]).blockers
    assert (home.code, rest.code) == ("R014", "R002")
    assert "would lose 10 files, 2.5 kB: /opt/0, /opt/1, /opt/2 and 2 more." in rest.cause


def test_blockers_stand_together(plan):
    machine = hardware.volume_group()
    machine.system.update(serial=None, wwn=None)
    assert codes(plan(machine, {"users": [WEI]}, remainder=[HOME])) == ["R004", "R005", "R014"]


def test_an_encryption_that_the_new_system_would_not_have_is_refused_with_the_keys_that_need_it(tmp_path):
    section = hardware.encrypted_root().read(tmp_path)
    (found,) = reinstall.plan(manifest(section, keys=["/root/data.key", "/etc/keys/root.key"])).blockers
    assert found.code == "R080"
    assert "system disk (/)" in found.cause
    assert found.cause.endswith("keys of other disks would lie there in the clear: /root/data.key.")
    assert codes(reinstall.plan(manifest(section), [reinstall.UNENCRYPTED])) == []


def test_encrypted_swap_alone_is_no_encrypted_system(tmp_path):
    machine = hardware.plain()
    part = machine.part(machine.system, "nvme0n1p3", "259:3")
    machine.made_of([part], "dm-0", "crypt", "252:0", holds=nodes.SWAP)
    machine.swaps += "/dev/dm-0 partition 1 0 -2\n"
    assert reinstall.encrypted(machine.disks(tmp_path)) == []
