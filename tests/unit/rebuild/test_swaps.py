"""While files come back, their owner changes names: nothing of root's changes, and nobody waits for ever."""

import contextlib
import hashlib
import itertools
import os
import shutil

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core import account_files
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import renumber, software_entries, storage_host, tree

from unit import swaps

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
IDS = tree.AsWritten()
DATA = b"what was captured\n"
PARTS = ("/home/wei/a", "/home/wei/a/b", "/home/wei/a/b/name")
NAME = PARTS[-1]


def entry(kind="file", path=NAME, mode="4777", **more):
    found = {
        "path": path,
        "kind": kind,
        "mode": mode,
        "owner": "wei",
        "group": "wei",
        "uid": swaps.WEI,
        "gid": swaps.WEI,
    }
    if kind == "file":
        found.update(size=len(DATA), sha256=hashlib.sha256(DATA).hexdigest())
    return {**found, **({"target": "/etc"} if kind == "link" else {}), **more}


def write(root, path, data=DATA, mode=0o600, owner=swaps.WEI):
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    place.chmod(mode)
    for one in (place, *place.parents):
        if root / "home" in one.parents:
            os.chown(one, owner, owner)
    return place


def put(node, wanted):
    tree.put(node, wanted, DATA, IDS, tree.now(node, wanted))


def put_file(node):
    put(node, entry())


def put_link(node):
    put(node, entry("link"))


def put_directory(node):
    put(node, entry("directory", mode="0777"))


def merge(node):
    found = tree.now(node, entry())
    tree.put(node, entry(), tree.read(node, entry(), IDS, found) + DATA, IDS, found)


def keep_beside(node):
    tree.keep(node, NAME, f"{NAME}.dpkg-dist", tree.now(node, entry()))


def join(node):
    other = entry(path="/home/wei/a/b/other")
    inodes = {one["path"]: tree.put(node, one, DATA, IDS) for one in (entry(), other)}
    tree.join(node, other["path"], NAME, inodes)


def put_entry(node):
    software_entries.put([entry(data="eA=="), entry("link", path="/home/wei/a/b/link")], node.root)


def put_entry_directory(node):
    software_entries.put([entry("directory", mode="0777")], node.root)


def let_in(node):
    account = account_files.User("wei", "x", swaps.WEI, swaps.WEI, "", "/home/wei/a/b", "/bin/sh")
    work = storage_host._Work.__new__(storage_host._Work)  # noqa: SLF001 - what it does of all
    work._node, work._outcome = node, storage_host.Outcome()  # noqa: SLF001
    work._let_in(f"{NAME}/authorized_keys", b"ssh-ed25519 A\n", account)  # noqa: SLF001


def give_new_numbers(node):
    for held in renumber._tree(str(node.root / "home"), set()):  # noqa: SLF001
        renumber._chown(held, {swaps.WEI: 1600}, {swaps.WEI: 1600})  # noqa: SLF001


SOME = 7  # of 15 swaps at a step, every seventh: all parts and kinds have their turn
# What is done, and what is there before: a file's name and its content.
WAYS = [
    (put_file, None, b""),
    (put_file, NAME, b"another\n"),
    (put_file, NAME, DATA),
    (put_link, None, b""),
    (put_directory, None, b""),
    (put_directory, f"{NAME}/file", b""),
    (merge, NAME, b"one\n"),
    (keep_beside, NAME, DATA),
    (join, None, b""),
    (put_entry, NAME, b"another\n"),
    (put_entry_directory, None, b""),
    (let_in, None, b""),
    (let_in, f"{NAME}/authorized_keys", b"one\n"),
    (give_new_numbers, NAME, DATA),
]


@pytest.fixture
def try_all(tmp_path, monkeypatch):
    """Return a function that does one thing again and again, and returns the swaps after which root's had changed."""
    steps = swaps.Steps(monkeypatch)

    def once(way, at=None, part=NAME, kind=swaps.FIFO):
        do, before, content = way
        root = tmp_path / "root"
        shutil.rmtree(root, ignore_errors=True)
        write(root, "/home/wei/first")
        if before:
            write(root, before, content, mode=0o4700)
        (root / "home").chmod(0o755)
        victims = swaps.Victims(root / "victims")
        node = Node(root)
        with contextlib.suppress(OSError), steps.counted(at, lambda: victims.swap(root / part.lstrip("/"), kind)):
            do(node)
        return victims.changed(root)

    def try_all(way, every):
        assert once(way) == []
        every_swap = list(itertools.product(range(1, steps.count + 1), PARTS, swaps.KINDS))
        tried = [(at, part, kind, once(way, at, part, kind)) for at, part, kind in every_swap[::every]]
        return [one for one in tried if one[-1]]

    return try_all


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way[0].__name__} {way[1]}")
def test_no_swap_leads_root_elsewhere(try_all, way):
    assert try_all(way, SOME) == []


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way[0].__name__} {way[1]}")
def test_no_swap_of_any_part_at_any_step_leads_root_elsewhere(try_all, way):
    assert try_all(way, 1) == []
