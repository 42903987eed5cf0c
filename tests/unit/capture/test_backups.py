"""A backup counts for the files that it holds as they are now, and only where it can be read back."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.capture import backup_programs, backups
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

PASSWORD = "correct horse canary"  # noqa: S105 - of a test
PROGRAMS = ("restic", "borg")
ENVIRONMENT = {"RESTIC_PASSWORD": PASSWORD, "BORG_PASSPHRASE": PASSWORD, "LC_ALL": "C.UTF-8"}


@pytest.fixture
def place():
    """Return a directory whose file system keeps nanoseconds."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


@pytest.fixture
def home(place):
    """Return /home of a node: ordinary files, odd names, links, hard links."""
    home = place / "home"
    for user in ("wei", "ada"):
        for number in range(4):
            (home / user / "data").mkdir(parents=True, exist_ok=True)
            (home / user / "data" / f"{number}.txt").write_text(f"{user} {number}\n")
    (home / "wei/odd\nname").write_text("newline")
    (home / "wei/odd name ").write_text("blanks")
    (home / "wei/*").write_text("star")
    (home / "wei/empty").touch()
    (home / "wei/link").symlink_to("data/0.txt")
    (home / "wei/hard").hardlink_to(home / "wei/data/1.txt")
    return home


@pytest.fixture
def other_disk(monkeypatch):
    """Let nothing of what tests write be on the root disk."""
    monkeypatch.setattr(backups.homes.Places, "on_root_disk", lambda *_: False)


@pytest.fixture
def save(place, home, request):
    """Return what makes a backup with a program, and gives its receipt."""
    request.getfixturevalue("other_disk")
    (place / "password").write_text(PASSWORD)

    def save(program, *arguments, path=home, count=1):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")
        repository = place / program
        environment = {
            **os.environ,
            **ENVIRONMENT,
            "BORG_BASE_DIR": str(place),
            "RESTIC_CACHE_DIR": str(place / "cache"),
        }
        begin = ["restic", "init", "-r", repository]
        argv = ["restic", "backup", "-r", repository, *arguments, path]
        if program == "borg":
            begin = ["borg", "init", "-e", "repokey", repository]
            argv = ["borg", "create", *arguments, f"{repository}::snapshot-{count}", path]
        for command in [argv] if repository.exists() else [begin, argv]:
            subprocess.run(command, env=environment, check=True, capture_output=True)
        return receipt(program, repository, path, place / "password")

    return save


def receipt(program, repository, path, password_file=None):
    found = {"path": str(path), "program": program, "repository": str(repository)}
    return {**found, "password_file": str(password_file)} if password_file else found


def covered(found, home):
    """Return what of a home a backup holds as it is now."""
    return {path for path in home.rglob("*") if found.covers(str(path), path.lstat())}


def refused(one):
    with pytest.raises(Refusal) as caught:
        backups.read(Node(), [one])
    return caught.value


# restic and Borg, for real


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_snapshot_holds_all_that_it_was_given(program, save, home):
    found = backups.read(Node(), [save(program)])
    everything = set(home.rglob("*"))
    assert covered(found, home) == everything
    (record,) = found.records
    files = [path for path in everything if path.is_file() and not path.is_symlink()]
    assert record["files"] == len(files)
    assert record["bytes"] >= sum(
        path.stat().st_size for path in set(files) - {home / "wei/hard", home / "wei/data/1.txt"}
    )
    assert record["read_back"] == 5
    assert 0 <= record["age_hours"] < 1
    assert record["snapshot"]
    assert record["taken"].endswith("Z")


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_time_zone_of_the_node_does_not_matter(program, save, home, monkeypatch):
    monkeypatch.setenv("TZ", "<+08>-8")
    found = backups.read(Node(), [save(program)])
    assert covered(found, home) == set(home.rglob("*"))
    assert 0 <= found.records[0]["age_hours"] < 1


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_changed_since_or_was_left_out_is_not_covered(program, save, home):
    given = save(program, "--exclude", str(home / "ada/data"))
    old = (home / "wei/data/0.txt").stat()
    (home / "wei/data/0.txt").write_text("WEI 0\n")  # as long as before, and as old
    os.utime(home / "wei/data/0.txt", ns=(old.st_atime_ns, old.st_mtime_ns))
    (home / "wei/data/2.txt").write_text("longer than before")
    (home / "wei/new").touch()
    (home / "wei/empty").unlink()
    (home / "wei/empty").mkdir()
    (home / "wei/link").unlink()
    (home / "wei/link").symlink_to("data/3.txt")
    missing = {home / "wei" / name for name in ("data/0.txt", "data/2.txt", "new", "empty", "link")}
    missing |= {home / "ada/data", *(home / "ada/data").iterdir()}
    found = backups.read(Node(), [given])
    assert covered(found, home) == set(home.rglob("*")) - missing


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_newest_snapshot_counts(program, save, home):
    save(program)
    (home / "wei/data/0.txt").write_text("changed")
    (home / "wei/new").touch()
    found = backups.read(Node(), [save(program, count=2)])
    assert covered(found, home) == set(home.rglob("*"))


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_newer_snapshot_of_something_else_does_not_count(program, save, home, place):
    given = save(program)
    (place / "other").mkdir()
    save(program, path=place / "other", count=2)
    assert covered(backups.read(Node(), [given]), home) == set(home.rglob("*"))


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_snapshot_of_the_directory_above_counts(program, save, home):
    given = save(program, path=home.parent / "home")
    found = backups.read(Node(), [{**given, "path": str(home / "wei")}])
    assert covered(found, home) == set((home / "wei").rglob("*")) | {home / "wei"}


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_snapshot_of_another_host_does_not_count(program, save, monkeypatch):
    given = save(program)
    monkeypatch.setattr(socket, "gethostname", lambda: "node08")
    refusal = refused(given)
    assert refusal.code == "R019"
    assert "node08" in refusal.cause


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_path_that_is_in_no_snapshot_is_refused(program, save, place):
    assert refused({**save(program), "path": str(place / "elsewhere")}).code == "R019"


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_damaged_repository_is_refused(program, save, place):
    given = save(program)
    for pack in (place / program / "data").rglob("*"):
        if pack.is_file():
            data = bytearray(pack.read_bytes())
            data[len(data) // 3 : len(data) // 2] = bytes(len(data) // 2 - len(data) // 3)
            pack.chmod(0o600)
            pack.write_bytes(data)
    assert refused(given).code == "R019"


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_wrong_password_is_refused(program, save, place):
    given = save(program)
    (place / "password").write_text("wrong")
    refusal = refused(given)
    assert refusal.code == "R019"
    assert program in refusal.cause
    assert refused({key: value for key, value in given.items() if key != "password_file"}).code == "R019"


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_password_is_in_no_argument_and_no_result(program, save, place, monkeypatch):
    given, notes, real = save(program), place / "notes", shutil.which(program)
    (place / "bin").mkdir()
    (place / "bin" / program).write_text(f'#!/bin/sh\necho "$0 $@" >>{notes}\nenv >>{notes}\nexec {real} "$@"\n')
    (place / "bin" / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{place / 'bin'}:{os.environ['PATH']}")
    found = backups.read(Node(), [given])
    assert str(place / "password") in notes.read_text()
    assert PASSWORD not in notes.read_text() + str(found.records)
    assert str(place / program) not in "".join(line for line in notes.open() if line.startswith(str(place)))


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_neither_repository_nor_node_is_changed(program, save, place, monkeypatch):
    given = save(program)
    monkeypatch.setenv("HOME", str(place / "root"))

    def state():
        return {(str(path), path.lstat().st_mtime_ns) for path in place.rglob("*")}

    before = state()
    backups.read(Node(), [given])
    assert state() == before


@pytest.mark.slow
def test_a_program_that_hangs_is_refused(save, place, monkeypatch):
    given = save("restic")
    (place / "bin").mkdir()
    (place / "bin/restic").write_text("#!/bin/sh\nexec sleep 60\n")
    (place / "bin/restic").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(backup_programs, "DEADLINE", 0.3)
    refusal = refused(given)
    assert refusal.code == "R019"
    assert "in time" in refusal.cause


@pytest.mark.usefixtures("other_disk")
@pytest.mark.parametrize("printed", ["", "{}", "[1]", "no JSON", '{"archives": [{}]}'])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_that_says_something_else_is_refused(program, printed, place, monkeypatch):
    (place / program).write_text(f"#!/bin/sh\necho '{printed}'\n")
    (place / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    assert refused(receipt(program, "/repository", "/home")).code == "R019"


# what a snapshot has to say of a file, so that it counts


class Told(backup_programs.Program):
    """A repository with one snapshot of this host, of one file."""

    name, rounding = "told", 1_000

    def __init__(self, path, saved):
        """Say this of the file."""
        super().__init__({})
        self._found = (str(path), saved)

    def snapshots(self):
        """Return the one."""
        return [(socket.gethostname(), backup_programs.Snapshot("1", "2026-11-26T13:25:00Z"))]

    def files(self, _snapshot, _path):
        """Return the one file."""
        return [self._found]


@pytest.mark.parametrize(
    ("field", "by", "counts"),
    [
        ("size", 0, True),
        ("size", None, True),
        ("size", 1, False),
        ("mtime", 1_000, True),
        ("mtime", 1_001, False),
        ("mtime", -1_001, False),
        ("ctime", 1_000, True),
        ("ctime", 1_001, False),
        ("ctime", -1_001, False),
        ("kind", stat.S_IFLNK - stat.S_IFREG, False),
    ],
)
def test_a_file_counts_only_as_it_is_now(field, by, counts, home):
    path = home / "wei/data/0.txt"
    status = path.stat()
    saved = backup_programs.Saved(stat.S_IFREG, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    saved = saved._replace(**{field: None if by is None else getattr(saved, field) + by})
    found = backups.Kept(receipt("told", "/repository", home), Told(path, saved))
    assert found.covers(str(path), status) is counts


# what is refused before a program is started


@pytest.mark.usefixtures("other_disk")
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_that_is_not_installed_is_refused(program, place, monkeypatch):
    monkeypatch.setenv("PATH", str(place))
    refusal = refused(receipt(program, "/repository", "/home"))
    assert refusal.code == "R019"
    assert "not installed" in refusal.cause


@pytest.mark.parametrize("repository", ["rest:https://wei:s3cretword@backup/", "ssh://wei:s3cretword@backup/repo"])
def test_a_password_in_the_address_is_refused(repository):
    refusal = refused(receipt("restic", repository, "/home"))
    assert refusal.code == "I031"
    assert "s3cretword" not in str(refusal)


@pytest.mark.parametrize("program", ["restic", "borg", "rsync"])
@pytest.mark.parametrize("scheme", ["", "local:", "file://"])
def test_a_backup_on_the_root_disk_is_refused(program, scheme):
    refusal = refused(receipt(program, f"{scheme}/", "/home"))
    assert refusal.code == "R019"
    assert "root disk" in refusal.cause


@pytest.mark.usefixtures("other_disk")
def test_a_password_file_that_is_not_there_is_refused(place):
    refusal = refused(receipt("restic", "/repository", "/home", place / "none"))
    assert refusal.code == "R019"
    assert "none" in refusal.cause


# copies by rsync: of a copy, only its files are looked at


@pytest.fixture
def copied(place, home, request):
    request.getfixturevalue("other_disk")
    subprocess.run(["cp", "-a", home, place / "copy"], check=True)
    return receipt("rsync", place / "copy", home)


def test_a_copy_holds_all_that_it_was_given(copied, home):
    found = backups.read(Node(), [copied])
    assert covered(found, home) == set(home.rglob("*"))
    assert found.records[0]["read_back"] == 5
    assert found.records[0]["snapshot"] is None


def test_what_is_not_in_the_copy_as_it_is_now_is_not_covered(copied, home, place):
    (home / "wei/data/0.txt").write_text("longer than before")
    (home / "wei/data/2.txt").touch()
    old = (home / "wei/data/3.txt").stat()
    (home / "wei/data/3.txt").write_text("longer than before, and as old")
    os.utime(home / "wei/data/3.txt", ns=(old.st_atime_ns, old.st_mtime_ns))
    (home / "wei/new").touch()
    (place / "copy/ada/data/3.txt").unlink()
    (place / "copy/wei/odd name ").unlink()
    (place / "copy/wei/odd name ").mkdir()
    missing = {home / "wei" / name for name in ("data/0.txt", "data/2.txt", "data/3.txt", "new", "odd name ")}
    missing |= {home / "ada/data/3.txt"}
    assert covered(backups.read(Node(), [copied]), home) == set(home.rglob("*")) - missing


def test_a_copy_on_a_file_system_with_whole_seconds_holds_its_files(copied, home, place):
    for path in (place / "copy").rglob("*"):
        seconds = int(path.lstat().st_mtime_ns // 10**9 * 10**9)
        os.utime(path, ns=(seconds, seconds), follow_symlinks=False)
    assert covered(backups.read(Node(), [copied]), home) == set(home.rglob("*"))


def test_a_copy_whose_content_differs_is_refused(copied, place):
    for path in (place / "copy").rglob("*.txt"):
        status = path.stat()
        path.write_bytes(b"x" * status.st_size)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    refusal = refused(copied)
    assert refusal.code == "R019"
    assert "not what the node has" in refusal.cause


@pytest.mark.usefixtures("other_disk")
@pytest.mark.parametrize("repository", ["backup:/srv/home", "copy", ""])
def test_a_copy_that_is_no_directory_of_the_node_is_refused(repository):
    assert refused(receipt("rsync", repository, "/home")).code == "R019"


@pytest.mark.usefixtures("other_disk")
def test_a_copy_that_is_not_there_is_refused(place):
    assert refused(receipt("rsync", place / "none", "/home")).code == "R019"


def test_a_file_system_that_does_not_answer_is_refused(copied, monkeypatch):
    monkeypatch.setattr(backups, "PATIENCE", 0.2)
    monkeypatch.setattr(backups, "Path", lambda _: SimpleNamespace(is_dir=lambda: time.sleep(60)))
    refusal = refused(copied)
    assert "does not answer" in refusal.cause


# what all have in common


def test_what_is_beside_the_path_is_not_covered(copied, home):
    found = backups.read(Node(), [{**copied, "path": str(home / "wei"), "repository": f"{copied['repository']}/wei"}])
    beside = home / "wei2"
    shutil.copytree(home / "wei", beside, symlinks=True)
    shutil.copytree(home / "wei", f"{copied['repository']}/wei2", symlinks=True)
    assert not covered(found, beside)
    assert covered(found, home / "wei")


def test_without_receipts_nothing_is_covered(home):
    found = backups.read(Node(), [])
    assert found.records == []
    assert covered(found, home) == set()


def test_a_device_is_not_taken_for_a_file(copied, home, place):
    (place / "copy/wei/empty").unlink()
    os.mkfifo(place / "copy/wei/empty")
    status = (home / "wei/empty").stat()
    os.utime(place / "copy/wei/empty", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert stat.S_ISFIFO((place / "copy/wei/empty").stat().st_mode)
    assert home / "wei/empty" not in covered(backups.read(Node(), [copied]), home)


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("1970-01-01T00:00:01Z", 10**9),
        ("1970-01-01T00:00:01.000000001Z", 10**9 + 1),
        ("1970-01-01T01:00:01.5+01:00", 1_500_000_000),
        ("1970-01-01T00:00:01.262722", 1_262_722_000),
        ("1969-12-31T23:59:59.5Z", -500_000_000),
    ],
)
def test_times_are_read_to_the_nanosecond(time, expected):
    assert backup_programs.nanoseconds(time) == expected
