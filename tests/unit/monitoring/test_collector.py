"""The collector as it runs on a node, on the simulated NVML: whole files, deadlines, and one reader at a time."""

import fcntl
import os
import signal
import stat
import time
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.facts import users
from ansible_collections.gpulab.node.plugins.module_utils.facts.processes import user_name
from ansible_collections.gpulab.node.plugins.module_utils.monitoring import collector

from .conftest import SIM
from .reading import samples


def test_a_simulated_node_is_collected(collect):
    text = collect("h100-sxm-8")
    assert text.startswith("# Written by gpulab (role monitoring)")
    assert samples(text, "gpulab_gpus_simulated") == [1.0]
    assert samples(text, "gpulab_nvml_state", state="ok") == [1.0]
    assert len(samples(text, "gpulab_gpu_temperature_celsius", sensor="gpu")) == 8
    assert set(samples(text, "gpulab_gpu_nvlink_active")) == {1.0}


def test_a_hot_gpu_with_errors_shows(collect):
    text = collect("a100-pcie-2", "gpu.1.temp = 91", "gpu.1.remapped_failure = 1")
    assert samples(text, "gpulab_gpu_temperature_celsius", sensor="gpu", index="1") == [91.0]
    assert samples(text, "gpulab_gpu_row_remap_failure", index="1") == [1.0]
    assert samples(text, "gpulab_gpu_row_remap_failure", index="0") == [0.0]


@pytest.fixture
def lock(tmp_path):
    place = tmp_path / "lock"
    place.touch()
    return place


def test_a_driver_that_hangs_is_told_within_the_deadline(lock, libraries, tmp_path, monkeypatch):
    settings = tmp_path / "gpu.conf"
    settings.write_text((SIM / "models/a100-pcie-2.conf").read_text() + "\ngpu.1.hang = 1\n")
    monkeypatch.setenv("GPULAB_SIMULATION", str(settings))
    began = time.monotonic()
    text = collector.collect(Node(), lock, 1.0, str(libraries / "libnvidia-ml.so.1"))
    assert time.monotonic() - began < 5
    assert samples(text, "gpulab_nvml_state", state="unresponsive") == [1.0]
    assert len(samples(text, "gpulab_gpu_power_watts", index="0")) == 1


def test_no_reader_starts_while_an_earlier_one_hangs(lock, libraries, tmp_path, monkeypatch):
    """A reader stuck in the kernel is stood in for by whoever holds the lock."""
    settings = tmp_path / "gpu.conf"
    settings.write_text((SIM / "models/a100-pcie-2.conf").read_text())
    monkeypatch.setenv("GPULAB_SIMULATION", str(settings))
    library = str(libraries / "libnvidia-ml.so.1")
    handle = os.open(lock, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    text = collector.collect(Node(), lock, 0.5, library)
    assert samples(text, "gpulab_nvml_state", state="unresponsive") == [1.0]
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    assert samples(text, "gpulab_gpu_power_watts") == []
    os.close(handle)
    assert samples(collector.collect(Node(), lock, 5, library), "gpulab_nvml_state", state="ok") == [1.0]


def test_a_reading_is_nobodys_work():
    assert collector.query.COMMAND in users.SERVICES
    assert len(collector.query.COMMAND) < 16


def test_the_reader_has_its_name_before_it_asks_the_driver(lock, monkeypatch):
    monkeypatch.setattr(collector.query, "read_node", say_name)
    child = collector.Child(lambda emit: collector._read(emit, lock, "none"), 5)  # noqa: SLF001
    child.wait()
    assert child.messages[-1] == collector.query.COMMAND


def say_name(emit, _library):
    emit(Path("/proc/self/comm").read_text().strip())


@pytest.mark.parametrize(
    ("fstab", "found"),
    [
        ("UUID=1 / ext4 defaults 0 1\nUUID=2 /data xfs nofail 0 2", {"/": True, "/data": False}),
        ("# UUID=2 /data xfs defaults 0 2\n\nUUID=3 none swap sw 0 0\ntmpfs", {}),
        ("fs:/home /mnt/my\\040home nfs4 defaults,noauto 0 0", {}),
        ("fs:/home /mnt/my\\040home nfs4 defaults 0 0", {"/mnt/my home": True}),
        ("UUID=2 /data xfs\nfs:/home /mnt/my\\040home/", {"/data": False, "/mnt/my home": True}),
    ],
)
def test_mounts_of_fstab(fstab, found):
    mounted = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n31 22 0:40 / /mnt/my\\040home rw - nfs4 fs:/home rw\n"
    assert collector.mounts(fstab, mounted) == found


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    target = tmp_path / "gpulab-gpu.prom"
    collector.write(target, "one\n")
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("one\n", 0o644)

    def fail(*_names, **_directories):
        raise OSError

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError):  # noqa: PT011 - any
        collector.write(target, "two\n")
    assert target.read_text() == "one\n"
    assert list(tmp_path.iterdir()) == [target]


def test_a_collector_that_is_stopped_while_it_writes_leaves_no_draft(tmp_path, monkeypatch):
    former = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(collector, "collect", lambda *_: "text")
    monkeypatch.setattr(collector.locks, "place", lambda name: tmp_path / name)
    monkeypatch.setattr(os, "fchmod", lambda *_: signal.raise_signal(signal.SIGTERM))
    try:
        with pytest.raises(SystemExit):
            collector.main([str(tmp_path / "metrics.prom")])
    finally:
        signal.signal(signal.SIGTERM, former)
    assert not list(tmp_path.iterdir())


def test_owners_of_processes():
    gpus = [{"processes": [{"pid": os.getpid()}, {"pid": 1 << 30}]}, {"processes": {"error": "UNKNOWN"}}]
    assert collector.owners(Node(), gpus) == {os.getpid(): user_name(os.getuid())}


def test_its_lock_lies_where_no_user_can_take_it(tmp_path, monkeypatch):
    """What users can open, they can lock: the collector's own file, for one, which made all GPUs unresponsive."""
    asked = []
    monkeypatch.setattr(collector, "collect", lambda _node, lock: asked.append(lock) or "text")
    monkeypatch.setattr(collector.locks.place, "__defaults__", (tmp_path / "locks",))
    former = signal.getsignal(signal.SIGTERM)
    try:
        collector.main([str(tmp_path / "metrics.prom")])
    finally:
        signal.signal(signal.SIGTERM, former)
    assert asked == [tmp_path / "locks" / collector.LOCK]
    assert stat.S_IMODE(asked[0].parent.stat().st_mode) == 0o700
