"""GRUB itself, in QEMU: what is chosen for the next boot starts once, and what cannot be loaded leads back."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import disk as disks
import pytest
from ansible_collections.gpulab.node.plugins.module_utils.system import boot_once

GRUB, SCRIPTS = Path("/usr/lib/grub/i386-pc"), Path("/etc/grub.d")
UUID = "12345678-1111-2222-3333-444455556666"
PARTITION_MIB = 64
USUAL = "menuentry 'usual' {\n  echo 'THE USUAL SYSTEM'\n  sleep 1\n  halt\n}\n"
SECONDS = 300
pytestmark = pytest.mark.skipif(
    not (GRUB / "boot.img").is_file() or not (SCRIPTS / "00_header").is_file(), reason="grub-pc-bin is not installed"
)


def generated(script):
    """Return a part of grub.cfg as grub-mkconfig makes it, for a serial console."""
    wishes = {"GRUB_TERMINAL_INPUT": "serial", "GRUB_TERMINAL_OUTPUT": "serial", "GRUB_TIMEOUT": "0"}
    environment = {**os.environ, **wishes, "pkgdatadir": "/usr/share/grub", "grub_probe": "/bin/true"}
    return subprocess.run(
        ["sh", SCRIPTS / script], env=environment, capture_output=True, text=True, check=True, timeout=SECONDS
    ).stdout


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a disk whose GRUB has the entry of an installer that is not there, chosen for the next boot."""
    monkeypatch.setattr(disks, "PARTITION_MIB", PARTITION_MIB)
    root = tmp_path / "root"
    of_grub = root / "boot/grub"
    for place in (of_grub / GRUB.name, root / str(GRUB)[1:]):
        shutil.copytree(GRUB, place)
    place = boot_once.Place(*[f"/boot/{boot_once.ENTRY}"] * 2, UUID, ("part_gpt", "part_msdos", "ext2"))
    (of_grub / "grub.cfg").write_text(generated("00_header") + USUAL + generated("41_custom"))
    (of_grub / "custom.cfg").write_text(boot_once.entry(place, "gpulab: node07", "vmlinuz", ["tree"], ["panic=60"]))
    core = ["biosdisk", "part_msdos", "ext2", "linux", "normal"]
    run("grub-mkimage", "--format=i386-pc", f"--output={of_grub}/core.img", "--prefix=(hd0,msdos1)/boot/grub", *core)
    run("grub-editenv", of_grub / "grubenv", "create")
    run("grub-editenv", of_grub / "grubenv", "set", f"{boot_once.NEXT}={boot_once.ENTRY}")
    partition, image = tmp_path / "partition", tmp_path / "disk"
    run("mkfs.ext4", "-q", "-U", UUID, "-d", root, partition, f"{PARTITION_MIB}M")
    image.write_bytes(disks._before_partition(root))  # noqa: SLF001
    run("dd", f"if={partition}", f"of={image}", "bs=1M", "seek=1", "conv=notrunc", "status=none")
    return image


def run(*argv):
    subprocess.run(argv, check=True, timeout=SECONDS)


def console(image):
    """Boot a disk until the machine is off; return what its console shows."""
    argv = ["qemu-system-x86_64", "-accel", "tcg", "-m", "256", "-nodefaults", "-display", "none", "-serial", "stdio"]
    argv += ["-drive", f"file={image},format=raw,if=virtio"]
    done = subprocess.run(argv, capture_output=True, check=True, timeout=SECONDS, stdin=subprocess.DEVNULL)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", done.stdout.decode("utf-8", "replace"))


def test_an_installer_that_cannot_be_loaded_leads_back_and_is_not_tried_again(machine):
    first = console(machine)
    assert "Booting `gpulab: node07'" in first
    assert "The usual system starts in 10 seconds" in first
    assert first.count("THE USUAL SYSTEM") == 1, "after a reboot by itself"
    assert first.count("Booting `gpulab") == 1
    second = console(machine)
    assert "gpulab" not in second
    assert "THE USUAL SYSTEM" in second
