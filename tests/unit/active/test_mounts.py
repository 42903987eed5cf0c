"""Directories of data: what is measured, and that one that does not answer is a result."""

import json
import os
import time
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.active import mounts


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Measure for moments only, by this program."""
    monkeypatch.setattr(mounts, "RANDOM_SECONDS", 0.05)
    monkeypatch.setattr(mounts.shutil, "which", lambda name: str(found) if (found := _in_path(name)).exists() else None)


def _in_path(name):
    return Path(os.environ["PATH"].split(":")[0]) / name


def test_files_are_found_read_and_timed(tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    for number in range(3):
        (tmp_path / f"a/b/{number}").write_bytes(os.urandom(1 << 20))
    (tmp_path / "link").symlink_to("/")
    record = mounts.measure(str(tmp_path), 10.0)
    assert (record["state"], record["files"], record["bytes"], record["by"]) == ("done", 3, 3 << 20, "reads")
    assert record["read_mbs"] > 0
    assert record["latency_ms"] >= 0
    assert record["random_ms"] > 0
    assert record["random_iops"] > 0


def test_latency_is_that_of_small_files(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(mounts, "_milliseconds_to_open", lambda name: asked.append(Path(name).name) or 1.0)
    for number in range(200):
        (tmp_path / f"small{number}").write_bytes(b"x" * number)
    (tmp_path / "large").write_bytes(bytes(mounts.SMALL + 1))
    told = []
    mounts._measure(told.append, str(tmp_path), "anna")  # noqa: SLF001 - what is opened, no record tells
    assert len(asked) == mounts.FILES
    assert "large" not in asked


def test_a_node_in_use_has_its_files_opened_and_not_read(tmp_path):
    (tmp_path / "file").write_bytes(bytes(1 << 20))
    record = mounts.measure(str(tmp_path), 10.0, "in use by python3 (PID 4711, user anna)")
    assert record.pop("latency_ms") >= 0
    assert record == {
        "path": str(tmp_path),
        "files": 1,
        "left_out": 0,
        "left_alone": "in use by python3 (PID 4711, user anna)",
        "state": "done",
    }


def test_nothing_is_changed(tmp_path):
    (tmp_path / "file").write_bytes(os.urandom(1 << 20))
    before = [(path.name, path.stat().st_mtime_ns, path.read_bytes()) for path in sorted(tmp_path.iterdir())]
    mounts.measure(str(tmp_path), 10.0)
    assert [(path.name, path.stat().st_mtime_ns, path.read_bytes()) for path in sorted(tmp_path.iterdir())] == before


@pytest.fixture
def fio(tmp_path, monkeypatch):
    """Return a function that puts a fio in the PATH, which prints a report (that of fio 3.33, shortened)."""

    def put(status=0, error=0):
        read = {
            "io_bytes": 4_077_912_064,
            "bw_bytes": 1_007_900_000,
            "iops": 20_938.4,
            "clat_ns": {"percentile": {"50.000000": 31_488}},
        }
        report = json.dumps({"fio version": "fio-3.33", "jobs": [{"error": error, "read": read}]})
        program = tmp_path / "bin/fio"
        program.parent.mkdir()
        lines = ["#!/bin/sh", f'echo "$@" >>{tmp_path}/called', f"echo '{report}'", f"exit {status}"]
        program.write_text("\n".join(lines))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        return tmp_path / "called"

    return put


def test_fio_reads_where_it_is(tmp_path, fio):
    called = fio()
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a:b").write_bytes(bytes(100))
    record = mounts.measure(str(tmp_path / "data"), 10.0)
    assert {key: record[key] for key in ("by", "direct", "bytes", "read_mbs", "random_ms", "random_iops")} == {
        "by": "fio",
        "direct": True,
        "bytes": 4_077_912_064,
        "read_mbs": 1007.9,
        "random_ms": 0.031,
        "random_iops": 20938,
    }
    calls = called.read_text().splitlines()
    assert all("--readonly" in call and f"--filename={tmp_path}/data/a\\:b " in call for call in calls)
    assert [("--rw=read " in call, "--iodepth=1 " in f"{call} ") for call in calls] == [
        (True, False),
        (False, True),
        (False, False),
    ]


@pytest.mark.parametrize("wrong", [{"status": 1}, {"error": 22}])
def test_where_fio_cannot_read_this_program_does(tmp_path, fio, wrong):
    fio(**wrong)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/file").write_bytes(bytes(1 << 20))
    assert mounts.measure(str(tmp_path / "data"), 10.0)["by"] == "reads"


def test_fio_gets_no_more_names_than_it_takes(monkeypatch):
    given = []
    monkeypatch.setattr(mounts.subprocess, "run", lambda argv, **_: given.append(argv) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        mounts._fio("fio", ["/data/" + "x" * 200] * 64, 1.0)  # noqa: SLF001
    (names,) = [one for one in given[0] if one.startswith("--filename=")]
    assert 3000 < len(names) < 4096


def test_a_file_system_without_direct_reads_is_read_cold(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(bytes(1 << 20))
    real = os.open

    def opened(name, flags, *rest):
        if flags & os.O_DIRECT:
            raise OSError(22, "Invalid argument")
        return real(name, flags, *rest)

    monkeypatch.setattr(os, "open", opened)
    record = mounts.measure(str(tmp_path), 10.0)
    assert (record["direct"], record["bytes"]) == (False, 1 << 20)


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
    monkeypatch.setattr(mounts, "listing", lambda _path: time.sleep(60))
    begin = time.monotonic()
    record = mounts.measure(str(tmp_path), 0.5)
    assert (record["state"], record["seconds"]) == ("late", 0.5)
    assert time.monotonic() - begin < 3
