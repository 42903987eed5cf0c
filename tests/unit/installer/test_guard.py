"""The guard in a distribution's installer: it goes on with the planned disk alone, or switches the machine off."""

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.installer import scripts

from unit.installer import answers

OTHER = {"kind": "serial", "value": "OTHER", "size": 9_000_000_000_000, "holds": []}


@pytest.fixture
def machine(tmp_path):
    """Return a machine whose disk with data is larger, and comes first."""
    made = answers.Machine(tmp_path)
    made.disk("sda", answers.DATA)
    made.disk("sdb")
    return made


def guard(machine, /, installer="preseed", **changes):
    script = scripts.members(answers.plan(**changes), {}, installer, "/gpulab")[scripts.GUARD].content.decode()
    return machine.run(script)


def refused(machine, /, **changes):
    """Run the guard, which has to refuse; return what it said."""
    before = machine.disks()
    status, said, log = guard(machine, **changes)
    assert status != 0
    assert machine.is_off()
    assert machine.disks() == before
    assert "debconf-set" not in log
    assert "Nothing was written" in said
    return said


def test_it_goes_on_with_the_planned_disk_alone(machine):
    status, said, log = guard(machine)
    assert status == 0, said
    assert machine.disks() == ["sdb"]
    assert "debconf-set partman-auto/disk /dev/sdb\ndebconf-set grub-installer/bootdev /dev/sdb\n" in log
    assert not machine.is_off()


@pytest.mark.parametrize("way", ["delete", "remove", "nvme"])
def test_every_kind_of_disk_leaves_the_kernel(tmp_path, way):
    machine = answers.Machine(tmp_path)
    machine.disk("nvme1n1" if way == "nvme" else "vda", answers.DATA, way=way)
    machine.disk("sdb")
    machine.disk("sdc", OTHER)
    assert guard(machine)[0] == 0
    assert machine.disks() == ["sdb"]


def test_another_machine(machine):
    assert "this is another machine" in refused(machine, machine={"dmi_uuid": "00000000-1111-2222-3333-444444444444"})


def test_other_firmware(machine):
    assert "it was started by uefi, planned is bios" in refused(machine, firmware="bios")


def test_no_such_disk(machine):
    said = refused(machine, disk={**answers.SYSTEM, "value": "S5GX"})  # a part of a serial number is another one
    assert "0 disks have the serial S5GX" in said


def test_two_such_disks(machine):
    machine.disk("sdc")
    assert "2 disks have the serial" in refused(machine)


def test_another_size(machine):
    said = refused(machine, disk={**answers.SYSTEM, "size": 256_000_000_000})
    assert "has 512000000000 bytes, planned is 256000000000" in said


def test_a_disk_that_holds_nothing_of_the_capture(tmp_path):
    machine = answers.Machine(tmp_path)
    machine.disk("sda", answers.DATA)
    machine.disk("sdb", holds=["ffff-ffff"])
    assert "holds nothing of what it held" in refused(machine)


def test_swapped_serial_numbers(tmp_path):
    """Disks whose adapters were swapped: the planned name is on the disk with the data."""
    machine = answers.Machine(tmp_path)
    machine.disk("sda", answers.SYSTEM, holds=[answers.DATA_FS, answers.TABLE])
    machine.disk("sdb", answers.DATA)
    assert "holds what was on a disk that is kept" in refused(machine)


@pytest.mark.parametrize(
    "kept",
    [
        {**answers.DATA, "value": "0x5000"},
        {**answers.DATA, "size": 1_000_000_000_000},
        {**answers.DATA, "holds": ["ffff"]},
        {"kind": None, "value": None, "size": 4_000_000_000_000, "holds": ["ffff"]},
        {"kind": None, "value": None, "size": 1_000_000_000_000, "holds": [answers.DATA_FS]},
    ],
    ids=["name", "size", "holds", "nameless-holds", "nameless-size"],
)
def test_a_kept_disk_is_missing(machine, kept):
    assert "a disk that is kept is missing" in refused(machine, kept=[answers.DATA, kept])


def test_a_kept_disk_without_a_name(machine):
    assert guard(machine, kept=[{**answers.DATA, "kind": None, "value": None}])[0] == 0


def test_the_planned_disk_is_mounted(machine):
    machine.mount("sdb1")
    assert "is mounted" in refused(machine)


def test_the_medium_stays(machine):
    machine.disk("sdc", OTHER)
    machine.mount("sdc1")
    assert guard(machine)[0] == 0
    assert machine.disks() == ["sdb", "sdc"]


def test_a_disk_that_cannot_leave(machine):
    machine.disk("mmcblk0", OTHER, way="none")
    before, said = machine.disks(), guard(machine)[1]
    assert "mmcblk0 cannot be taken out" in said
    assert machine.is_off()
    assert "sdb" in before


def test_a_disk_that_does_not_leave(machine):
    machine.disk("sdc", OTHER)
    (machine.root / "leaving/sdc/way").unlink()
    _status, said, log = guard(machine)
    assert "sdc does not leave the kernel" in said
    assert "debconf-set" not in log
    assert machine.is_off()


def test_a_disk_that_leaves_only_with_the_planned_one(machine):
    """Two namespaces of one NVMe drive."""
    machine.disk("nvme0n1", {**answers.SYSTEM, "value": "ONE"}, way="nvme")
    machine.disk("nvme0n2", OTHER, way="none")
    second = machine.root / "sys/block/nvme0n2/device"
    second.unlink()
    second.symlink_to((machine.root / "sys/block/nvme0n1/device").resolve())
    _status, said, log = guard(machine, disk={**answers.SYSTEM, "value": "ONE"})
    assert "nvme0n2 cannot be taken out of the kernel without the planned disk" in said
    assert "debconf-set" not in log
    assert machine.is_off()


def test_swap_and_volume_groups_are_let_go_before_their_disks(machine):
    _status, _said, log = guard(machine)
    assert log.splitlines()[:3] == ["swapoff -a", "vgchange -an", "sleep 1"]  # the disk leaves while it sleeps


def test_an_array_that_nobody_uses_is_stopped(machine):
    state = machine.root / "sys/block/md127/md/array_state"
    state.parent.mkdir(parents=True)
    state.write_text("clean\n")
    assert guard(machine)[0] == 0
    assert state.read_text() == "inactive\n"


def test_an_array_at_work(machine):
    (machine.root / "sys/block/md127/slaves/sda").mkdir(parents=True)
    assert "md127 is at work" in refused(machine)


def test_ubuntu_gets_the_name_that_its_installer_matches(tmp_path):
    machine = answers.Machine(tmp_path)
    machine.disk("sda", answers.DATA)
    machine.disk("sdb", ID_SERIAL="Odd/[x]&*_S5GXNX0T1")
    assert guard(machine, installer="autoinstall")[0] == 0
    assert (machine.root / "autoinstall.yaml").read_text() == '"serial": "Odd??x???_S5GXNX0T1"\n'


def test_ubuntu_without_that_name(tmp_path):
    machine = answers.Machine(tmp_path)
    machine.disk("sda", answers.DATA)
    machine.disk("sdb", ID_SERIAL="")
    assert "udev knows no ID_SERIAL" in guard(machine, installer="autoinstall")[1]
    assert machine.is_off()
    assert "gpulab-planned-disk" in (machine.root / "autoinstall.yaml").read_text()


def test_rhel_gets_a_name_of_udev(machine):
    assert guard(machine, installer="kickstart")[0] == 0
    written = (machine.root / "tmp/gpulab-storage.ks").read_text()
    assert written == "clearpart --drives=/dev/disk/by-id/ata-sdb-S5GXNX0T1\n"


def test_rhel_without_a_name_of_udev(machine):
    for link in (machine.root / "dev/disk/by-id").iterdir():
        link.unlink()
    assert "has no name in /dev/disk/by-id" in guard(machine, installer="kickstart")[1]
    assert machine.is_off()
    assert not (machine.root / "tmp/gpulab-storage.ks").exists()


def test_values_are_quoted(machine):
    said = refused(machine, disk={**answers.SYSTEM, "value": "a'; touch $GPULAB_ROOT/broken; '"})
    assert "0 disks have the serial a'; touch" in said
    assert not (machine.root / "broken").exists()
