"""The archives that the kernel unpacks: of a directory, of a tar archive, and of one host."""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
import subprocess
import sys
import tarfile

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.installer.cpio import LARGEST, Member, Writer, pack
from ansible_collections.gpulab.node.plugins.plugin_utils.installer.archive import host_part, tree_of
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild.new_system import NewFile

from .newc import read
from .plans import plan

ODD = b"caf\xe9"  # not UTF-8


def written(fill):
    buffer = io.BytesIO()
    fill(Writer(buffer.write))
    return buffer.getvalue()


def packed(root, without=()):
    return written(lambda writer: pack(root, without, writer))


@pytest.fixture
def tree(tmp_path):
    """Return a tree with a file of each kind, two names of one file, and a name that is not UTF-8."""
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/shadow").write_bytes(b"secret")
    (root / "etc/shadow").chmod(0o600)
    (root / "etc/copy").hardlink_to(root / "etc/shadow")
    (root / "etc/link").symlink_to("../a//b")
    (root / "proc").mkdir()
    (root / "proc/1").write_text("not packed")
    with open(os.path.join(os.fsencode(root), ODD), "wb"):  # noqa: PTH118, PTH123 - a name in bytes
        pass
    os.mkfifo(root / "fifo")
    return root


def test_a_tree_is_packed_as_it_is(tree):
    found = read(packed(tree, ["proc"]))
    assert set(found) == {ODD, b"etc", b"etc/copy", b"etc/link", b"etc/shadow", b"proc"}
    assert stat.S_ISDIR(found[b"etc"].mode)
    assert found[b"etc/link"].data == b"../a//b"
    assert stat.S_ISLNK(found[b"etc/link"].mode)
    first, second = found[b"etc/copy"], found[b"etc/shadow"]
    assert (first.inode, first.links, first.data) == (second.inode, 2, b"secret")
    assert (second.links, second.data) == (2, b"")
    assert stat.S_IMODE(first.mode) == 0o600
    assert first.owner == (os.getuid(), os.getgid())
    assert found[ODD].data == b""


def test_a_tree_makes_the_same_bytes_each_time(tree):
    assert packed(tree) == packed(tree)


def test_a_file_that_changes_its_size_while_it_is_read_is_no_member():
    with pytest.raises(ValueError, match="has 1 bytes, but had 2"):
        written(lambda writer: writer.add(Member(b"a", 0o644, size=2), [b"x"]))


def test_a_file_that_the_form_cannot_hold_is_refused():
    with pytest.raises(ValueError, match="too large"):
        written(lambda writer: writer.add(Member(b"a", 0o644, size=LARGEST + 1)))


def test_a_tar_archive_becomes_the_same_tree():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT, encoding="utf-8") as tar:
        for name, kind, more in (
            ("./", tarfile.DIRTYPE, {"mode": 0o755}),
            ("./dev/console", tarfile.CHRTYPE, {"mode": 0o600, "devmajor": 5, "devminor": 1}),
            (f"./{ODD.decode('utf-8', 'surrogateescape')}", tarfile.REGTYPE, {"uid": 7, "gid": 8, "mode": 0o4755}),
            ("./perl", tarfile.REGTYPE, {"mtime": 9}),
            ("./perl5", tarfile.LNKTYPE, {"linkname": "./perl"}),
            ("./sh", tarfile.SYMTYPE, {"linkname": "/bin/dash"}),
        ):
            one = tarfile.TarInfo(name)
            one.type = kind
            for field, value in more.items():
                setattr(one, field, value)
            data = b"x" * 5 if kind == tarfile.REGTYPE else b""
            one.size = len(data)
            tar.addfile(one, io.BytesIO(data))
    buffer.seek(0)
    out = io.BytesIO()
    with tarfile.open(fileobj=buffer, errors="surrogateescape", encoding="utf-8") as tar:
        tree_of(tar, out.write)
    found = read(out.getvalue())
    assert set(found) == {b"dev/console", ODD, b"perl", b"perl5", b"sh"}
    assert (stat.S_IFMT(found[b"dev/console"].mode), found[b"dev/console"].device) == (stat.S_IFCHR, (5, 1))
    assert (found[ODD].owner, found[ODD].mode, found[ODD].links) == ((7, 8), stat.S_IFREG | 0o4755, 1)
    assert (found[b"perl"].data, found[b"perl"].links, found[b"perl"].time) == (b"xxxxx", 2, 9)
    assert (found[b"perl5"].inode, found[b"perl5"].data) == (found[b"perl"].inode, b"")
    assert found[b"sh"].data == b"/bin/dash"


FILES = {
    "/etc/ssh/ssh_host_ed25519_key": NewFile(b"key", 0o600),
    "/home/admin/caf\udce9": NewFile(b"", 0o640, 1000, 1000),
}


def test_the_part_of_a_host_has_program_plan_and_files():
    part = host_part(plan(), FILES)
    found = read(gzip.decompress(part))
    assert json.loads(found[b"gpulab/plan.json"].data) == plan()
    assert stat.S_IMODE(found[b"gpulab/plan.json"].mode) == 0o600
    assert stat.S_IMODE(found[b"gpulab"].mode) == 0o700
    assert stat.S_IMODE(found[b"gpulab/init"].mode) == 0o755
    key = found[b"gpulab/target/etc/ssh/ssh_host_ed25519_key"]
    assert (key.data, stat.S_IMODE(key.mode), key.owner) == (b"key", 0o600, (0, 0))
    assert found[b"gpulab/target/home/admin/caf\xe9"].owner == (1000, 1000)
    order = {name: place for place, name in enumerate(found)}
    for name in found.keys() - {b"gpulab"}:  # the kernel makes no directory that is missing
        assert order[name.rpartition(b"/")[0]] < order[name]
    assert host_part(plan(), dict(reversed(FILES.items()))) == part


def test_the_program_of_a_host_starts_with_nothing_but_itself(tmp_path):
    for name, member in read(gzip.decompress(host_part(plan(), {}))).items():
        path = tmp_path / os.fsdecode(name)
        if stat.S_ISDIR(member.mode):
            path.mkdir()
        else:
            path.write_bytes(member.data)
    start = (tmp_path / "gpulab/init").read_text().replace("/gpulab/lib", str(tmp_path / "gpulab/lib"))
    assert start.startswith("#!/usr/bin/python3 -I\n")
    start = start.replace("first_process.main()", "print(first_process.__file__)")
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", start], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith(str(tmp_path))


@pytest.mark.parametrize("path", ["etc/passwd", "/etc/../passwd", "//etc/passwd", "/etc/"])
def test_a_file_lies_below_the_root(path):
    with pytest.raises(ValueError, match="is not the path of a file"):
        host_part(plan(), {path: FILES["/etc/ssh/ssh_host_ed25519_key"]})
