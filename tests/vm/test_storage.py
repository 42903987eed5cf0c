"""The storage role on a machine with disks of its own: real arrays, volumes, NFS and boots from /etc/fstab."""

import hashlib
import json
import re
import subprocess

import pytest
from golden import Recipe
from machine import SYSTEM

RECIPE = Recipe(
    "storage",
    "trixie",
    ((("tests/vm/bootable.yml",), 600), (("tests/vm/storage_node.yml",), 600)),
    ("tests/vm/storage_node.yml",),
)
DATA = "2f3c0a6b-7d0e-42f4-8d0c-9a551f2f3c0a"  # UUID of the filesystem on the disk with data
HELD = ("DATA", "KEEP")  # serial numbers of the disks that nothing may write to
SCRATCH = {
    "name": "scratch",
    "purpose": "scratch",
    "mount": "/scratch",
    "devices": ["SCRATCH1", "SCRATCH2"],
    "filesystem": "xfs",
    "format": True,
}
TIERS = [
    SCRATCH,
    {
        "name": "data",
        "purpose": "datasets",
        "mount": "/mnt/lab/data",
        "devices": [f"UUID={DATA}"],
        "options": ["ro"],
    },
    {"name": "sets", "purpose": "datasets", "mount": "/mnt/lab/sets", "devices": ["/dev/lab/sets"]},
    {"name": "shared", "purpose": "datasets", "mount": "/mnt/shared", "nfs": "127.0.0.1:/srv/export"},
]
PLACES = [tier["mount"] for tier in TIERS]
# All that the role may change: disks and what is made of them, mounts, packages, files.
LOOK = """
lsblk --noheadings --output KNAME,TYPE,FSTYPE,UUID,MOUNTPOINTS | sort
findmnt --list --noheadings --output TARGET,SOURCE,FSTYPE,OPTIONS --types nonfsd,norpc_pipefs | sort
dpkg-query --show
cat /etc/fstab
ls -d /scratch /mnt/* /mnt/lab/* /etc/mdadm/* /var/lib/gpulab/storage-* /etc/exports.d/* 2>/dev/null || true
"""
EXPORTED = [
    TIERS[0],
    {**TIERS[1], "export_to": ["10.99.0.0/24"], "export_options": ["ro"]},
    {**TIERS[2], "export_to": ["10.99.0.2"]},
]
# Two machines beside this one, as namespaces of the network: one that exports are for, and one that they are not for.
PEERS = """
for peer in friend:10.99.0 stranger:10.99.1; do
    name=${peer%:*} net=${peer#*:}
    ip netns add $name
    ip link add $name type veth peer name eth0 netns $name
    ip address add $net.1/24 dev $name && ip link set $name up
    ip netns exec $name sh -c "ip address add $net.2/24 dev eth0; ip link set eth0 up; ip link set lo up"
done
"""
READ = "find . -xdev -name lost+found -prune -o -type f -exec sha256sum {} + | sort"  # nobody may look into that one
TREE = "cd {} && find . -xdev -type f -exec sha256sum {{}} + | sort"


@pytest.fixture(scope="module")
def disks(directory):
    """Return the files of the disks by serial number: two with data, three that are blank."""
    tree = directory / "tree/imagenet"
    tree.mkdir(parents=True)
    (tree / "labels").write_text("".join(f"{number}\n" for number in range(50000)))
    (tree / "images").write_bytes(hashlib.shake_256(b"images").digest(32 << 20))
    found = {}
    for serial, mebibytes in {"DATA": 96, "KEEP": 96, "SCRATCH1": 256, "SCRATCH2": 256, "VOLUMES": 256}.items():
        found[serial] = directory / f"{serial}.raw"
        with found[serial].open("wb") as file:
            file.truncate(mebibytes << 20)
        if serial in HELD:
            named = ["-U", DATA] if serial == "DATA" else []
            make = ["mkfs.ext4", "-q", *named, "-d", directory / "tree", found[serial]]
            subprocess.run(make, check=True, timeout=60)
    return found


@pytest.fixture(scope="module")
def sums(disks):
    """Return a function that hashes the disks that nothing may write to, by their files."""

    def take():
        return {serial: hashlib.sha256(disks[serial].read_bytes()).hexdigest() for serial in HELD}

    return take


@pytest.fixture(scope="module")
def first(machine, sums):
    """Make the volume with data; return what is there before the role: the node, the trees, the sums of the disks."""
    before = sums()
    machine.run("""
        disk=/dev/disk/by-id/virtio-VOLUMES
        pvcreate --quiet $disk && vgcreate --quiet lab $disk && lvcreate --quiet --name sets --size 128M lab
        mkfs.ext4 -q /dev/lab/sets
        mount /dev/lab/sets /mnt
        seq 1 70000 > /mnt/tokens && cp /usr/bin/bash /mnt/binary
        umount /mnt
    """)
    trees = {}
    for name, device, options in (
        ("data", "/dev/disk/by-id/virtio-DATA", "ro"),
        ("sets", "/dev/lab/sets", "ro,noload"),
    ):
        trees[name] = machine.run(f"mount -o {options} {device} /mnt; {TREE.format('/mnt')}; cd /; umount /mnt")
        assert len(trees[name].splitlines()) == 2
    machine.run("cp /etc/fstab /root/fstab-before")
    return {"look": machine.run(LOOK), "trees": trees, "sums": before}


@pytest.fixture
def storage(play):
    """Return a function that applies the role with these tiers; it returns what was printed and how many changed."""

    def apply(tiers, *arguments, rc=0, **more):
        wishes = json.dumps({"storage_tiers": tiers, **more})
        output = play("tests/vm/storage.yml", "--diff", "-e", wishes, *arguments, timeout=1200, rc=rc)
        return output, output.rpartition("\nRECAP")[2]

    return apply


def unchanged(recap):
    return " ok " in recap and "changed=0" in recap


def added(output):
    """Return the lines of /etc/fstab that a run shows as added."""
    return [line for line in output.splitlines() if line.startswith("+") and "nofail" in line]


def mounts(machine):
    """Return source, type and options of what is mounted in the tiers' places."""
    lines = machine.run("findmnt --list --noheadings --output TARGET,SOURCE,FSTYPE,OPTIONS").splitlines()
    found = {words[0]: (words[1], words[2], set(words[3].split(","))) for words in map(str.split, lines)}
    return {place: found[place] for place in PLACES if place in found}


def trees(machine):
    return {name: machine.run(TREE.format(f"/mnt/lab/{name}")) for name in ("data", "sets")}


def all_is_mounted(machine):
    found = mounts(machine)
    assert set(found) == set(PLACES)
    assert found["/scratch"][0].startswith("/dev/md")
    assert found["/scratch"][1] == "xfs"
    assert "ro" in found["/mnt/lab/data"][2]
    assert found["/mnt/lab/sets"][0] == "/dev/mapper/lab-sets"
    assert found["/mnt/shared"][:2] == ("127.0.0.1:/srv/export", "nfs4")
    assert machine.run("cat /mnt/shared/labels") == "from the server"


def test_check_mode_says_what_would_be_and_changes_nothing(machine, first, storage):
    output, recap = storage(TIERS, "--check")
    first["predicted"] = added(output)
    assert "create a RAID 0 of " in output
    assert f"+UUID={DATA} /mnt/lab/data ext4 ro,nofail" in output
    assert not unchanged(recap)
    assert machine.run(LOOK) == first["look"]


def test_the_role_mounts_everything(machine, first, storage):
    output, _ = storage(TIERS)
    assert added(output) == first["predicted"] != []
    all_is_mounted(machine)
    assert trees(machine) == first["trees"]


def test_the_scratch_space_is_striped_over_both_disks(machine):
    detail = machine.run("mdadm --detail --export $(findmnt --noheadings --output SOURCE /scratch)")
    assert {"MD_LEVEL=raid0", "MD_DEVICES=2"} <= set(detail.splitlines())
    machine.run("cp /usr/bin/bash /scratch/work && sync && cmp /usr/bin/bash /scratch/work")


@pytest.mark.parametrize(
    ("serial", "code", "found"), [("KEEP", "H156", "the filesystem ext4"), (SYSTEM, "H154", "part /dev/vda1 (ext4)")]
)
def test_a_disk_that_holds_anything_is_refused_before_any_change(machine, storage, serial, code, found):
    before = machine.run(LOOK)
    output, _ = storage([*TIERS, {**SCRATCH, "name": "wrong", "mount": "/wrong", "devices": [serial]}], rc=2)
    assert f"GPULAB-{code}" in output
    assert f"(serial {serial})" in output
    assert found in output
    assert machine.run(LOOK) == before


def test_a_boot_brings_everything_back_and_a_second_run_changes_nothing(machine, first, storage):
    machine.reboot()
    all_is_mounted(machine)
    machine.run("cmp /usr/bin/bash /scratch/work")
    assert trees(machine) == first["trees"]
    assert unchanged(storage(TIERS)[1])


def test_absent_leaves_the_node_as_before(machine, storage):
    storage(TIERS, storage_state="absent")
    assert mounts(machine) == {}
    machine.run("cmp /etc/fstab /root/fstab-before && [ ! -e /scratch ] && [ ! -e /mnt/lab ] && [ ! -e /mnt/shared ]")


def test_what_is_stopped_is_started_and_not_made_again(machine, first, storage):
    machine.run("mdadm --stop $(readlink -f /dev/disk/by-id/md-uuid-*) && vgchange --quiet --activate n lab")
    storage([{**tier, "format": False} for tier in TIERS])
    all_is_mounted(machine)
    machine.run("cmp /usr/bin/bash /scratch/work")
    assert trees(machine) == first["trees"]


def seen_by(machine, peer, place, script, *, fails=False):
    """Let a peer mount an export, and run a script there; return what it printed."""
    server = {"friend": "10.99.0.1", "stranger": "10.99.1.1"}[peer]
    mount = f"mount -t nfs -o vers=4.2,soft,timeo=100 {server}:{place} /media"
    run = machine.fails if fails else machine.run
    return run(f"ip netns exec {peer} sh -ec '{mount}; cd /media; {script}; cd /; umount /media'")


def exports_are_offered(machine, first):
    """See that the friend reads them and is no root there, and that the stranger gets nothing."""
    for name in ("data", "sets"):
        told = seen_by(machine, "friend", f"/mnt/lab/{name}", READ)
        assert told == first["trees"][name]
    for place in ("/mnt/lab/data", "/mnt/lab/sets"):  # the one is read-only, in the other root is nobody
        assert re.search("Read-only|Permission denied", seen_by(machine, "friend", place, "touch new", fails=True))
    for place in ("/mnt/lab/data", "/mnt/lab/sets"):
        seen_by(machine, "stranger", place, "ls", fails=True)


def test_a_node_without_a_server_gets_one(machine, first, storage):
    machine.run("umount /mnt/shared; DEBIAN_FRONTEND=noninteractive apt-get purge -qq --yes nfs-kernel-server", 900)
    before = machine.run(LOOK)
    predicted, _ = storage(EXPORTED, "--check")
    assert "nfs-kernel-server" in predicted
    assert "+/mnt/lab/sets 10.99.0.2(rw,sync,no_subtree_check,root_squash,mountpoint)" in predicted
    assert machine.run(LOOK) == before
    storage(EXPORTED)
    machine.run(PEERS)
    exports_are_offered(machine, first)


def test_a_place_where_nothing_is_mounted_is_not_offered(machine):
    machine.run("exportfs -f && umount /mnt/lab/sets")
    seen_by(machine, "friend", "/mnt/lab/sets", "ls", fails=True)
    machine.run("mount /mnt/lab/sets && exportfs -f")
    seen_by(machine, "friend", "/mnt/lab/sets", "cmp binary /usr/bin/bash")


def test_a_boot_offers_everything_again_and_a_second_run_changes_nothing(machine, first, play, storage):
    machine.run("echo '/srv/export 127.0.0.1(ro,no_subtree_check)' > /etc/exports")  # of the site's own
    machine.reboot()
    machine.run(PEERS)
    exports_are_offered(machine, first)
    after = machine.run("systemctl show --value --property After nfs-server").split()
    assert {"mnt-lab-data.mount", "mnt-lab-sets.mount"} <= set(after)
    assert unchanged(storage(EXPORTED)[1])
    play("tests/vm/storage_proof.yml", timeout=1200)


def test_the_proof_finds_an_export_that_is_gone(machine, play):
    machine.run("exportfs -u 10.99.0.2:/mnt/lab/sets")
    assert "/mnt/lab/sets is not exported to 10.99.0.2" in play("tests/vm/storage_proof.yml", timeout=1200, rc=2)
    machine.run("exportfs -r")


def test_what_a_client_holds_is_not_withdrawn(machine, storage):
    hold = "mount -t nfs -o vers=4.2 10.99.0.1:/mnt/lab/sets /media; exec 3</media/tokens; sleep infinity"
    machine.run(f"systemd-run --quiet --unit=hold ip netns exec friend sh -ec '{hold}'; sleep 10")
    before = machine.run(LOOK)
    output, _ = storage(EXPORTED, rc=2, storage_state="absent")
    assert "GPULAB-H169" in output
    assert "10.99.0.2" in output
    assert machine.run(LOOK) == before
    machine.run("systemctl stop hold")


def test_absent_takes_back_what_is_gpulabs_and_leaves_the_sites_export(machine, storage):
    storage(EXPORTED, storage_state="absent")
    machine.run("cmp /etc/fstab /root/fstab-before && [ ! -e /etc/exports.d/gpulab.exports ]")
    (line,) = machine.run("exportfs -s").splitlines()
    assert line.split()[0] == "/srv/export"
    machine.run("systemctl is-active nfs-server")


def test_no_bit_of_the_disks_with_data_has_changed(machine, first, sums):
    machine.run("sync")
    machine.stop()
    assert sums() == first["sums"]
