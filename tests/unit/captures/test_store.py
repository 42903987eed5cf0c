"""A capture is written whole or not at all, and what is read is what was written."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import captures, secrets, signature, store
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import rebuild_state as states

from .captured import CANARY, FILES, MADE, SECRETS, capture, contents, manifest

CHANGED = {**FILES, "/etc/fstab": b"UUID=2 / ext4 defaults 0 1\n"}


@pytest.fixture
def place(tmp_path):
    return tmp_path / "captures/node07"


@pytest.fixture
def directory(place):
    return place.parent


def refused(call, *arguments, **more):
    with pytest.raises(Refusal) as caught:
        call(*arguments, **more)
    return caught.value


def left_over(place):
    return [path.name for path in place.iterdir() if path.name.startswith(".") and path.name != ".lock"]


def inode(captured, path):
    return captured.content(path).stat().st_ino


# what is written


@pytest.mark.parametrize("kind", ["vault", "age"])
def test_a_capture_comes_back_as_it_was(kind, request, directory, place):
    cipher = request.getfixturevalue(kind)
    capture(directory, cipher)
    found = captures.latest(place)
    found.verify()
    assert found.path == place / "20261126T132500Z"
    assert {path: found.content(path).read_bytes() for path in FILES} == FILES
    assert found.document == manifest(FILES, SECRETS)
    assert found.secrets(cipher) == SECRETS
    assert left_over(place) == []


def test_secrets_are_nowhere_but_in_the_archive(directory, vault):
    assert CANARY in b"".join(capture(directory, vault).secrets(vault).values())
    found = contents(directory)
    assert b"UUID=1" in found
    assert CANARY not in found


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_everything_is_for_its_owner_alone_whatever_the_umask(umask, directory, vault):
    former = os.umask(umask)
    try:
        capture(directory, vault)
    finally:
        os.umask(former)
    modes = {
        (path.is_dir(), stat.S_IMODE(path.lstat().st_mode)) for path in directory.rglob("*") if not path.is_symlink()
    }
    assert modes == {(True, 0o700), (False, 0o600)}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_directory_of_the_host_that_others_may_read_is_closed(directory, place, vault):
    place.mkdir(parents=True)
    place.chmod(0o755)
    capture(directory, vault)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


def test_a_path_is_stored_once(directory):
    with store.open_store(directory, "node07", 14) as opened:
        opened.put("/etc/fstab", b"1")
        assert refused(opened.put, "/etc/fstab", b"2").code == "R020"


def test_a_host_whose_name_is_a_path_stays_in_the_directory(directory):
    assert captures.place(directory, "../../etc").parent == directory
    assert captures.place(directory, "node07") == directory / "node07"


def test_a_path_that_leads_out_is_refused(directory):
    with store.open_store(directory, "node07", 14) as opened:
        for path in ("/../../x", "../x", "//x", "/etc/../../x"):
            assert refused(opened.put, path, b"x").code == "R006"
    assert not list(directory.rglob("x"))


def test_a_disk_that_is_full_is_refused_and_the_latest_stays(directory, place, vault, monkeypatch):
    capture(directory, vault)

    def full(_descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    refusal = refused(capture, directory, vault, CHANGED)
    assert refusal.code == "R020"
    assert "No space left" in refusal.cause
    assert captures.latest(place).document == manifest(FILES, SECRETS)
    assert left_over(place) == []


def test_a_directory_that_cannot_be_made_is_refused(tmp_path, vault):
    (tmp_path / "captures").write_text("a file")
    assert refused(capture, tmp_path / "captures", vault).code == "R020"


def test_what_does_not_read_back_is_no_capture(directory, place, vault, monkeypatch):
    capture(directory, vault)
    real = store.own_files.write

    def write(path, data):
        real(path, data[:-1] if path.name == "fstab" else data)

    monkeypatch.setattr(store.own_files, "write", write)
    assert refused(capture, directory, vault, CHANGED).code == "R006"
    assert captures.names(place) == ["20261126T132500Z"]
    assert left_over(place) == []


@pytest.mark.parametrize("held", [{}, {**SECRETS, "/etc/more": b"x"}])
def test_an_archive_without_just_the_secrets_of_the_manifest_is_no_capture(held, directory, vault):
    with store.open_store(directory, "node07", 14) as opened:
        assert refused(opened.finish, manifest({}, SECRETS), held, vault).code == "R006"


def test_without_a_private_key_the_secrets_are_still_those_of_the_manifest(directory, age_key):
    with store.open_store(directory, "node07", 14) as opened:
        blind = secrets.Age("node07", [age_key[0]])
        assert refused(opened.finish, manifest({}, SECRETS), {}, blind).code == "R006"


def test_an_archive_that_decrypts_to_something_else_is_no_capture(directory, vault, monkeypatch):
    monkeypatch.setattr(vault, "unpack", lambda *_: dict.fromkeys(SECRETS, b""))
    assert refused(capture, directory, vault).code == "R006"


def test_without_a_private_key_the_archive_is_compared_as_it_is(directory, age_key):
    blind = secrets.Age("node07", [age_key[0]])
    assert capture(directory, blind).secrets(secrets.Age("node07", identity=age_key[1])) == SECRETS


def test_all_is_on_the_disk_before_the_capture_has_its_name(directory, place, vault, monkeypatch):
    synced, found = set(), {}
    real_fsync, real_rename, real_replace = os.fsync, Path.rename, Path.replace

    def fsync(descriptor):
        synced.add(Path(f"/proc/self/fd/{descriptor}").readlink())
        real_fsync(descriptor)

    def rename(path, target):
        found["to write"] = {path, *path.rglob("*")} - synced
        real_rename(path, target)
        synced.clear()

    def replace(path, target):
        found["name"] = {place} - synced
        real_replace(path, target)
        synced.clear()

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", rename)
    monkeypatch.setattr(Path, "replace", replace)
    capture(directory, vault)
    assert found == {"to write": set(), "name": set()}
    assert synced == {place}


# what was there before


def test_a_second_capture_takes_space_only_for_what_changed(directory, vault):
    first = capture(directory, vault)
    second = capture(directory, vault, CHANGED, made="2026-11-27T13:25:00Z")
    shared = {path for path in FILES if inode(first, path) == inode(second, path)}
    assert shared == FILES.keys() - {"/etc/fstab"}
    assert second.content("/etc/fstab").read_bytes() == CHANGED["/etc/fstab"]
    assert first.content("/etc/fstab").read_bytes() == FILES["/etc/fstab"]
    first.verify()
    second.verify()


def test_what_is_known_need_not_be_read_from_the_node(directory, vault):
    first = capture(directory, vault)
    sums = {one["sha256"] for one in first.manifest.files if "sha256" in one}
    with store.open_store(directory, "node07", 14) as opened:
        assert opened.known.keys() == sums
        for one in first.manifest.files:
            if "sha256" in one:
                opened.link(one["path"], one["sha256"])
        second = opened.finish(manifest(FILES, SECRETS), SECRETS, vault)
    assert {path: second.content(path).read_bytes() for path in FILES} == FILES


@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_a_former_file_that_was_changed_is_not_linked(damage, directory, vault):
    first = capture(directory, vault)
    broken = first.content("/etc/fstab")
    broken.write_bytes(b"turned") if damage == "changed" else broken.unlink()
    with store.open_store(directory, "node07", 14) as opened:
        assert len(opened.known) == len(FILES) - 1
        assert len(opened.damage) == 1
        assert "fstab" in opened.damage[0]
    second = capture(directory, vault, made="2026-11-27T13:25:00Z")
    assert second.content("/etc/fstab").read_bytes() == FILES["/etc/fstab"]
    assert inode(first, "/etc/empty") == inode(second, "/etc/empty")


def test_a_former_capture_that_is_damaged_does_not_hinder_the_next(directory, place, vault):
    (capture(directory, vault).path / "manifest.json").write_text("{}")
    with store.open_store(directory, "node07", 14) as opened:
        assert opened.known == {}
        assert "manifest.json was changed" in opened.damage[0]
    capture(directory, vault, made="2026-11-27T13:25:00Z")
    captures.latest(place).verify()


def test_a_file_with_no_more_links_is_written_again(directory, vault, monkeypatch):
    first = capture(directory, vault)

    def no_more(*_):
        raise OSError(errno.EMLINK, os.strerror(errno.EMLINK))

    monkeypatch.setattr(Path, "hardlink_to", no_more)
    second = capture(directory, vault, made="2026-11-27T13:25:00Z")
    assert second.content("/etc/fstab").read_bytes() == FILES["/etc/fstab"]
    assert inode(first, "/etc/fstab") != inode(second, "/etc/fstab")


def test_two_captures_of_one_second_have_names_of_their_own(directory, place, vault):
    capture(directory, vault)
    assert capture(directory, vault).path.name == "20261126T132501Z"
    assert captures.latest(place).path.name == "20261126T132501Z"


def test_the_oldest_captures_are_removed(directory, place, vault):
    for day in range(1, 6):
        capture(directory, vault, made=f"2026-11-0{day}T00:00:00Z", keep=3)
    assert captures.names(place) == [f"2026110{day}T000000Z" for day in (3, 4, 5)]
    captures.latest(place).verify()


def test_the_newest_capture_is_kept_even_when_the_clock_went_back(directory, place, vault):
    for day in (5, 4, 1):
        capture(directory, vault, made=f"2026-11-0{day}T00:00:00Z", keep=1)
    assert captures.names(place) == ["20261101T000000Z"]
    captures.latest(place).verify()


def test_the_capture_that_a_node_comes_back_from_is_kept_until_it_is_proven(directory, place, vault):
    """A capture of the half-rebuilt node must not be all that is left."""
    capture(directory, vault, made="2026-11-01T00:00:00Z", keep=1)
    states.advance(place, states.State("node07", "20261101T000000Z", "0" * 16, "software"))
    for day in (2, 3):
        capture(directory, vault, made=f"2026-11-0{day}T00:00:00Z", keep=1)
    assert captures.names(place) == ["20261101T000000Z", "20261103T000000Z"]
    states.advance(place, states.State("node07", "20261101T000000Z", "0" * 16, "proven"))
    capture(directory, vault, made="2026-11-04T00:00:00Z", keep=1)
    assert captures.names(place) == ["20261104T000000Z"]


def test_a_record_of_the_rebuild_that_cannot_be_read_lets_all_captures_stay(directory, place, vault):
    capture(directory, vault, made="2026-11-01T00:00:00Z", keep=1)
    (place / states.FILE).write_text("{")
    capture(directory, vault, made="2026-11-02T00:00:00Z", keep=1)
    assert captures.names(place) == ["20261101T000000Z", "20261102T000000Z"]


def test_what_is_no_capture_is_left_alone(directory, place, vault):
    capture(directory, vault)
    (place / "notes.txt").write_text("of the operator")
    (place / "copy").mkdir()
    capture(directory, vault, made="2026-11-27T13:25:00Z", keep=1)
    assert captures.names(place) == ["20261127T132500Z"]
    assert (place / "notes.txt").is_file()
    assert (place / "copy").is_dir()


# two at once, and killed ones


def test_a_second_writer_is_refused_until_the_first_ends(directory, vault):
    with store.open_store(directory, "node07", 14) as first:
        first.put("/etc/fstab", b"1")
        refusal = refused(capture, directory, vault)
        assert refusal.code == "R017"
        assert "node07" in refusal.cause
        with store.open_store(directory, "node08", 14):
            pass
        assert list(directory.rglob("fstab"))  # the refused one has removed nothing
    capture(directory, vault)


def run_killed(directory, vault, at):
    """Write a capture in a child that is killed at its n-th step on files; tell whether it was."""
    pid = os.fork()
    if pid == 0:
        try:
            sys.addaudithook(Killer(at).step)
            capture(directory, vault, CHANGED, made="2026-11-27T13:25:00Z", keep=2)
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitpid(pid, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


class Killer:
    """Counts the steps on files, and kills its own process at one of them."""

    def __init__(self, at):
        """Let so many pass."""
        self._left = at

    def step(self, event, _arguments):
        """Be called for each event of the interpreter."""
        if event == "open" or event.startswith(("os.", "shutil.")):
            self._left -= 1
            if self._left == -1:
                os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_killed_at_any_step_the_latest_capture_is_whole_and_the_next_run_cleans_up(tmp_path, vault):
    model, seen = tmp_path / "model", set()
    for day in (24, 25):
        capture(model, vault, made=f"2026-11-{day}T13:25:00Z")
    for at in range(1000):
        directory = tmp_path / "captures"
        shutil.copytree(model, directory, symlinks=True)
        place, killed = directory / "node07", run_killed(directory, vault, at)
        assert CANARY not in contents(directory)
        found = captures.latest(place)
        found.verify()
        assert found.secrets(vault) == SECRETS
        seen.add((found.path.name, *sorted(left_over(place))))
        capture(directory, vault, CHANGED, made="2026-11-28T13:25:00Z", keep=2)
        captures.latest(place).verify()
        assert left_over(place) == []
        for name in captures.names(place):
            captures.read(place / name).verify()
        shutil.rmtree(directory)
        if not killed:
            break
    assert not killed
    # it was killed before anything, while it wrote, before the link, and while it removed the oldest
    old, new = "20261125T132500Z", "20261127T132500Z"
    assert {(old,), (old, ".new"), (old, ".new.latest"), (new, ".old.20261124T132500Z"), (new,)} <= seen


# what is read


def turned(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


BREAKS = {
    "a turned byte of the manifest": lambda path: turned(path / "manifest.json"),
    "a turned byte of the sums": lambda path: turned(path / "SHA256SUMS"),
    "a turned byte of a file": lambda path: turned(path / "files/etc/fstab"),
    "a turned byte of the archive": lambda path: turned(path / "secrets.vault"),
    "a truncated archive": lambda path: os.truncate(path / "secrets.vault", 100),
    "a truncated file": lambda path: os.truncate(path / "files/etc/fstab", 3),
    "a missing file": lambda path: (path / "files/etc/fstab").unlink(),
    "a missing archive": lambda path: (path / "secrets.vault").unlink(),
    "a missing manifest": lambda path: (path / "manifest.json").unlink(),
    "missing sums": lambda path: (path / "SHA256SUMS").unlink(),
    "empty sums": lambda path: os.truncate(path / "SHA256SUMS", 0),
    "missing files": lambda path: shutil.rmtree(path / "files"),
    "an extra file": lambda path: (path / "files/etc/more").write_text("x"),
    "an extra file beside the manifest": lambda path: (path / "more").write_text("x"),
    "a link for a file": lambda path: replaced(path / "files/etc/fstab", lambda one: one.symlink_to("/etc/fstab")),
    "a dead link": lambda path: (path / "files/etc/more").symlink_to("nowhere"),
    "a link for a directory": lambda path: moved(path / "files"),
    "a pipe": lambda path: replaced(path / "files/etc/fstab", os.mkfifo),
    "a directory for a file": lambda path: replaced(path / "files/etc/fstab", Path.mkdir),
}


# What the signature tells, before anything else is looked at.
BY_SIGNATURE = {"a turned byte of the sums", "empty sums"}


def signed_again(path):
    """Sign a capture that a test has changed, as only its owner can."""
    sums = (path / "SHA256SUMS").read_bytes()
    (path / signature.NAME).write_bytes(signature.signed(sums, path.parent.name, path.name))


def replaced(path, make):
    path.unlink()
    make(path)


def moved(path):
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to("../elsewhere")


@pytest.mark.parametrize("damage", BREAKS)
def test_a_damaged_capture_is_refused(damage, directory, place, vault):
    path = capture(directory, vault).path
    BREAKS[damage](path)

    def look():
        captures.latest(place).verify()

    refusal = refused(look)
    assert refusal.code == ("R086" if damage in BY_SIGNATURE else "R006")
    assert "20261126T132500Z" in refusal.cause


def test_a_device_in_a_capture_is_refused(directory, place, vault):
    path = capture(directory, vault).path / "files/etc/null"
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("this user cannot make device nodes")
    assert refused(captures.latest(place).verify).code == "R006"


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [*lines, f"{'0' * 64}  ../../other"],
        lambda lines: [*lines, f"{'0' * 64}  secrets.age"],
        lambda lines: lines[:1],
        lambda lines: lines[1:],
        lambda _lines: [],
    ],
    ids=["another file", "two archives", "no archive", "no manifest", "nothing"],
)
def test_sums_that_name_other_files_are_refused(change, directory, place, vault):
    path = capture(directory, vault).path / "SHA256SUMS"
    path.write_text("".join(f"{line}\n" for line in change(path.read_text().splitlines())))
    assert refused(captures.latest, place).code == "R086"
    signed_again(path.parent)
    assert refused(captures.latest, place).code == "R006"


def test_an_archive_of_another_capture_is_refused(directory, vault):
    first = capture(directory, vault, secrets={"/etc/other": CANARY})
    second = capture(directory, vault, made="2026-11-27T13:25:00Z")
    shutil.copy(first.archive, second.archive)
    assert refused(second.verify).code == "R006"
    assert refused(second.secrets, vault).code == "R006"


def test_a_newer_schema_is_refused(directory, place, vault, monkeypatch):
    with monkeypatch.context() as later:
        later.setattr("ansible_collections.gpulab.node.plugins.plugin_utils.capture.manifest.SCHEMA", 2)
        capture(directory, vault, schema=2)
    assert refused(captures.latest, place).code == "R018"


def test_a_host_without_captures_has_no_latest(place):
    assert captures.latest(place) is None
    assert captures.names(place) == []


def test_a_latest_that_leads_nowhere_is_refused(directory, place, vault):
    shutil.rmtree(capture(directory, vault).path)
    assert refused(captures.latest, place).code == "R006"


def test_sha256sum_checks_a_capture(directory, vault):
    path = capture(directory, vault).path
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=path, check=True, capture_output=True)


def test_the_time_names_the_capture(directory, vault):
    assert capture(directory, vault).manifest.made == MADE
