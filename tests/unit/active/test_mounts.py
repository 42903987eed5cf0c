"""Directories of data: what is measured, and that one that does not answer is a result."""

import os
import time

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
    assert mounts.measure(str(tmp_path), 10.0) == {"path": str(tmp_path), "files": 0, "state": "done"}


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
