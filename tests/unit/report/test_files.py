"""The report's files are written whole, and a run's place is found again."""

import json
import os
from datetime import datetime, timezone

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.report import document, files

from unit.report import runs

NOW = datetime(2026, 11, 21, 1, 0, 0, tzinfo=timezone.utc)


def test_files_are_written_for_every_reader(tmp_path):
    report = runs.mixed()
    files.write(report, None, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    hosts = {f"{host['name']}.prom" for host in report["hosts"]}
    assert names == {"report.json", "report.html", "junit.xml", *hosts}
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8")) == report
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o644}


def test_host_name_does_not_lead_out_of_the_directory(tmp_path):
    (tmp_path / "report").mkdir()
    names = ["../evil", "a/b", "..", ".hidden", "fe80::1", "node-1.example.org"]
    files.write(document.build(dict.fromkeys(names, runs.UNREACHABLE), runs.CREATED), None, tmp_path / "report")
    assert [path.name for path in tmp_path.iterdir()] == ["report"]
    written = {path.name for path in (tmp_path / "report").glob("*.prom")}
    assert len(written) == len(names)
    assert {"fe80::1.prom", "node-1.example.org.prom"} <= written


def test_interrupted_write_leaves_the_earlier_file(tmp_path, monkeypatch):
    files.write(document.build({}, runs.CREATED), None, tmp_path)
    before = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}

    def full(_handle, _mode):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fchmod", full)
    with pytest.raises(Refusal, match=r"GPULAB-V003.*No space left"):
        files.write(runs.mixed(), None, tmp_path)
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == before


def test_default_place_is_dated_and_latest_points_to_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports/latest").symlink_to("2026-11-14T000000Z")
    path = files.place(None, NOW)
    assert path.name == "2026-11-21T010000Z"
    assert (tmp_path / "reports/latest").resolve() == path.resolve()


def test_named_place_is_made(tmp_path):
    assert files.place(str(tmp_path / "a/b"), NOW).is_dir()


def test_place_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(Refusal, match="GPULAB-V003"):
        files.place(str(tmp_path / "file/sub"), NOW)
