"""The walk: each path into one bin."""

import base64
import contextlib
import errno
import fcntl
import gc
import hashlib
import os
import shutil
import struct
from collections import Counter
from dataclasses import asdict
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.capture import bins, contents, leaves
from ansible_collections.gpulab.node.plugins.module_utils.capture import walk as walk_of_nodes
from ansible_collections.gpulab.node.plugins.module_utils.capture.walk import (
    GET_FLAGS,
    IMMUTABLE,
    Captured,
    Walk,
    Wishes,
    record,
)
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

SET_FLAGS = 0x40086602
# linux/posix_acl_xattr.h: the version, then tag, rights and id of: owner, user 1, group, mask, others
ACL = struct.pack("<I" + "HHI" * 5, 2, 1, 6, 2**32 - 1, 2, 4, 1, 4, 4, 2**32 - 1, 16, 4, 2**32 - 1, 32, 4, 2**32 - 1)


class Owned(set):
    """The packages' paths; some of them are changed."""

    changed = ()

    def unchanged(self, path, _status):
        """Say whether a path is not one of these."""
        return path not in self.changed

    def name(self, path):
        """Name the package of a path."""
        return path[1:]


def owned(*paths, changed=()):
    """Return the packages' paths."""
    found = Owned([*paths, *changed])
    found.changed = changed
    return found


def put(root, path, text="x", mode=0o644):
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    place.chmod(mode)
    return place


def walk(root, *rules, packages=None, mounts=(), at=lambda *_: None, **further):
    wishes = Wishes(rules=list(rules), **further)
    return Walk(Node(root), packages or owned(), wishes, at).run(["/"], set(mounts))


def files(found):
    return {one["path"]: one for one in found.files}


def remainder(found):
    return {one.path: (one.files, one.bytes) for one in found.remainder}


ETC = ("/etc/**", Captured("configuration"))


def test_each_path_is_in_one_bin_and_counted_once(tmp_path):
    for path in ("usr/bin/a", "usr/bin/b", "opt/gpulab/x", "opt/gpulab/y/z", "etc/c", "var/cache/d", "srv/e", "srv/f"):
        put(tmp_path, path, path)
    covered = ("receipt", lambda path, status: path == "/srv/f" and status.st_size > 0)
    found = walk(
        tmp_path,
        ETC,
        ("/var/cache/**", "a cache"),
        packages=owned("/", "/usr", "/usr/bin", "/usr/bin/a", changed=["/usr/bin/b"]),
        acknowledged=[("/srv/e", "not needed")],
        gpulab=[("/opt/gpulab/**", leaves.COMES_BACK)],
        covers=[covered],
    )
    assert found.counts == Counter(package=4, changed=1, captured=5, cache=2, acknowledged=1, receipt=1, gpulab=4)
    assert found.sizes[bins.GPULAB] == len("opt/gpulab/x") + len("opt/gpulab/y/z")
    assert found.remainder == []
    assert set(files(found)) == {"/usr/bin/b", "/etc", "/etc/c", "/opt", "/srv", "/var"}
    assert files(found)["/usr/bin/b"]["package"] == "usr/bin/b"


def test_a_pattern_of_gpulabs_is_for_directories_where_it_ends_in_a_slash(tmp_path):
    for path in ("opt/a/b/kept", "opt/c/x", "opt/data/x"):
        put(tmp_path, path)
    left = [("/opt/", "comes_back"), ("/opt/*", "comes_back"), ("/opt/*/b/", "cache"), ("/opt/data/**", "data")]
    left += [("/opt/**/x", "comes_back")]
    found = walk(tmp_path, gpulab=left)
    assert remainder(found) == {"/opt/a/b/kept": (1, 1), "/opt/data/x": (1, 1)}
    assert found.counts == Counter(gpulab=2, cache=1, captured=2), "two directories are in no rule, and empty but for"


def test_a_stray_byte_is_named(tmp_path):
    put(tmp_path, "opt/tool/bin/tool")
    put(tmp_path, "opt/stray", ".")
    put(tmp_path, "opt/vendor/kept")
    found = walk(tmp_path, packages=owned("/", "/opt", "/opt/vendor", "/opt/vendor/kept"))
    assert remainder(found) == {"/opt/stray": (1, 1), "/opt/tool/bin/tool": (1, 1)}


def test_what_is_left_over_as_a_whole_is_one_line_whatever_caches_and_empty_directories_are_in_it(tmp_path):
    put(tmp_path, "home/li/work/model.bin", "12345")
    put(tmp_path, "home/li/work/src/__pycache__/a.pyc")
    put(tmp_path, "home/li/work/src/a.py")
    (tmp_path / "home/li/work/logs/old").mkdir(parents=True)
    (tmp_path / "home/wei/empty").mkdir(parents=True)
    found = walk(tmp_path, ("**/__pycache__/**", "caches"), packages=owned("/", "/home"))
    assert remainder(found) == {"/home/li": (2, 6)}
    assert set(files(found)) == {"/home/wei", "/home/wei/empty"}, "empty directories are kept where nothing else is"


def test_directories_above_captured_files_are_captured(tmp_path):
    put(tmp_path, "home/li/.ssh/authorized_keys", mode=0o600)
    (tmp_path / "home/li").chmod(0o750)
    found = walk(tmp_path, ("~/.ssh/**", Captured("users")), packages=owned("/", "/home"), homes=["/home/li"])
    assert files(found)["/home/li"]["mode"] == "0750"
    assert found.remainder == []


@pytest.mark.parametrize(
    ("text", "mode", "rule", "secret"),
    [
        ("port 22", 0o644, Captured("configuration"), False),
        ("port 22", 0o640, Captured("configuration"), True),
        ("port 22", 0o644, Captured("credentials", secret=True), True),
        ("-----BEGIN OPENSSH PRIVATE KEY-----", 0o644, Captured("configuration"), True),
        ("deb https://li:s3cret@example.org/ stable", 0o644, Captured("configuration"), True),
        ("//registry/:_authToken=abc", 0o644, Captured("configuration"), True),
        ("deb https://example.org/ stable", 0o644, Captured("configuration"), False),
    ],
)
def test_a_secret_has_no_digest(tmp_path, text, mode, rule, secret):
    put(tmp_path, "etc/file", text, mode)
    entry = files(walk(tmp_path, ("/etc/**", rule)))["/etc/file"]
    assert (entry.get("secret", False), "sha256" in entry) == (secret, not secret)


def test_a_secret_far_in_a_file_is_one(tmp_path):
    """The first MiB of a file was all that was looked at."""
    place = tmp_path / "log"
    place.write_bytes(b"-\n" * (3 << 19) + b"aws_secret_access_key = abcdefghijklmnopqrstuvwxyz\n" + b"-\n" * 1000)
    place.chmod(0o644)
    entry = record(Node(tmp_path), "/log", Captured("configuration"))
    assert entry["secret"]
    assert "sha256" not in entry


def test_odd_files_are_told(tmp_path):
    put(tmp_path, "etc/new\nline")
    put(tmp_path, os.fsdecode(b"etc/\xff\xfe"))
    with put(tmp_path, "etc/sparse").open("wb") as stream:
        stream.truncate(1 << 20)
    put(tmp_path, "etc/one")
    (tmp_path / "etc/two").hardlink_to(tmp_path / "etc/one")
    (tmp_path / "etc/link").symlink_to("/nowhere")
    os.mkfifo(tmp_path / "etc/fifo")
    found = walk(tmp_path, ETC)
    entries = files(found)
    assert {"/etc/new\nline", os.fsdecode(b"/etc/\xff\xfe")} <= set(entries)
    assert entries["/etc/sparse"]["sparse"]
    assert entries["/etc/one"]["identity"] == entries["/etc/two"]["identity"]
    assert (entries["/etc/link"]["kind"], entries["/etc/link"]["target"]) == ("link", "/nowhere")
    assert list(map(asdict, found.remainder)) == [
        {"path": "/etc/fifo", "files": 1, "bytes": 0, "owner": "0", "why": "it is neither file, link nor directory"}
    ]


def test_access_lists_capabilities_and_immutable_files_are_told(tmp_path):
    os.setxattr(put(tmp_path, "etc/listed"), "system.posix_acl_access", ACL)
    os.setxattr(put(tmp_path, "etc/able"), "security.capability", b"\1\0\0\2\0\4" + bytes(14))
    immutable = put(tmp_path, "etc/immutable")
    with immutable.open("rb") as stream:
        flags = struct.unpack("l", fcntl.ioctl(stream, GET_FLAGS, struct.pack("l", 0)))[0]
        fcntl.ioctl(stream, SET_FLAGS, struct.pack("l", flags | IMMUTABLE))
    try:
        entries = files(walk(tmp_path, ETC))
    finally:
        with immutable.open("rb") as stream:
            fcntl.ioctl(stream, SET_FLAGS, struct.pack("l", flags))
    assert base64.b64decode(entries["/etc/listed"]["acl"]) == ACL
    assert "capability" in entries["/etc/able"]
    assert entries["/etc/immutable"]["immutable"]
    assert "immutable" not in entries["/etc/able"]


def test_a_file_that_is_too_large_is_left_over_with_the_reason(tmp_path):
    put(tmp_path, "etc/large", "x" * 100)
    found = walk(tmp_path, ETC, largest=99)
    assert [(one.path, one.why) for one in found.remainder] == [("/etc/large", "it is larger than 0 MiB")]
    assert "/etc/large" not in files(found)


def test_other_file_systems_are_not_entered(tmp_path):
    put(tmp_path, "data/dataset")
    put(tmp_path, "etc/hosts")
    found = walk(tmp_path, ETC, mounts=["/data", "/etc/hosts"])
    assert remainder(found) == {}
    assert "/etc/hosts" not in files(found)


def test_a_file_system_in_another_is_walked_once(tmp_path):
    put(tmp_path, "home/li/thesis")
    put(tmp_path, "srv/data")
    found = Walk(Node(tmp_path), owned("/", "/home"), Wishes([]), lambda *_: None).run(["/", "/home"], {"/", "/home"})
    assert remainder(found) == {"/home/li/thesis": (1, 1), "/srv/data": (1, 1)}
    assert found.counts[bins.PACKAGE] == 2


def test_an_environment_covers_what_its_lock_brings_back(tmp_path):
    put(tmp_path, "home/li/venv/pyvenv.cfg")
    put(tmp_path, "home/li/venv/lib/of_a_package")
    put(tmp_path, "home/li/venv/lib/own.py")
    record = SimpleNamespace(path="/home/li/venv")
    environment = SimpleNamespace(record=record, covers=lambda path: path != "lib/own.py")
    found = walk(tmp_path, at=lambda _directory, names: environment if "pyvenv.cfg" in names else None)
    assert found.environments == [record]
    assert remainder(found) == {"/home/li/venv/lib/own.py": (1, 1)}
    assert found.counts[bins.LOCK] == 4  # two directories, two files


def deep(root, top):
    """Make a tree that is deeper than a path can be long, with a file at its end."""
    (root / top).mkdir(parents=True)
    at = os.open(root / top, os.O_RDONLY)
    for _level in range(25):
        os.mkdir("d" * 200, dir_fd=at)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("file", os.O_CREAT, dir_fd=at))
    os.close(at)


def test_a_tree_that_is_too_deep_is_left_over_with_the_reason_unless_nobody_misses_it(tmp_path):
    deep(tmp_path, "srv")
    deep(tmp_path, "var/cache")
    deep(tmp_path, "var/spare")
    found = walk(tmp_path, ("/var/cache/**", "a cache"), acknowledged=[("/var/spare/**", "not needed")])
    (one,) = found.remainder
    assert (one.path[:9], one.files, one.why) == ("/srv/dddd", 1, "it cannot be read: File name too long")


class Vanishing(Node):
    """A node on which a directory is removed after it was listed."""

    def path(self, path):
        """Remove it before it is read."""
        if path == "/srv/going":
            shutil.rmtree(super().path(path), ignore_errors=True)
        return super().path(path)


def test_a_directory_that_is_removed_meanwhile_is_not_left_over(tmp_path):
    put(tmp_path, "srv/going/file")
    put(tmp_path, "srv/stays")
    found = Walk(Vanishing(tmp_path), owned("/", "/srv"), Wishes([]), lambda *_: None).run(["/"], set())
    assert remainder(found) == {"/srv/stays": (1, 1)}


def test_nothing_is_asked_of_a_mount_whose_server_may_not_answer(tmp_path, monkeypatch):
    put(tmp_path, "mnt/nas/file")
    put(tmp_path, "mnt/file")
    asked = []

    @contextlib.contextmanager
    def listing(path):
        with scandir(path) as entries:
            yield [
                SimpleNamespace(name=one.name, stat=lambda one=one, **how: asked.append(one.name) or one.stat(**how))
                for one in entries
            ]

    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", listing)
    found = walk(tmp_path, packages=owned("/", "/mnt"), mounts=["/mnt/nas"])
    assert (set(remainder(found)), "nas" in asked, "file" in asked) == ({"/mnt/file"}, False, True)


def test_a_file_that_grows_or_gives_way_to_a_pipe_does_not_hold_the_walk_up(tmp_path):
    grown = put(tmp_path, "etc/grown", "0123")
    grown.write_text("01234567")
    assert walk_of_nodes._read(str(grown), "/etc/grown", 4)[1] == hashlib.sha256(b"0123").hexdigest()  # noqa: SLF001
    grown.unlink()
    os.mkfifo(grown)
    writer = os.open(grown, os.O_RDWR)
    with pytest.raises(OSError, match="neither file"):
        record(Node(tmp_path), "/etc/grown", None)
    os.close(writer)


def test_what_is_acknowledged_may_lie_in_each_home(tmp_path):
    put(tmp_path, "home/li/scratch/a")
    acknowledged = [("~/scratch/**", "spare")]
    found = walk(tmp_path, packages=owned("/", "/home"), homes=["/home/li"], acknowledged=acknowledged)
    assert remainder(found) == {}


def test_the_owners_of_what_is_of_no_package_are_known(tmp_path):
    os.chown(put(tmp_path, "etc/hers"), 1234, 4321)
    os.chown(put(tmp_path, "srv/his"), 987, 789)
    os.chown(put(tmp_path, "usr/theirs"), 555, 555)
    found = walk(tmp_path, ETC, packages=owned("/", "/usr", "/usr/theirs"))
    assert ({1234, 987} <= found.owners, {4321, 789} <= found.groups, 555 in found.owners) == (True, True, False)


def test_owners_have_the_names_of_the_node(tmp_path):
    put(tmp_path, "etc/passwd", "li:x:1234:4321::/home/li:/bin/sh\n+@netgroup\nodd\n")
    put(tmp_path, "etc/group", "lab:x:4321:\n")
    os.chown(put(tmp_path, "etc/hers"), 1234, 4321)
    os.chown(put(tmp_path, "etc/theirs"), 1235, 4322)  # of LDAP, which may not answer
    entries = files(walk(tmp_path, ETC))
    assert [(entries[path]["owner"], entries[path]["group"]) for path in ("/etc/hers", "/etc/theirs")] == [
        ("li", "lab"),
        ("1235", "4322"),
    ]


def test_nothing_is_changed_not_even_times_of_access(tmp_path):
    place = put(tmp_path, "etc/file")
    os.utime(place, (1, 1))
    before = place.stat()
    walk(tmp_path, ETC)
    after = place.stat()
    assert (before.st_atime, before.st_ctime) == (after.st_atime, after.st_ctime)


def test_contents_are_read_in_parts_and_no_link_is_followed(tmp_path):
    put(tmp_path, "etc/file", "0123456789", 0o600)
    (tmp_path / "link").symlink_to("etc")
    (tmp_path / "etc/other").symlink_to("file")
    assert contents.read(tmp_path, "/etc/file", 3, 4) == {"data": "MzQ1Ng==", "mode": 0o100600}
    for path in ("/link/file", "/etc/other", "/etc/absent", "/etc"):
        assert contents.read(tmp_path, path, 0, 4) is None


def broken(*_):
    raise OSError(errno.EIO, "Input/output error")


def test_a_file_on_a_broken_disk_is_left_over_with_the_reason(tmp_path, monkeypatch):
    put(tmp_path, "etc/file")
    monkeypatch.setattr(walk_of_nodes, "_read", broken)
    found = walk(tmp_path, ETC)
    assert [(one.path, one.why) for one in found.remainder] == [("/etc/file", "it cannot be read: Input/output error")]
    assert "/etc/file" not in files(found)


def test_contents_on_a_broken_disk_are_told_from_files_that_are_gone(tmp_path, monkeypatch):
    put(tmp_path, "etc/file")
    monkeypatch.setattr(os, "pread", broken)
    assert contents.read(tmp_path, "/etc/file", 0, 4) == {"unreadable": "Input/output error"}


def test_files_that_are_left_over_with_their_directory_take_no_memory_one_by_one(tmp_path):
    for directory in ("first", "second"):
        for number in range(300):
            put(tmp_path, f"/srv/{directory}/{number}")
    kept = []

    def at(*_):
        kept.append(sum(isinstance(one, walk_of_nodes._Rest) for one in gc.get_objects()))  # noqa: SLF001

    assert remainder(walk(tmp_path, at=at)) == {"/": (600, 600)}
    assert max(kept) < 10
