"""Disks that fail or hang under a mounted tier, by the device mapper; what the proof and a run make of them."""

import json
import re

import pytest
from test_storage import RECIPE  # noqa: F401 - the same disk

SECONDS = 900  # emulated, a task takes ten times as long as on a node
PLACES = {"ext4": "/mnt/old", "xfs": "/mnt/new"}
UUIDS = {"ext4": "2f3c0a6b-7d0e-42f4-8d0c-9a551f2f3c0b", "xfs": "2f3c0a6b-7d0e-42f4-8d0c-9a551f2f3c0c"}
TIERS = [
    {"name": place[5:], "purpose": "datasets", "mount": place, "devices": [f"UUID={UUIDS[kind]}"]}
    for kind, place in PLACES.items()
]
# Tables that map a disk but for its first sectors, so that only the mapped one has a file system. The delay is in ms.
SIZE = "0 $(($(blockdev --getsz {disk}) - 2048))"
LINEAR = f"{SIZE} linear {{disk}} 2048"
ERROR = f"{SIZE} error"
DELAY = f"{SIZE} delay {{disk}} 2048 "
DISK = "/dev/disk/by-id/virtio-{}"


@pytest.fixture(scope="module")
def disks(directory):
    """Return the files of two blank disks by serial number."""
    found = {serial: directory / f"{serial}.raw" for serial in ("OLD", "NEW")}
    for path in found.values():
        with path.open("wb") as file:
            file.truncate(400 << 20)
    return found


@pytest.fixture(scope="module")
def mapped(machine):
    """Return a function that puts another table under one of the file systems, which stays mounted."""

    def put(kind, table):
        disk = DISK.format("OLD" if kind == "ext4" else "NEW")
        machine.run(f"""
            dmsetup suspend --noflush --nolockfs {kind}
            dmsetup load {kind} --table "{table.format(disk=disk)}"
            dmsetup resume {kind}
            echo 3 >/proc/sys/vm/drop_caches
        """)

    return put


@pytest.fixture(scope="module")
def tiers(machine, play):
    """Make both file systems on mapped disks, and let the role mount them."""
    machine.run(f"""
        dmsetup create ext4 --table "{LINEAR.format(disk=DISK.format("OLD"))}"
        dmsetup create xfs --table "{LINEAR.format(disk=DISK.format("NEW"))}"
        mkfs.ext4 -q -U {UUIDS["ext4"]} /dev/mapper/ext4
        mkfs.xfs -q -m uuid={UUIDS["xfs"]} /dev/mapper/xfs
    """)
    play("tests/vm/storage.yml", "-e", json.dumps({"storage_tiers": TIERS}), timeout=SECONDS)
    for place in PLACES.values():
        machine.run(f"mkdir {place}/a && seq 1 90000 > {place}/a/labels && sync")


@pytest.fixture
def proof(play):
    def prove(rc, **more):
        wishes = json.dumps({"proof_of": ["host", "storage"], **more})
        return play("tests/vm/storage_proof.yml", "-e", wishes, timeout=SECONDS, rc=rc)

    return prove


@pytest.mark.usefixtures("tiers")
def test_healthy_disks_are_no_finding(proof):
    assert "disk-errors" not in proof(0)


@pytest.mark.usefixtures("tiers")
def test_a_slow_disk_delays_the_proof_and_a_run_by_little(mapped, play, proof):
    for kind in PLACES:
        mapped(kind, f"{DELAY}100")
    assert "does not answer" not in proof(0)
    again = play("tests/vm/storage.yml", "-e", json.dumps({"storage_tiers": TIERS}), timeout=SECONDS)
    assert "changed=0" in again.rpartition("\nRECAP")[2]


@pytest.mark.usefixtures("tiers")
def test_a_run_names_a_disk_that_is_too_slow_to_be_read(mapped, play):
    mapped("ext4", f"{DELAY}4000")
    told = play("tests/vm/storage.yml", "-e", json.dumps({"storage_tiers": TIERS}), timeout=SECONDS, rc=2)
    assert "GPULAB-H163" in told
    assert "it does not answer in time" in told
    for kind in PLACES:
        mapped(kind, LINEAR)


@pytest.mark.usefixtures("tiers")
def test_a_disk_that_fails_is_found_by_the_kernels_log(machine, mapped, proof):
    for kind, place in PLACES.items():
        mapped(kind, ERROR)
        machine.run(f"(cat {place}/a/labels; echo x >>{place}/a/labels; sync; ls -l {place}/a) >/dev/null 2>&1 || true")
    told = proof(2, proof_fails_on="warn")  # ext4 has counted nothing yet, and reads its directories from memory
    assert len(set(re.findall(r"(dm-\d) has failed to read or write \d+ times?", told))) == len(PLACES), told


@pytest.mark.usefixtures("tiers")
def test_file_systems_that_gave_up_are_found(machine, proof):
    machine.run("(touch /mnt/new/b; sync) 2>&1 || true; echo broken >/sys/fs/ext4/dm-0/trigger_fs_error")
    told = proof(2, proof_fails_on="warn")
    assert "/mnt/new (/dev/mapper/xfs) cannot be read" in told
    assert re.search(r"ext4 has counted \d+ errors? in /mnt/old", told), told


@pytest.mark.usefixtures("tiers")
def test_a_run_on_a_failed_disk_ends_in_time_and_makes_no_file_system(machine, play):
    told = play("tests/vm/storage.yml", "-e", json.dumps({"storage_tiers": TIERS}), timeout=SECONDS, rc=2)
    assert "mkfs" not in told
    assert "mapper" in machine.run("findmnt --noheadings --output SOURCE --types ext4,xfs")


@pytest.mark.usefixtures("tiers")
def test_what_was_written_is_there_when_the_disk_is_back(machine, mapped, proof):
    for kind, place in PLACES.items():
        machine.run(f"umount {place} || umount --lazy {place}")
        mapped(kind, LINEAR)
    machine.run("e2fsck -fy /dev/mapper/ext4 || [ $? -eq 1 ]; mount /mnt/old; mount /mnt/new")
    for place in PLACES.values():
        machine.run(f"head -90000 {place}/a/labels | sha256sum | grep $(seq 1 90000 | sha256sum | cut -d' ' -f1)")
    told = proof(0, proof_fails_on="fail")
    assert "cannot be read" not in told
    assert "ext4 has counted" not in told
