"""The owners of files change in one walk that can be cut off anywhere."""

import os
import struct

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import renumber
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.renumber import Renumbering

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
CHAIN = {1001: 1000, 1000: 1002}


@pytest.fixture
def tree(tmp_path):
    """Return a tree with files of 1000, 1001 and 1003, one with two names."""
    top = tmp_path / "top"
    (top / "home/wei").mkdir(parents=True)
    for number in (1000, 1001, 1003):
        path = top / f"home/wei/{number}"
        path.write_text("")
        os.chown(path, number, number)
    (top / "second").hardlink_to(top / "home/wei/1001")
    return top


@pytest.fixture
def place(tmp_path):
    return tmp_path / "state/renumbering.json"


def owners(top):
    return {path.name: path.lstat().st_uid for path in top.rglob("*") if path.is_file()}


def test_numbers_that_change_places_do_not_mix(tree, place):
    walk = Renumbering(place)
    walk.begin(CHAIN, CHAIN)
    walk.finish([str(tree)])
    assert owners(tree) == {"1000": 1002, "1001": 1000, "1003": 1003, "second": 1000}
    assert not Renumbering(place).begun


@pytest.mark.parametrize("calls", range(12))
def test_a_walk_that_was_cut_off_ends_right(tree, place, monkeypatch, calls):
    left = [calls]
    real = os.chown

    def chown(*arguments):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        real(*arguments)

    monkeypatch.setattr(os, "chown", chown)
    walk = Renumbering(place)
    walk.begin(CHAIN, {})
    try:
        walk.finish([str(tree)])
    except KeyboardInterrupt:
        left[0] = 1000
        again = Renumbering(place)
        assert again.begun
        again.finish([str(tree)])
    assert owners(tree) == {"1000": 1002, "1001": 1000, "1003": 1003, "second": 1000}


def test_the_home_that_went_first_is_left_by_the_walk(tree, place):
    (tree / "second").unlink()
    walk = Renumbering(place)
    walk.begin(CHAIN, {})
    walk.first(tree / "home/wei")
    assert owners(tree)["1000"] == 1002
    Renumbering(place).finish([str(tree)])
    assert owners(tree)["1001"] == 1000


def test_special_bits_and_capabilities_stay(tree, place):
    path = tree / "home/wei/1001"
    path.chmod(0o6755)
    capability = struct.pack("<IIIII", 0x02000001, 1 << 13, 0, 0, 0)
    other = tree / "ping"
    other.write_text("")
    os.chown(other, 1001, 1001)
    os.setxattr(other, renumber.CAPABILITY, capability)
    walk = Renumbering(place)
    walk.begin({1001: 1005}, {1001: 1005})
    walk.finish([str(tree)])
    assert (path.stat().st_uid, path.stat().st_mode & 0o7777) == (1005, 0o6755)
    assert os.getxattr(other, renumber.CAPABILITY) == capability


def test_links_are_given_away_and_not_followed(tree, place):
    outside = tree.parent / "outside"
    outside.write_text("")
    os.chown(outside, 1001, 1001)
    (tree / "link").symlink_to(outside)
    os.lchown(tree / "link", 1001, 1001)
    walk = Renumbering(place)
    walk.begin({1001: 1005}, {})
    walk.finish([str(tree)])
    assert (tree / "link").lstat().st_uid == 1005
    assert outside.stat().st_uid == 1001


def test_access_lists_get_the_new_numbers():
    entries = [(0x01, 7, 0xFFFFFFFF), (0x02, 5, 1001), (0x08, 5, 1001), (0x04, 5, 0xFFFFFFFF)]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in entries)
    found = renumber.renumbered_acl(acl, {1001: 1000}, {1001: 50})
    assert [one[2] for one in struct.iter_unpack("<HHI", found[4:])] == [0xFFFFFFFF, 1000, 50, 0xFFFFFFFF]


def test_another_file_system_is_not_entered(tree, place, monkeypatch):
    other = tree / "home/data"
    other.write_text("")
    os.chown(other, 1001, 1001)
    real, home = os.fstat, (tree / "home").stat()

    def fstat(descriptor):
        status = real(descriptor)
        if status.st_ino == home.st_ino:
            return os.stat_result((*status[:2], status.st_dev + 1, *status[3:]))
        return status

    monkeypatch.setattr(os, "fstat", fstat)
    walk = Renumbering(place)
    walk.begin({1001: 1005}, {})
    walk.finish([str(tree)])
    assert other.stat().st_uid == 1001
    assert (tree / "second").stat().st_uid == 1005
