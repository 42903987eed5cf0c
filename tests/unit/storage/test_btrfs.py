"""What is in the topmost directory of a Btrfs, as the kernel answers; tests/vm/test_roots.py asks a real one."""

import struct

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.storage import btrfs


def item(index, kind, name):
    """Return an entry as the kernel writes it."""
    entry = struct.pack("<QBQQHHB", 257, kind, 0, 9, 0, len(name), 1) + name
    return struct.pack("=3Q2I", 9, 256, index, 96, len(entry)) + entry


def answered(monkeypatch, *answers):
    """Let the kernel answer so, one question after the other; return from which index on it was asked."""
    left, asked = [*answers], []

    def ioctl(_descriptor, request, buffer):
        assert request == btrfs.TREE_SEARCH
        key = struct.unpack_from("=7Q4I4Q", buffer)
        assert key[:3] == (5, 256, 256)
        asked.append(key[3])
        items = left.pop(0)
        struct.pack_into("=I", buffer, 64, len(items))
        buffer[104 : 104 + len(b"".join(items))] = b"".join(items)

    monkeypatch.setattr(btrfs.fcntl, "ioctl", ioctl)
    return asked


def test_subvolumes_are_left_out_and_all_answers_are_read(tmp_path, monkeypatch):
    first = [item(2, 132, b"@"), item(3, 1, b"notes \xff")]
    asked = answered(monkeypatch, first, [item(7, 132, b"@home"), item(9, 1, b"boot")], [])
    assert btrfs.beside_subvolumes(tmp_path) == ["notes \udcff", "boot"]
    assert asked == [0, 4, 10]


def test_another_file_system_is_no_btrfs(tmp_path):
    with pytest.raises(OSError, match=r"ioctl|not permitted"):
        btrfs.beside_subvolumes(tmp_path)
