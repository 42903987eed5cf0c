"""Which places of a device are read before it counts as blank: whatever is left on one must be met there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.storage import blank, host

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
ZEROED = 100 * MIB  # at the start of a disk: what somebody who "cleared" it took away


def image(path, size, *pieces):
    """Make a sparse file of this size, with bytes at these places."""
    with path.open("wb") as file:
        file.truncate(size)
        for place, data in pieces:
            file.seek(place)
            file.write(data)
    return str(path)


def found(path, **more):
    return blank.look(path, **more).found


# Raw data


@pytest.mark.parametrize(("size", "data"), [(500 * GIB, GIB), (8 * TIB, 30 * GIB)])
@pytest.mark.parametrize("share", [0.11, 0.37, 0.93])
def test_data_between_the_ends_is_met_wherever_it_lies(size, data, share):
    """A file of that size takes too much room here: the places that are read tell."""
    start = int(size * share) + 12345
    assert any(start < place + length and place < start + data for place, length in blank.stretches(size))


def test_a_piece_of_twice_the_distance_between_samples_is_met_for_certain():
    size = 8 * TIB
    read = blank.stretches(size)
    gaps = [after[0] - before[0] - before[1] for before, after in zip(read, read[1:])]
    assert max(gaps) < 2 * size // blank.SAMPLES
    assert len(read) >= 65_000


def test_the_places_are_others_each_time_and_in_order():
    one, other = blank.stretches(TIB), blank.stretches(TIB)
    assert one != other
    assert one == sorted(one)
    assert all(place % blank.SAMPLE == 0 and length > 0 and place + length <= TIB for place, length in one)


@pytest.mark.parametrize("size", [4096, MIB, 512 * 12345, blank.WHOLE])
def test_a_small_disk_is_read_whole(tmp_path, size):
    if size == blank.WHOLE:
        assert sum(length for _place, length in blank.stretches(size)) == size
        assert sum(length for _place, length in blank.stretches(size + MIB)) < size
    else:
        assert blank.look(image(tmp_path / "disk", size)) == blank.Look((), size)
        assert "unknown data" in found(image(tmp_path / "disk", size, (size - 1, b"\1")))[0]


def test_a_large_disk_says_how_much_of_it_was_read(tmp_path):
    look = blank.look(image(tmp_path / "disk", 40 * GIB))
    assert look.found == ()
    assert blank.SAMPLES * blank.SAMPLE < look.read < 2 * GIB


def test_one_that_shall_be_read_whole_is(tmp_path):
    path = image(tmp_path / "disk", 48 * MIB, (30 * MIB + 5, b"\1"))
    assert "unknown data near byte 31457285" in found(path, whole=48 * MIB)[0]


def test_what_takes_too_long_is_not_blank(tmp_path):
    told = found(image(tmp_path / "disk", 40 * MIB), seconds=0)
    assert "could be read within" in told[0]


# What keeps a second copy of its beginning: offsets as their programs write them


def ext4(block):
    """Return where the first backup of ext4's superblock lies."""
    return block * 8 * block + (1024 if block == 1024 else 0)


COPIES = {
    "ext4, 4 KiB": ext4(4096),
    "ext4, 4 KiB, second": 3 * 32768 * 4096,
    "ext4, 4 KiB, 49th": 49 * 32768 * 4096,
    "ext4, 4 KiB, last group (sparse_super2)": (TIB // 4096 - 1) // 32768 * 32768 * 4096,
    "ext4, 2 KiB": 27 * ext4(2048),
    "ext4, 1 KiB": 25 * 8 * MIB + KIB,
    "ext4, 64 KiB": 32 * GIB,
    "ext4 in a partition at 1 MiB": 128 * MIB + MIB,
    "ext4 in a partition at sector 63": 128 * MIB + 63 * 512,
    "Btrfs, second": 256 * GIB + 64,
    "OCFS2, second": 4 * GIB,
    "BlueStore": 100 * GIB,
    "NTFS, its table": 3 * GIB,
    "GPT's backup": TIB - 512,
    "GPT's entries": TIB - 33 * 512,
    "md 0.90": (TIB & ~(64 * KIB - 1)) - 64 * KIB,
    "md 1.0": (TIB - 8 * KIB) & ~(4 * KIB - 1),
    "ZFS, third label": TIB - 512 * KIB + 16 * KIB,
    "ZFS, fourth label": TIB - 256 * KIB + 128 * KIB,
    "NTFS, backup of the boot sector": TIB - 512,
    "IMSM": TIB - 1024,
    "DDF": TIB - 512,
    "DRBD": TIB - 4096 + 60,
    "NILFS": (TIB // 4096 - 1) * 4096,
    "HFS+": TIB - 1024,
    "LVM, second area": TIB - MIB,
}


@pytest.mark.parametrize("copy", COPIES)
def test_a_second_copy_is_looked_for_where_its_program_puts_it(copy):
    at = COPIES[copy]
    assert any(start <= at < start + length for start, length, _what in blank.places(TIB))


@pytest.mark.parametrize("groups", [4, 8, 16, 32])
@pytest.mark.parametrize("offset", [0, MIB])
def test_a_group_of_xfs_is_looked_for_where_mkfs_puts_it(groups, offset):
    """The size is one of a disk that is sold, and no multiple of anything."""
    size = 1_920_383_410_176
    length = -(-((size - 2 * offset) // 4096) // groups) * 4096
    assert any(start <= offset + length < start + long for start, long, what in blank.places(size) if what == "XFS")


def test_a_group_of_xfs_has_at_most_a_tib():
    size = 7_681_501_126_656
    assert any(start <= 268435455 * 4096 * 3 < start + long for start, long, _what in blank.places(size))


def test_a_disk_that_somebody_holds_is_not_blank(tmp_path):
    done = subprocess.run(
        ["losetup", "--find", "--show", image(tmp_path / "disk", MIB)], capture_output=True, text=True, check=False
    )
    loop = done.stdout.strip()
    if done.returncode:
        pytest.skip("no loop device")
    try:
        holder = os.open(loop, os.O_RDONLY | os.O_EXCL)
        assert "cannot be opened exclusively" in found(loop)[0]
        os.close(holder)
        assert found(loop) == ()
    finally:
        subprocess.run(["losetup", "--detach", loop], check=True)


EXT4 = ([], ["-b", "1024"], ["-b", "2048"], ["-O", "^sparse_super,^resize_inode"])


def test_the_first_mib_are_read_whole():
    """Here are LUKS2's second header, the first copy of Btrfs, swap, bcache, VMFS, exFAT and F2FS."""
    assert next(blank.places(TIB))[:2] == (0, blank.ENDS)
    assert blank.ENDS >= 64 * MIB


@pytest.mark.parametrize(
    ("size", "offset", "options"),
    [
        *((512 * MIB, offset, options) for offset in (0, MIB) for options in EXT4),
        (18 * GIB, 0, []),
        (500 * GIB, MIB, []),
    ],
    ids=str,
)
def test_an_ext4_whose_start_is_gone_is_not_blank(tmp_path, size, offset, options):
    """Read is only what a glance reads: the places alone tell."""
    path = tmp_path / "disk"
    blank_image = image(path, size)
    subprocess.run(
        ["mkfs.ext4", "-q", "-F", "-E", f"offset={offset},lazy_itable_init=1", *options, blank_image,
         f"{(size - offset) // KIB}k"],
        check=True, timeout=120,
    )  # fmt: skip
    with path.open("r+b") as file:
        file.write(bytes(ZEROED))
    assert "unknown data" in found(str(path), whole=0, samples=0)[0]


SIGNATURES = Path(__file__).parents[2] / "stubs/disk_signatures.py"


# The device itself


def test_it_must_be_the_device_that_is_meant():
    loop = subprocess.run(["losetup", "--find"], capture_output=True, text=True, check=False).stdout.strip()
    if not loop or not Path(loop).exists():
        pytest.skip("no loop device")
    assert "another device" in found(loop, number="259:99")[0]


def test_a_file_is_no_device(tmp_path):
    assert "another device" in found(image(tmp_path / "disk", MIB), number="259:99")[0]


def test_what_is_missing_is_not_blank(tmp_path):
    assert "cannot be opened" in found(str(tmp_path / "none"))[0]


def test_what_cannot_be_read_is_not_blank(tmp_path, monkeypatch):
    def broken(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "preadv", broken)
    assert found(image(tmp_path / "disk", MIB)) == ("unknown data: it cannot be read: Input/output error",)


def test_a_read_that_ends_early_is_not_blank(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "preadv", lambda *_: 0)
    assert "unknown data" in found(image(tmp_path / "disk", MIB))[0]


def test_a_disk_without_the_cache_of_the_kernel(tmp_path, monkeypatch):
    """Where a file system cannot read past the cache, what was read is dropped from it."""
    opened, given = os.open, []

    def refusing(path, flags, *more):
        if flags & os.O_DIRECT:
            raise OSError(22, "Invalid argument")
        return opened(path, flags, *more)

    monkeypatch.setattr(os, "open", refusing)
    monkeypatch.setattr(os, "posix_fadvise", lambda *args: given.append(args[3]))
    assert found(image(tmp_path / "disk", MIB)) == ()
    assert {os.POSIX_FADV_RANDOM, os.POSIX_FADV_DONTNEED} <= set(given)


def test_a_closer_look_reads_several_disks(tmp_path):
    def call(argv):
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout, done.stderr

    paths = [image(tmp_path / "a", MIB), image(tmp_path / "b", MIB, (5000, b"\1")), image(tmp_path / "c", 9 * MIB)]
    subprocess.run([sys.executable, SIGNATURES, "volume_group", paths[2]], check=True, timeout=60)
    looks = host.Reader(Node(), call).closer(paths)
    assert looks[paths[0]] == blank.Look((), MIB)
    assert "unknown data near byte 5000" in looks[paths[1]].found[0]
    assert "LVM2_member" in looks[paths[2]].found[0]
