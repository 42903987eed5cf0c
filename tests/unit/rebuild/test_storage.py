"""What comes back of fstab, crypttab and mdadm.conf: nothing of the former system disk, all of the other disks."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core import fstab
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import storage

from unit.capture import hardware
from unit.storage import nodes

NOW = "UUID=new-root / ext4 errors=remount-ro 0 1\nUUID=new-esp /boot/efi vfat umask=0077 0 1\n"
TIER = "UUID=aaaa /mnt/scratch ext4 noatime,nofail 0 2"


@pytest.fixture
def section(tmp_path):
    """Return the disks of a machine with a volume group, LUKS and a mirror on disks of their own."""
    machine = hardware.with_data()
    other = machine.data("nvme2n1", "S7KGNX0W100002", number="259:21", wwn="eui.2")
    machine.part(other, "nvme2n1p1", "259:22", nodes.XFS, nodes.OTHER)
    array = machine.data("nvme3n1", "S7KGNX0W100003", number="259:31", wwn="eui.3", holds=nodes.RAID, uuid=nodes.ARRAY)
    machine.made_of([array], "md0", "raid1", "9:0", holds=nodes.EXT4, uuid="eeee-0001")
    machine.part(machine.system, "nvme0n1p3", "259:3", nodes.SWAP)
    return machine.disks(tmp_path)


@pytest.mark.parametrize(
    ("line", "comes"),
    [
        (f"UUID={nodes.DATA} /data ext4 noatime,nofail 0 2", ...),
        ("LABEL=datasets /data ext4 noatime 0 2", ...),
        ("nas:/home /home nfs4 _netdev,hard 0 0", ...),
        ("//nas/lab /lab cifs credentials=/etc/lab 0 0", ...),
        ("/data/apt /var/cache/apt none bind 0 0", ...),
        ("/opt/tools /srv/tools none bind 0 0", ...),
        ("tmpfs /tmp tmpfs size=2g 0 0", ...),
        ("UUID=not-seen /usb ext4 noauto 0 0", ...),
        ("/dev/nvme2n1p1 /old xfs defaults 0 2", f"UUID={nodes.OTHER} /old xfs defaults 0 2"),
        ("/dev/md0 /array ext4 defaults 0 2", "UUID=eeee-0001 /array ext4 defaults 0 2"),
        ("/dev/sdz9 /lost ext4 defaults 0 2", None),
        (f"UUID={nodes.ROOT} / ext4 defaults 0 1", None),
        (f"UUID={nodes.ROOT} /second ext4 defaults 0 1", None),
        ("UUID=ABCD-1234 /boot/efi vfat umask=77 0 1", None),
        ("/dev/nvme0n1p3 none swap sw 0 0", None),
        ("/swapfile none swap sw 0 0", None),
        (f"UUID={nodes.OTHER} none swap sw 0 0", ...),
    ],
)
def test_lines_come_back_by_what_they_name(section, line, comes):
    found = storage.wanted(f"# as before\n{line}\n", section, NOW)
    assert list(map(str, found.lines)) == ([] if comes is None else [line if comes is ... else comes])


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("/dev/sdz9 /lost ext4 defaults 0 2", "does not know"),
        (f"UUID={nodes.ROOT} /second ext4 defaults 0 1", "was on the system disk"),
        ("/dev/nvme0n1p3 none swap sw 0 0", "not made again"),
        ("/swapfile none swap sw 0 0", "not made again"),
    ],
)
def test_what_does_not_come_back_is_named(section, line, why):
    (found,) = storage.wanted(line, section, NOW).lacking
    assert why in found[1]


def test_a_place_of_the_new_system_stays_its_own(section):
    line = f"UUID={nodes.DATA} /srv ext4 defaults 0 2"
    found = storage.wanted(line, section, f"{NOW}UUID=other /srv ext4 defaults 0 2\n")
    assert (found.lines, [name for name, _why in found.lacking]) == ([], ["/srv"])


def merged(now, *lines, failing=(), settled=()):
    back = storage.Fstab(lines=fstab.parse("\n".join(lines)))
    return storage.merged(now, back, failing, settled)


DATA = "UUID=d /data ext4 noatime 0 2"


def test_lines_are_added_once_and_those_of_the_root_disk_stay():
    once = merged(NOW, DATA)
    assert once == f"{NOW}{DATA}\n"
    assert merged(once, DATA) == once


def test_what_does_not_mount_hinders_no_boot_and_is_as_before_when_it_does():
    waiting = merged(NOW, DATA, failing=["/data"])
    assert "UUID=d /data ext4 noatime,nofail 0 2" in waiting
    assert merged(waiting, DATA, failing=["/data"]) == waiting
    assert merged(waiting, DATA) == f"{NOW}{DATA}\n"


@pytest.mark.parametrize("now", [NOW, f"{NOW}{DATA.replace('noatime', 'noatime,nofail')}\n"])
def test_what_people_made_of_a_line_since_stays(now):
    assert merged(now, DATA, settled=["/data"]) == now


def test_options_that_somebody_chose_stay():
    now = f"{NOW}UUID=d /data ext4 ro 0 2\n"
    assert merged(now, DATA) == now


def test_the_tiers_of_gpulab_come_back_in_their_block(section):
    captured = storage.owned_block.merged(f"{DATA}\n", TIER, storage.OWNER)
    found = storage.wanted(captured, section, NOW)
    assert list(map(str, found.tiers)) == [TIER]
    text = storage.merged(NOW, found, [], [])
    assert storage.owned_block.inside(text, storage.OWNER) == TIER
    assert storage.merged(text, found, [], []) == text


def test_crypttab_keeps_what_was_on_other_disks(section):
    text = (
        "# keys\n"
        f"data UUID={nodes.OTHER} /etc/keys/data luks\n"
        "byname /dev/nvme2n1p1 none luks\n"
        f"root UUID={nodes.ROOT} none luks\n"
        "gone /dev/sdz1 none luks\n"
    )
    new, lines, lacking = storage.crypttab(text, section, "")
    kept = [f"data UUID={nodes.OTHER} /etc/keys/data luks", f"byname UUID={nodes.OTHER} none luks"]
    assert new.splitlines() == ["# keys", *kept]
    assert [" ".join(line) for line in lines] == kept
    assert [name for name, _why in lacking] == ["root", "gone"]


def test_the_lines_of_a_system_that_somebody_installed_encrypted_stay(section):
    text = f"# old\nroot UUID={nodes.ROOT} none luks\ndata UUID={nodes.OTHER} /etc/keys/data luks\n"
    now = "# new\nroot UUID=99 none luks,discard\ndata UUID=98 none luks\n"
    new, lines, lacking = storage.crypttab(text, section, now)
    kept = f"data UUID={nodes.OTHER} /etc/keys/data luks"
    assert new.splitlines() == ["# old", kept, "root UUID=99 none luks,discard"]
    assert ([" ".join(line) for line in lines], lacking) == ([kept], [])


def test_the_arrays_of_a_system_that_somebody_installed_on_some_stay(tmp_path):
    present = hardware.mirror().disks(tmp_path / "now")
    now = f"ARRAY /dev/md/root UUID={nodes.MDADM} name=new:root\nARRAY /dev/md/other UUID=1:2:3:4\n"
    plain = hardware.plain().disks(tmp_path / "before")
    assert storage.arrays("MAILADDR root\n", plain, now, present) == f"MAILADDR root\n{now.splitlines()[0]}\n"
    assert storage.arrays("MAILADDR root\n", plain, now, plain) == "MAILADDR root\n"


def test_arrays_keep_those_with_members_on_other_disks(section):
    text = f"MAILADDR root\nARRAY /dev/md0 metadata=1.2 UUID={nodes.MDADM}\nARRAY /dev/md9 UUID=0:0:0:0\n"
    kept = f"MAILADDR root\nARRAY /dev/md0 metadata=1.2 UUID={nodes.MDADM}\n"
    assert storage.arrays(text, section, "", section) == kept


@pytest.mark.parametrize("place", ["/var", "/usr", "/etc", "/var/lib/dpkg"])
def test_a_part_of_the_former_system_does_not_hide_that_of_the_new_one(section, place):
    found = storage.wanted(f"UUID={nodes.DATA} {place} ext4 defaults 0 2\n", section, NOW)
    assert found.lines == []
    assert [one for one, _why in found.lacking] == [place]
    assert "a part of the former system" in found.lacking[0][1]


def test_data_below_a_part_of_the_system_comes_back(section):
    found = storage.wanted(f"UUID={nodes.DATA} /var/lib/docker ext4 defaults 0 2\n", section, NOW)
    assert [line.place for line in found.lines] == ["/var/lib/docker"]


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("/dev/nvme2n1p1 /old", "UUID=8 /old auto defaults"),
        ("/dev/nvme2n1p1 /old xfs", "UUID=8 /old xfs defaults"),
        ("/dev/nvme2n1p1 /old xfs noatime", "UUID=8 /old xfs noatime"),
        ("/dev/nvme2n1p1 /old xfs noatime 0 2", "UUID=8 /old xfs noatime 0 2"),
    ],
)
def test_a_line_that_is_named_anew_has_the_fields_that_fstab_may_leave_out(line, written):
    assert str(fstab.Line(tuple(line.split())).with_(source="UUID=8")) == written
