"""The bootable disk of a container: one partition with its files, and GRUB's images before it.

Without loop devices, mounts or a boot: GRUB's core image lies where its boot sector looks by default, after it.
"""

import struct
import subprocess
import tempfile
from pathlib import Path

SECTOR = 512
FIRST_SECTOR = 2048  # of the partition
PARTITION_MIB = 8192  # sparse
LINUX = 0x83
ACTIVE = 0x80
CHS_UNUSED = b"\xfe\xff\xff"  # addresses by cylinder say: see the sector number
PARTITION_TABLE = slice(446, 510)
SECONDS = 300


def make(container, disk):
    """Write the disk of a container, which holds GRUB (see bootable.yml), as a raw image."""
    with tempfile.TemporaryDirectory(dir=disk.parent) as directory:
        root, partition = Path(directory, "root"), Path(directory, "partition")
        root.mkdir()
        _export(container, root)
        _be_a_machine(root, container)
        _run("mkfs.ext4", "-q", "-d", root, partition, f"{PARTITION_MIB}M")
        image = Path(directory, "disk")
        image.write_bytes(_before_partition(root))
        _run("dd", f"if={partition}", f"of={image}", "bs=1M", "seek=1", "conv=sparse,notrunc", "status=none")
        image.rename(disk)


def _run(*argv):
    subprocess.run(argv, check=True, timeout=SECONDS)


def _export(container, root):
    export = subprocess.Popen(["docker", "export", container], stdout=subprocess.PIPE)
    with export:
        subprocess.run(
            ["tar", "--extract", "--numeric-owner", "-C", root], stdin=export.stdout, check=True, timeout=SECONDS
        )
    if export.returncode:
        raise subprocess.CalledProcessError(export.returncode, export.args)


def _be_a_machine(root, name):
    """Take back what the container engine puts in: its mark, and the files that it mounts over."""
    (root / ".dockerenv").unlink()
    (root / "etc/hostname").write_text(f"{name}\n")
    (root / "etc/hosts").write_text(f"127.0.0.1 localhost {name}\n")
    (root / "etc/resolv.conf").write_text("nameserver 10.0.2.3\n")  # of QEMU's user network


def _before_partition(root):
    """Return the first sectors: boot code, the table with its one partition, GRUB's core image."""
    boot = bytearray((root / "usr/lib/grub/i386-pc/boot.img").read_bytes())
    core = (root / "boot/grub/core.img").read_bytes()
    sectors = PARTITION_MIB * 2**20 // SECTOR
    table = struct.pack("<B3sB3sII48x", ACTIVE, CHS_UNUSED, LINUX, CHS_UNUSED, FIRST_SECTOR, sectors)
    boot[PARTITION_TABLE] = table
    before = bytes(boot) + core
    if len(before) > FIRST_SECTOR * SECTOR:
        message = f"GRUB's core image is too long for the gap before the partition: {len(core)} bytes"
        raise ValueError(message)
    return before
