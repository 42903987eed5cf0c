"""Who holds a lock: a real process, and tables as the kernel prints them."""

import fcntl
import getpass
import os
import re
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core import locks
from ansible_collections.gpulab.node.plugins.module_utils.core.locks import (
    LockHolder,
    find_holder,
    find_named,
    parse_locks,
)
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

TABLE = """\
1: POSIX  ADVISORY  WRITE 23533 00:45:1820826 0 EOF
1: -> POSIX  ADVISORY  WRITE 23600 00:45:1820826 0 EOF
8: OFDLCK ADVISORY  READ -1 00:06:3 0 EOF
9: FLOCK  ADVISORY  WRITE 77 fe:01:3 0 EOF
"""
HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_the_table_is_read_without_those_that_wait():
    assert parse_locks(TABLE) == {1820826: {23533}, 3: {-1, 77}}


@pytest.fixture
def lock(tmp_path):
    path = tmp_path / "lock"
    path.touch()
    return path


def test_a_real_holder_is_found_and_lets_go(lock):
    argv = [sys.executable, "-c", HOLD, str(lock)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        holder = find_holder((lock,))
        process.stdin.close()
    assert holder.pid == process.pid
    assert str(lock) in str(holder)
    assert "python" in holder.command
    assert find_holder((lock,)) is None


def test_an_open_file_is_no_lock_and_a_missing_one_has_no_holder(lock):
    with lock.open():
        assert find_holder((lock, lock.with_name("absent"))) is None


def played_proc(tmp_path, lock, *, has_open):
    """Make a /proc in which process 7 of a service holds a lock with the inode of the lock file."""
    process = tmp_path / "proc/7"
    (process / "fd").mkdir(parents=True)
    (tmp_path / "proc/locks").write_text(f"1: POSIX  ADVISORY  WRITE 7 fe:01:{lock.stat().st_ino} 0 EOF\n")
    (process / "fd/3").symlink_to(lock if has_open else tmp_path / "other")
    (process / "cmdline").write_text("/usr/bin/python3\0unattended-upgrade\0")
    (process / "cgroup").write_text("0::/system.slice/apt-daily-upgrade.service\n")
    return tmp_path / "proc"


def test_the_unit_of_the_holder_is_named(tmp_path, lock):
    holder = find_holder((lock,), played_proc(tmp_path, lock, has_open=True))
    user = f"of user {getpass.getuser()}"
    said = f"{lock} is held by process 7 (/usr/bin/python3 unattended-upgrade) {user} of apt-daily-upgrade.service"
    assert str(holder) == said


def test_the_same_inode_on_another_file_system_is_not_our_lock(tmp_path, lock):
    assert find_holder((lock,), played_proc(tmp_path, lock, has_open=False)) is None


def test_a_holder_is_one_line_of_bounded_length_whatever_its_command():
    holder = LockHolder(7, "python3 -c " + "x" * 5000, "", "/lock")
    assert len(str(holder)) < 200


def test_a_holders_command_with_line_breaks_is_one_line(lock):
    argv = [sys.executable, "-c", HOLD, str(lock)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        holder = str(find_holder((lock,)))
        process.stdin.close()
    assert "\n" not in holder
    assert "import fcntl, sys file" in holder


def test_a_process_that_a_file_names_is_found_while_it_runs(tmp_path):
    proc = tmp_path / "proc"
    (proc / "77").mkdir(parents=True)
    (proc / "77" / "cmdline").write_text("/usr/bin/python3\0/usr/bin/dnf\0upgrade\0")
    names = tmp_path / "rpmdb_lock.pid"
    for text, found in (("77", "dnf upgrade"), ("78", ""), ("", "")):
        names.write_text(text)
        assert found in str(find_named((tmp_path / "absent", names), proc) or "")
        assert bool(find_named((names,), proc)) is bool(found)


PLUGINS = Path(__file__).parents[3] / "plugins"
# In one place with a deadline, at once or not at all, and in a child that its parent ends in time
TAKES = {"module_utils/core/locks.py", "plugin_utils/capture/store.py", "module_utils/monitoring/collector.py"}


def test_locks_are_taken_in_few_places():
    taking = re.compile(r"fcntl\.(?:flock|lockf)\(|\btake\(desc")
    found = {path for path in PLUGINS.rglob("*.py") if taking.search(path.read_text(encoding="utf-8"))}
    assert {str(path.relative_to(PLUGINS)) for path in found} == TAKES


def test_nobody_else_can_open_a_lock(tmp_path):
    (tmp_path / "locks").mkdir(0o777)
    path = locks.place("run.lock", tmp_path / "locks")
    path.touch(0o666)
    with locks.held(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_lock_is_no_link(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic"), locks.held(tmp_path / "lock"):
        pass
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("take", [fcntl.flock, fcntl.lockf])
def test_a_wait_has_an_end_and_names_the_holder(lock, take):
    hold = HOLD.replace("lockf", take.__name__)
    with subprocess.Popen([sys.executable, "-c", hold, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        began = time.monotonic()
        named = rf"GPULAB-S022 {lock} is held by process {process.pid} \(.*\) of user {getpass.getuser()}"
        with pytest.raises(Refusal, match=named), locks.held(lock, 0.3, take):
            pass
        assert 0.3 <= time.monotonic() - began < 5
        process.stdin.close()
    with locks.held(lock, 0.3, take):
        assert os.access(lock, os.W_OK)
