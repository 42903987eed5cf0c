"""A child with a deadline: what it says arrives, and nothing it does holds its parent up."""

import os
import signal
import subprocess
import sys
import time

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core import child
from ansible_collections.gpulab.node.plugins.module_utils.core.child import DIED, DONE, LATE, Child, was_killed


def test_what_the_child_says_arrives():
    started = Child(lambda emit: [emit(n) for n in ({"a": 1}, "ü" * 100_000, None)], 5)
    assert started.wait() == DONE
    assert started.messages == [{"a": 1}, "ü" * 100_000, None]


def test_late_child_is_killed_and_what_it_said_is_kept():
    def work(emit):
        emit("first")
        time.sleep(60)
        emit("second")

    before = time.monotonic()
    started = Child(work, 0.2)
    assert started.wait() == LATE
    assert time.monotonic() - before < 1
    assert started.messages == ["first"]


def test_time_runs_from_the_start_not_from_the_wait():
    started = Child(lambda _emit: time.sleep(60), 0.2)
    time.sleep(0.3)
    before = time.monotonic()
    assert started.wait() == LATE
    assert time.monotonic() - before < 0.2


def test_unkillable_child_does_not_hold_the_parent(monkeypatch):
    """A process in state D ignores even SIGKILL; here the kill is left out instead."""
    pids = []
    monkeypatch.setattr(child.os, "kill", lambda pid, _signal: pids.append(pid))
    before = time.monotonic()
    started = Child(lambda _emit: time.sleep(30), 0.2)
    assert started.wait() == LATE
    assert time.monotonic() - before < 1
    monkeypatch.undo()
    os.kill(pids[0], signal.SIGKILL)
    os.waitpid(pids[0], 0)


def test_child_stuck_at_its_very_end_does_not_hold_the_parent(monkeypatch):
    """Closing a wedged device happens at exit, after all was said."""
    pids = []
    monkeypatch.setattr(child.os, "kill", lambda pid, _signal: pids.append(pid))
    monkeypatch.setattr(child.os, "_exit", lambda _status: time.sleep(30))
    before = time.monotonic()
    started = Child(lambda emit: emit("all"), 5)
    assert started.wait() == DONE
    assert started.messages == ["all"]
    assert time.monotonic() - before < 1
    monkeypatch.undo()
    os.kill(pids[0], signal.SIGKILL)
    os.waitpid(pids[0], 0)


def test_crash_is_told_with_its_signal():
    started = Child(lambda _emit: os.kill(os.getpid(), signal.SIGSEGV), 5)
    assert started.wait() == DIED
    assert started.reason == "the reading process died (signal 11)"


@pytest.mark.parametrize(("number", "killed"), [(signal.SIGKILL, True), (signal.SIGSEGV, False)])
def test_a_child_that_was_killed_is_told_from_one_that_crashed(number, killed):
    started = Child(lambda _emit: os.kill(os.getpid(), number), 5)
    assert started.wait() == DIED
    assert was_killed(started.reason) is killed


def test_exception_is_told():
    started = Child(lambda _emit: {}["key"], 5)
    assert started.wait() == DIED
    assert started.reason == "KeyError: 'key'"


def test_emitting_what_json_cannot_hold_is_told():
    started = Child(lambda emit: emit(object()), 5)
    assert started.wait() == DIED
    assert started.reason.startswith("TypeError: ")


SCRIPT = """
import sys, time
from ansible.plugins.loader import init_plugin_loader
init_plugin_loader([sys.argv[1]])
from ansible_collections.gpulab.node.plugins.module_utils.core import child
child.os.kill = lambda pid, signal: None  # the child cannot be killed, as in state D
started = child.Child(lambda emit: time.sleep(8), 0.1)
print(started.wait(), started._pid)
"""


def test_stuck_child_does_not_keep_its_parents_output_open(pytestconfig):
    """Ansible waits for the end of a module's output, and would wait for a child that still holds it."""
    before = time.monotonic()
    command = [sys.executable, "-c", SCRIPT, str(pytestconfig.rootpath / "collections")]
    printed = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=7, text=True).stdout
    assert printed.startswith(LATE)
    assert time.monotonic() - before < 7
    os.kill(int(printed.split()[1]), signal.SIGKILL)
