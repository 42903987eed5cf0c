"""Directories of data: what is measured, and that one that does not answer is a result."""

import os
import time
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.active import mounts


def test_files_are_found_read_and_timed(tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    for number in range(3):
        (tmp_path / f"a/b/{number}").write_bytes(os.urandom(1 << 20))
    (tmp_path / "link").symlink_to("/")
    record = mounts.measure(str(tmp_path), 10.0)
    assert (record["state"], record["files"], record["bytes"]) == ("done", 3, 3 << 20)
    assert record["read_mbs"] > 0
    assert record["latency_ms"] >= 0


def test_empty_directory_has_no_rate(tmp_path):
    record = {"path": str(tmp_path), "files": 0, "left_out": 0, "state": "done"}
    assert mounts.measure(str(tmp_path), 10.0) == record


@pytest.fixture
def closed(monkeypatch):
    """Return a function that keeps everybody, root too, out of what has a name."""

    def close(name, error=PermissionError):
        def guarded(real):
            def call(path, *rest):
                if Path(path).name == name:
                    raise error(13, "kept out", path)
                return real(path, *rest)

            return call

        for call in ("scandir", "open"):
            monkeypatch.setattr(os, call, guarded(getattr(os, call)))

    return close


@pytest.mark.parametrize(("name", "files"), [("lost+found", 2), ("0", 1)])
@pytest.mark.parametrize("error", [PermissionError, FileNotFoundError])
def test_what_nobody_may_look_at_is_left_out(tmp_path, closed, name, files, error):
    (tmp_path / "lost+found").mkdir()
    for number in range(2):
        (tmp_path / str(number)).write_bytes(b"data")
    closed(name, error)
    record = mounts.measure(str(tmp_path), 10.0)
    assert (record["state"], record["files"], record["left_out"], record["bytes"]) == ("done", files, 1, 4 * files)


@pytest.mark.parametrize("name", ["data", "0"])
def test_directory_of_which_nothing_can_be_read_is_told(tmp_path, closed, name):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/0").write_bytes(b"data")
    closed(name)
    record = mounts.measure(str(tmp_path / "data"), 10.0)
    assert (record["state"], record["error"]["name"].partition(":")[0]) == ("failed", "PermissionError")


def test_missing_directory_is_told(tmp_path):
    record = mounts.measure(str(tmp_path / "nothing"), 10.0)
    assert record["state"] == "failed"
    assert "No such file" in record["error"]["name"]


def test_directory_that_does_not_answer_is_a_result(tmp_path, monkeypatch):
    monkeypatch.setattr(mounts, "_largest_files", lambda _path: time.sleep(60))
    begin = time.monotonic()
    record = mounts.measure(str(tmp_path), 0.5)
    assert (record["state"], record["seconds"]) == ("late", 0.5)
    assert time.monotonic() - begin < 3
