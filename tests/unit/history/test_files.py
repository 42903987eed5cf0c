"""The history grows by a line for each proof, whatever happened to the file."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.history import files

LINE = {"schema": 1, "created": "2026-11-21T01:00:00Z"}


def test_lines_come_back_in_order(tmp_path):
    for number in range(3):
        files.append(tmp_path / "history", {"a": {**LINE, "n": number}, "../b": LINE})
    found = {host: files.read(tmp_path / "history", host) for host in ("a", "../b", "never")}
    assert [line["n"] for line in found["a"]] == [0, 1, 2]
    assert (len(found["../b"]), found["never"]) == (3, [])
    assert [path.name for path in tmp_path.iterdir()] == ["history"]


@pytest.mark.parametrize("left", ['{"schema": 1, "cre', "[]\n", '{"schema": 99}\n', "\n\n", "\x00\xff\n"])
def test_what_is_no_line_is_passed_over(tmp_path, left):
    files.append(tmp_path, {"a": LINE})
    with (tmp_path / "a.jsonl").open("a", encoding="latin-1") as stream:
        stream.write(left)
    files.append(tmp_path, {"a": LINE})
    assert files.read(tmp_path, "a") == [LINE, LINE]


def test_only_the_end_of_a_long_history_is_read(tmp_path):
    for number in range(50):
        files.append(tmp_path, {"a": {**LINE, "n": number}})
    assert [line["n"] for line in files.read(tmp_path, "a", most=150)] == [48, 49]


def test_a_file_that_grew_too_large_keeps_its_later_half(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST_BYTES", 1000)
    for number in range(100):
        files.append(tmp_path, {"a": {**LINE, "n": number}})
        assert (tmp_path / "a.jsonl").stat().st_size < 1200
    kept = [line["n"] for line in files.read(tmp_path, "a")]
    assert kept == list(range(kept[0], 100))
    assert len(kept) > 5


def test_place_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(Refusal, match="GPULAB-V003"):
        files.append(tmp_path / "file", {"a": LINE})
    (tmp_path / "a.jsonl").mkdir()
    with pytest.raises(Refusal, match="GPULAB-V003"):
        files.read(tmp_path, "a")
