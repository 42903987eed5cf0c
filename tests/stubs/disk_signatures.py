"""Write what another user of a disk would leave on it, as far as blkid and wipefs look: disk_signatures.py KIND PATH.

None of these was made by the program that it stands for; each has the magic numbers and checksums that libblkid wants.
"""

import struct
import sys
import uuid
from pathlib import Path

SECTOR = 512
LVM_SEED, POLYNOMIAL = 0xF597A6CF, 0xEDB88320


def partition_table(disk):
    """Write a DOS partition table with one partition and nothing in it."""
    entry = struct.pack("<BBBBBBBBII", 0, 0, 2, 0, 0x83, 0, 0, 0, 2048, 16384)
    write(disk, 446, entry)
    write(disk, 510, b"\x55\xaa")


def array(disk):
    """Write the superblock of a disk of a RAID 1, metadata 1.2."""
    block = bytearray(256 + 2 * 2)
    struct.pack_into("<IIII", block, 0, 0xA92B4EFC, 1, 0, 0)
    block[16:32] = uuid.UUID("a1b2c3d4-e5f6-0718-293a-4b5c6d7e8f90").bytes
    block[32:38] = b"lab:md"
    struct.pack_into("<QII", block, 64, 1, 1, 0)  # made when, level, layout
    struct.pack_into("<QII", block, 80, 32768, 0, 2)  # size, chunk, disks
    struct.pack_into("<QQQ", block, 128, 2048, 32768, 8)  # data from, its size, where this block is
    struct.pack_into("<I", block, 220, 2)  # how many disks follow
    struct.pack_into("<HH", block, 256, 0, 1)
    total = sum(struct.unpack(f"<{len(block) // 4}I", block))
    struct.pack_into("<I", block, 216, ((total & 0xFFFFFFFF) + (total >> 32)) & 0xFFFFFFFF)
    write(disk, 4096, bytes(block))


def volume_group(disk):
    """Write the label of a physical volume."""
    label = bytearray(SECTOR)
    struct.pack_into("<8sQII8s32s", label, 0, b"LABELONE", 1, 0, 32, b"LVM2 001", b"c9xVgO6OfgpYpP5cqd2sN5jHZLwn4eIG")
    checksum = LVM_SEED
    for byte in label[20:]:
        checksum ^= byte
        for _bit in range(8):
            checksum = (checksum >> 1) ^ (POLYNOMIAL if checksum & 1 else 0)
    struct.pack_into("<I", label, 16, checksum)
    write(disk, SECTOR, bytes(label))


def zfs_pool(disk):
    """Write the first label of a pool: numbers by name for a new libblkid, uberblocks for an old one."""
    label = struct.pack(">4BII", 1, 1, 0, 0, 0, 1)  # XDR, little-endian host; version, unique names
    for name, value in (("version", 5000), ("state", 0), ("txg", 4), ("pool_guid", 42), ("guid", 43)):
        padded = name.encode().ljust((len(name) + 3) & ~3, b"\0")
        pair = struct.pack(">II", 32, len(name)) + padded + struct.pack(">IIQ", 8, 1, value)
        label += struct.pack(">I", len(pair) + 4) + pair
    write(disk, 16 * 1024, label + bytes(8))
    for number in range(8):
        write(disk, (128 + number) * 1024, struct.pack("<QQQQ", 0x00BAB10C, 5000, number, 1))


def encrypted(disk):
    """Write the head of a LUKS volume."""
    head = bytearray(592)
    struct.pack_into(">6sH32s32s32s", head, 0, b"LUKS\xba\xbe", 1, b"aes", b"xts-plain64", b"sha256")
    head[168:204] = b"6f1ad2f2-8b0a-4a69-a5f4-9ab8b5a0c1f3"
    write(disk, 0, bytes(head))


def nobodys(disk):
    """Write bytes that no program knows, far from both ends."""
    write(disk, 40 << 20, b"experiment 42\n" * 1000)


KINDS = {
    kind.__name__: kind for kind in (partition_table, array, volume_group, zfs_pool, encrypted, nobodys)
}  # fmt: skip


def write(disk, start, data):
    """Write bytes at a place, and leave all others."""
    with Path(disk).open("r+b") as file:
        file.seek(start)
        file.write(data)


if __name__ == "__main__":
    KINDS[sys.argv[1]](sys.argv[2])
