"""Machines whose system lies on LUKS and LVM, on Btrfs or on an array: what gpulab says of them, and a reinstall.

Their disks are made by a machine (layouts.sh), once, and kept. One command reinstalls the first two over SSH; their
data disks are hashed whenever the machine restarts. The third is refused before anything changes.
"""

import gzip
import hashlib
import json
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.installer.cpio import Member, Writer
from bare import Bare
from golden import CACHE
from test_installer import ARGUMENTS, MIB, UUID, Lab, images  # noqa: F401 - images is a fixture
from test_reinstall import HOST, Story, Watched

SCRIPT = Path(__file__).with_name("layouts.sh")
PACKAGES = ["btrfs-progs", "cryptsetup-initramfs", "lvm2", "mdadm", "xfsprogs"]
SYSTEM = "SYSTEM1"
DISKS = {  # in MiB, by their serial numbers; the system is not on the first disk that the kernel finds
    "luks": {"DATA1": 320, SYSTEM: 12288},
    "btrfs": {"DATA1": 384, "DATA2": 128, "DATA3": 128, SYSTEM: 12288, "DATA4": 320},
    "md": {"DATA1": 64, SYSTEM: 8192, "SYSTEM2": 8192},
}
SECONDS = 3600  # for making the disks
GIVEN_UP = {"reinstall_allow": ["unencrypted"]}
PATHS = ["/home/kept"]  # what the lab captures beside the usual
UNSEEN = {  # what no mount shows and the lab gives up
    "luks": ["/dev/node/home-before"],
    "btrfs": ["/dev/vdd3/@home-before", "/dev/vdd3/notes"],
}
REFUSED = {  # each as a machine without further words is, with words of the refusals
    "luks": {"R021": "/dev/node/home-before", "R080": "would lie there in the clear: /root/keys/data.key"},
    "btrfs": {"R021": "/dev/vdd3/@home-before"},
    "md": {"R004": "/ is on 2 disks", "R024": "GRUB cannot write there"},
}


def made(layout, image, say):
    """Return the directory with the disks of a layout, and with the keys of the machine; make it unless it is there."""
    digest = hashlib.sha256(SCRIPT.read_bytes() + image.path.name.encode()).hexdigest()[:12]
    kept, draft = (CACHE / f"roots-{layout}{end}" for end in (f"-{digest}", ".new"))
    if kept.exists():
        return kept
    for former in CACHE.glob(f"roots-{layout}[-.]*"):
        shutil.rmtree(former)
    draft.mkdir(parents=True)
    lab = Lab(draft, say)
    disks = [(serial, draft / f"{serial}.raw") for serial in DISKS[layout]]
    for serial, path in disks:
        with path.open("wb") as file:
            file.truncate(DISKS[layout][serial] * MIB)
    content, parts = SCRIPT.read_bytes(), []
    writer = Writer(parts.append)
    writer.add(Member(b"layouts.sh", 0o100755, size=len(content)), [content])
    writer.end()
    program = draft / "program.cpio.gz"
    program.write_bytes(gzip.compress(b"".join(parts)))
    machine = Bare(draft, disks, UUID)
    say(f"making the disks of {layout}")
    try:
        arguments = ["rdinit=/layouts.sh", "panic=1", f"layout={layout}", *ARGUMENTS]
        machine.boot_kernel(image.kernel, [image.tree, lab.host_part(lab.plan(), draft), program], " ".join(arguments))
        console = machine.wait_for_end(SECONDS)
        assert "LAYOUT MADE" in console, console[-3000:]
    finally:
        machine.kill()
    (draft / "initrd").unlink()
    draft.rename(kept)
    return kept


@pytest.fixture(scope="module", params=DISKS)
def layout(request):
    """Return the name of a layout."""
    return request.param


@pytest.fixture(scope="module")
def story(layout, images, tmp_path_factory, say):  # noqa: F811 - a fixture
    """Return a machine with the disks of a layout; each test goes on from the one before."""
    place = tmp_path_factory.mktemp(layout)
    kept = made(layout, images("debian-12", "bios", PACKAGES), say)
    disks = [(serial, place / f"{serial}.raw") for serial in DISKS[layout]]
    for _serial, path in disks:
        subprocess.run(["cp", "--sparse=always", kept / path.name, path], check=True, timeout=600)
    machine = Watched(place, disks, UUID, data=[path for serial, path in disks if serial.startswith("DATA")])
    found = Story(machine, Lab(kept, say), place, say, "bios")
    try:
        say(f"booting {layout}")
        machine.live(SYSTEM)
        machine.wait_for_ssh(found.lab.ssh)
        found.run("systemctl is-system-running --wait || true; echo kept >/home/kept; chmod 0640 /home/kept")
        yield found
    finally:
        machine.kill()


def lean(story):
    """Keep the new system's initramfs to the modules of layouts.sh from its start; emulated, all take minutes."""
    while len(story.machine.hashes) < 2:  # into the installer, and out of it
        time.sleep(1)
    story.machine.wait_for_ssh(story.lab.ssh)
    story.run("echo MODULES=list >/etc/initramfs-tools/conf.d/vm")
    story.run("printf '%s\\n' virtio_pci virtio_blk ext4 crc32c_generic >>/etc/initramfs-tools/modules")
    story.say("its initramfs is a small one")


def codes(output):
    """Return the codes of the refusals that a run shows."""
    return set(re.findall(r"GPULAB-([A-Z]\d+)", output))


# What must be on the machine before and after, without what the installer makes new.
LOOK = {
    "luks": """
sha256sum /data/home/run1 /home/kept /root/keys/data.key; stat -c '%a %U %n' /root/keys/data.key /home/kept
findmnt --noheadings --output TARGET,SOURCE,FSTYPE,LABEL /data; grep ^data /etc/crypttab
blkid --match-tag UUID --output value /dev/vda
""",
    "btrfs": """
sha256sum /data/home/run1 /scratch/li/run1 /array/runs/run1 /archive/runs/run1 /home/kept
for one in /data /scratch /array /archive; do findmnt --noheadings --output TARGET,SOURCE,FSTYPE $one; done
grep -E '/(data|scratch|array|archive) ' /etc/fstab; grep ^ARRAY /etc/mdadm/mdadm.conf
mdadm --detail --brief /dev/md/tank; cat /sys/block/md*/md/degraded
""",
}


def test_what_a_reinstall_would_end_is_refused_before_anything_changes(story, layout):
    look = "cat /proc/sys/kernel/random/boot_id; ls -A /boot; cat /etc/nologin 2>/dev/null || true"
    before = story.run(look)
    output = story.play("playbooks/reinstall.yml", rc=2, reinstall_confirm=HOST, capture_paths=PATHS)
    assert codes(output) == set(REFUSED[layout])
    assert all(words in output for words in [*REFUSED[layout].values(), *UNSEEN.get(layout, ())])
    assert (story.run(look), story.machine.hashes) == (before, [])
    assert (story.directory / f"captures/{HOST}/latest/manifest.json").exists()


def test_the_machine_comes_back_with_its_data_disks(story, layout, say):
    if layout not in LOOK:
        pytest.skip("it is not reinstalled")
    before = story.run(LOOK[layout])
    acknowledged = [{"path": path, "reason": "of the time before"} for path in UNSEEN[layout]]
    given_up = {**GIVEN_UP, "capture_paths": PATHS, "capture_acknowledged": acknowledged}
    threading.Thread(target=lean, args=(story,), daemon=True).start()
    output = story.play("playbooks/reinstall.yml", reinstall_confirm=HOST, **given_up)
    assert ("LOST the encryption of /, /home" in output) is (layout == "luks")
    assert "stands against it" not in output
    assert story.run("findmnt --noheadings --output FSTYPE /") == "ext4"
    assert story.run(LOOK[layout]) == before
    into, out_of = story.machine.hashes[:2]
    assert into == out_of, "a data disk differs after the installer"
    state = json.loads((story.directory / f"captures/{HOST}/rebuild.json").read_text())
    say(json.dumps(state["missing"], indent=1))
    assert state["state"] == "proven"
    say("another boot")
    story.machine.reboot(story.lab.ssh)
    assert story.run(LOOK[layout]) == before
