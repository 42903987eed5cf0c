"""The report's files are written whole, and a run's place is found again."""

import os
import re
from datetime import datetime, timezone

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.report import document, files, written

from unit.report import runs

NOW = datetime(2026, 11, 21, 1, 0, 0, tzinfo=timezone.utc)


def test_files_are_written_for_every_reader(tmp_path):
    report = runs.mixed()
    files.write(report, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    hosts = {f"{host['name']}.prom" for host in report["hosts"]}
    assert names == {"report.json", "summary.json", "report.html", "junit.xml", *hosts}
    assert (tmp_path / "report.json").read_text(encoding="utf-8") == written.text(report)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o644}


def test_host_name_does_not_lead_out_of_the_directory(tmp_path):
    (tmp_path / "report").mkdir()
    names = ["../evil", "a/b", "..", ".hidden", "fe80::1", "node-1.example.org"]
    files.write(document.build(dict.fromkeys(names, runs.UNREACHABLE), runs.CREATED), tmp_path / "report")
    assert [path.name for path in tmp_path.iterdir()] == ["report"]
    written = {path.name for path in (tmp_path / "report").glob("*.prom")}
    assert len(written) == len(names)
    assert {"fe80::1.prom", "node-1.example.org.prom"} <= written


def test_interrupted_write_leaves_the_earlier_file(tmp_path, monkeypatch):
    files.write(document.build({}, runs.CREATED), tmp_path)
    before = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}

    def full(_handle, _mode):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fchmod", full)
    with pytest.raises(Refusal, match=r"GPULAB-V003.*No space left"):
        files.write(runs.mixed(), tmp_path)
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == before


def test_default_place_is_dated_and_latest_points_to_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports/latest").symlink_to("2026-11-14T000000Z")
    path = files.place(None, NOW)
    assert path.name == "2026-11-21T010000Z"
    assert (tmp_path / "reports/latest").resolve() == path.resolve()


def test_two_runs_that_end_in_the_same_second_have_a_report_each(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    places = [files.place(None, NOW) for _run in range(3)]
    assert [path.name for path in places] == [f"2026-11-21T01000{second}Z" for second in range(3)]
    assert (tmp_path / "reports/latest").resolve() == places[-1].resolve()


def test_named_place_is_made(tmp_path):
    assert files.place(str(tmp_path / "a/b"), NOW).is_dir()


def test_place_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(Refusal, match="GPULAB-V003"):
        files.place(str(tmp_path / "file/sub"), NOW)


@pytest.fixture
def reports(tmp_path, monkeypatch):
    """Return a directory reports/ with four reports, of which the third is latest."""
    monkeypatch.chdir(tmp_path)
    for hour in range(4):
        files.write(runs.mixed(), files.place(None, NOW.replace(hour=hour)))
    (tmp_path / "reports/latest").unlink()
    (tmp_path / "reports/latest").symlink_to("2026-11-21T020000Z")
    return tmp_path / "reports"


def dated(reports):
    return [path.name[11:13] for path in sorted(reports.glob("2026-*"))]


def test_oldest_reports_go_and_the_index_lists_the_others(reports):
    (reports / "plan.html").touch()
    for month in ("2026-10", "2026-11"):
        (reports / "usage" / month).mkdir(parents=True)
        (reports / "usage" / month / "usage.html").touch()
    files.tidy(2)
    assert dated(reports) == ["02", "03"]
    page = (reports / "index.html").read_text(encoding="utf-8")
    assert [page.count(f"T0{hour}0000Z/report.html") for hour in range(4)] == [0, 0, 1, 1]
    assert page.index("T030000Z") < page.index("T020000Z")
    assert [f'href="{name}.html"' in page for name in files.OTHERS] == [True, False, False]
    assert re.findall('href="(usage[^"]*)">usage<', page) == ["usage/2026-11/usage.html"]
    files.tidy(2)
    assert dated(reports) == ["02", "03"]


@pytest.mark.parametrize("kept", [1, 0, -1])
def test_the_last_report_and_the_newest_stay(reports, kept):
    files.tidy(kept)
    assert dated(reports) == ["02", "03"]


def test_nothing_is_removed_where_all_are_kept(reports):
    files.tidy(None)
    assert dated(reports) == ["00", "01", "02", "03"]


def test_what_an_interrupted_run_left_goes_too(reports):
    (reports / "2026-11-21T000000Z/.report.json.x1y2z3").touch()
    files.tidy(3)
    assert dated(reports) == ["01", "02", "03"]


@pytest.mark.parametrize("name", ["notes.txt", "photos/"])
def test_report_beside_which_somebody_keeps_something_stays_whole(reports, name):
    path = reports / "2026-11-21T000000Z" / name
    path.mkdir() if name.endswith("/") else path.touch()
    before = set(path.parent.iterdir())
    files.tidy(1)
    assert set(path.parent.iterdir()) == before
    assert "T000000Z" in (reports / "index.html").read_text(encoding="utf-8")


def test_nothing_outside_is_followed_or_removed(reports, tmp_path):
    files.write(runs.mixed(), tmp_path)
    (reports / "2026-01-01T000000Z").symlink_to(tmp_path)
    (reports / "history").mkdir()
    before = set(tmp_path.iterdir())
    files.tidy(1)
    assert set(tmp_path.iterdir()) == before
    assert (reports / "2026-01-01T000000Z").is_symlink()
    assert (reports / "history").is_dir()


def test_report_of_which_nothing_is_known_is_listed_by_its_directory(reports):
    (reports / "2026-11-21T000000Z/summary.json").write_text("{", encoding="utf-8")
    files.tidy(None)
    assert ">2026-11-21T000000Z<" in (reports / "index.html").read_text(encoding="utf-8")
