"""The time of the installer, with a file in place of a watchdog."""

from __future__ import annotations

import threading

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.installer import watchdog
from ansible_collections.gpulab.node.plugins.module_utils.installer.watchdog import Watchdog


@pytest.fixture(autouse=True)
def _no_ioctl(monkeypatch):
    monkeypatch.setattr(watchdog.fcntl, "ioctl", lambda *_arguments: 0)


@pytest.fixture
def over():
    return threading.Event()


def test_a_watchdog_is_fed_and_put_to_rest(tmp_path, over):
    device = tmp_path / "watchdog0"
    device.write_bytes(b"")
    one = Watchdog(60, over.set, tmp_path)
    assert one.extend(60)
    one.close()
    assert one.count == 1
    fed = device.read_bytes()
    assert (fed.rstrip(b"V").strip(b"\0"), fed[-1:]) == (b"", b"V")
    assert len(fed) > 1
    assert not over.is_set()


def test_no_watchdog_is_fed_when_the_time_is_over(tmp_path, over):
    device = tmp_path / "watchdog0"
    device.write_bytes(b"")
    one = Watchdog(0, over.set, tmp_path)
    assert over.wait(10)
    assert not one.extend(60), "the point of no return must not be passed any more"
    assert device.read_bytes() == b""


def test_the_time_ends_though_nothing_can_bark(tmp_path, over):
    one = Watchdog(0.05, over.set, tmp_path)
    assert one.count == 0
    assert over.wait(10)


def test_more_time_is_given(tmp_path, over):
    one = Watchdog(0.2, over.set, tmp_path)
    assert one.extend(60)
    assert not over.wait(0.5)
    one.close()
