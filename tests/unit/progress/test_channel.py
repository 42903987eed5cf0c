"""The channel from workers to the callback, on a real socket."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.channel import VARIABLE, Progress, Receiver, send


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.close()


def test_what_is_sent_is_received(receiver):
    send(Progress("node1", "driver", 1.5, "Setting up gcc"))
    assert receiver.receive(1) == Progress("node1", "driver", 1.5, "Setting up gcc")
    assert receiver.receive(0.01) is None


def test_long_lines_are_cut(receiver):
    send(Progress("node1", "driver", 1.5, "é" * 100_000))
    assert 0 < len(receiver.receive(1).line) < 1000


@pytest.mark.usefixtures("receiver")
def test_a_child_finds_the_channel():
    code = f"import os; assert os.path.exists(os.environ[{VARIABLE!r}])"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.usefixtures("receiver")
def test_only_this_user_can_write_to_it():
    assert Path(os.environ[VARIABLE]).parent.stat().st_mode & 0o077 == 0


def test_nobody_listening_is_no_failure(receiver, monkeypatch):
    path = os.environ[VARIABLE]
    receiver.close()
    assert VARIABLE not in os.environ
    send(Progress("node1", "driver", 1.5, "x"))
    monkeypatch.setenv(VARIABLE, path)
    send(Progress("node1", "driver", 1.5, "x"))
    assert not Path(path).parent.exists()


def test_a_callback_that_does_not_read_holds_nobody_up(receiver):
    for _message in range(5000):  # far more than a socket buffer takes
        send(Progress("node1", "driver", 1.5, "x" * 300))
    assert receiver.receive(1).host == "node1"


def test_a_closed_receiver_says_so():
    receiver = Receiver()
    receiver.close()
    with pytest.raises(OSError, match="descriptor"):
        receiver.receive(0.01)
