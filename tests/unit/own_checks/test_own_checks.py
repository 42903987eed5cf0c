"""Checks of a lab's own: what their files may say, and what comes of what a command printed."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.own_checks import files, judge

FREE = {
    "id": "own-scratch-free",
    "why": "checkpoints",
    "command": ["/usr/bin/df", "/scratch"],
    "timeout_seconds": 5,
    "parse": "number",
    "at_least": 500,
    "unit": "GB",
}
STATUS = {"id": "own-licence", "why": "jobs fail", "command": ["/bin/true"], "timeout_seconds": 1}


def write(tmp_path, *entries, name="scratch.yml"):
    (tmp_path / name).write_text(yaml.safe_dump([*entries]))
    return str(tmp_path)


def check(**changes):
    given = {**FREE, **changes}
    return files.OwnCheck(**{**{k: v for k, v in given.items() if v is not None}, "command": ("/x",)})


def reading(output="", status=0, errors="", problem=""):
    return {"status": status, "output": output, "errors": errors, "problem": problem}


def test_files_of_checks_are_read(tmp_path):
    write(tmp_path, FREE)
    found = files.load(write(tmp_path, STATUS, {**FREE, "id": "own-b", "level": "standard"}, name="a.yml"))
    assert [(one.id, one.source) for one in found] == [
        ("own-licence", "a.yml"),
        ("own-b", "a.yml"),
        ("own-scratch-free", "scratch.yml"),
    ]
    assert [one.id for one in judge.of_level(found, "quick")] == ["own-licence", "own-scratch-free"]
    assert len(judge.of_level(found, "burn-in")) == 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": "scratch"}, "its id has to be own-"),
        ({"id": "own-Ä"}, "its id has to be own-"),
        ({"id": 7}, "id is of another type"),
        ({"why": " "}, "why is empty"),
        ({"command": "df /scratch"}, "command is of another type"),
        ({"command": []}, "command is no list of texts"),
        ({"command": ["/bin/df", 7]}, "command is no list of texts"),
        ({"command": ["df"]}, "whole path of a program"),
        ({"timeout_seconds": 31}, "not within 1 to 30"),
        ({"timeout_seconds": True}, "timeout_seconds is of another type"),
        ({"parse": "text"}, "parse is none of"),
        ({"severity": "info"}, "severity is none of"),
        ({"level": "full"}, "level is none of"),
        ({"root": "yes please"}, "root is of another type"),
        ({"user": "ada"}, "user means nothing"),
        ({"parse": "json"}, "field goes with parse: json"),
        ({"field": "a"}, "field goes with parse: json"),
        ({"parse": "status"}, "takes no bound"),
        ({"at_least": None}, "at_least is of another type"),
    ],
)
def test_what_is_wrong_with_an_entry_is_said_of_its_file(tmp_path, change, said):
    with pytest.raises(Refusal, match=rf"V005 .*scratch\.yml, entry 1: .*{said}"):
        files.load(write(tmp_path, {**FREE, **change}))


@pytest.mark.parametrize("name", ["id", "why", "command", "timeout_seconds"])
def test_what_an_entry_needs_is_missed(tmp_path, name):
    with pytest.raises(Refusal, match=f"{name} is missing"):
        files.load(write(tmp_path, {key: value for key, value in FREE.items() if key != name}))


def test_a_bound_is_needed(tmp_path):
    with pytest.raises(Refusal, match="it has no bound"):
        files.load(write(tmp_path, {key: value for key, value in FREE.items() if key != "at_least"}))


def test_all_that_is_wrong_is_said_at_once(tmp_path):
    write(tmp_path, FREE, FREE, {**STATUS, "why": ""})
    with pytest.raises(Refusal, match=r"entry 3: why is empty; own-scratch-free is there twice"):
        files.load(str(tmp_path))


@pytest.mark.parametrize("text", ["a: b", "[unclosed", "!!python/object/apply:os.system [id]", "- 7"])
def test_what_is_no_list_of_checks_is_refused(tmp_path, text):
    (tmp_path / "a.yml").write_text(text)
    with pytest.raises(Refusal, match="V005"):
        files.load(str(tmp_path))


def test_an_empty_directory_is_no_proof(tmp_path):
    with pytest.raises(Refusal, match=r"it has no file NAME\.yml"):
        files.load(str(tmp_path))


@pytest.mark.parametrize("place", ["", "scratch.yml"])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_what_others_can_write_does_not_run_on_nodes(tmp_path, place, mode):
    write(tmp_path, FREE)
    (tmp_path / place).chmod((tmp_path / place).stat().st_mode | mode)
    with pytest.raises(Refusal, match="others than its owner can write"):
        files.load(str(tmp_path))


@pytest.mark.parametrize(
    ("changes", "output", "severity", "summary"),
    [
        ({}, "Avail\n 512G\n", "ok", "512 GB"),
        ({}, "500", "ok", "500 GB"),
        ({}, "499.9", "warn", "499.9 GB, wanted: at least 500 GB"),
        ({"severity": "fail"}, "1e2", "fail", "100.0 GB, wanted: at least 500 GB"),
        ({"at_most": 600}, "700", "warn", "700 GB, wanted: at most 600 GB"),
        ({}, "nothing", "unknown", "could not be checked"),
        ({}, "", "unknown", "could not be checked"),
        ({"parse": "lines", "at_least": 2, "unit": ""}, "a\n\nb\n", "ok", "2"),
        ({"parse": "lines", "at_least": 3, "unit": ""}, "a\n\nb\n", "warn", "2, wanted: at least 3"),
        ({"parse": "json", "field": "a.0.b"}, '{"a": [{"b": 512}]}', "ok", "512 GB"),
        ({"parse": "json", "field": "a.0.b"}, '{"a": [{"b": "512"}]}', "warn", "512 GB, wanted: at least 500 GB"),
        ({"parse": "json", "field": "a"}, '{"a": true}', "warn", "True GB, wanted: at least 500 GB"),
        ({"parse": "json", "field": "a.9.b"}, '{"a": [{"b": 512}]}', "unknown", "could not be checked"),
        ({"parse": "json", "field": "a"}, '{"a": {}}', "unknown", "could not be checked"),
        ({"parse": "json", "field": "a", "at_least": None, "equals": "on", "unit": ""}, '{"a": "on"}', "ok", "on"),
        (
            {"parse": "json", "field": "a", "at_least": None, "equals": 1, "unit": ""},
            '{"a": true}',
            "warn",
            "True, wanted: 1",
        ),
    ],
)
def test_what_a_command_printed_is_judged(changes, output, severity, summary):
    result = judge.judged(check(**changes), reading(output))
    assert (result.severity, result.summary) == (severity, summary)


@pytest.mark.parametrize(
    ("status", "errors", "severity", "summary"),
    [
        (0, "", "ok", "the command ended with 0"),
        (2, "no\x1b[31m way\n", "warn", "the command ended with 2, wanted: 0 (no [31m way)"),
    ],
)
def test_a_status_is_judged(status, errors, severity, summary):
    own = files.OwnCheck(**{**STATUS, "command": ("/bin/true",)})
    result = judge.judged(own, reading(status=status, errors=errors))
    assert (result.severity, result.summary) == (severity, summary)
    assert severity == "ok" or (result.reason, result.remediation) == ("jobs fail", "own_check")


@pytest.mark.parametrize(
    "output", ["9" * 5000, "1e999", "[" * 100000, "NaN", '{"a": NaN}', f'{{"a": {"9" * 400}}}', '{"a": null}', ""]
)
@pytest.mark.parametrize("parse", ["number", "json"])
def test_a_node_that_answers_nonsense_is_unknown(output, parse):
    own = check(parse=parse, field="a" if parse == "json" else "")
    assert judge.judged(own, reading(output)).severity == "unknown"
    for nonsense in ([], {own.id: "x"}, {own.id: None}):
        assert judge.results([own], nonsense)[0]["severity"] == "unknown"


def test_what_a_command_printed_is_shown_without_secrets():
    own = files.OwnCheck(**{**STATUS, "command": ("/bin/true",)})
    for bad in (reading(status=1, errors="https://ada:geheim77@x"), reading(problem="https://ada:geheim77@x")):
        result = judge.judged(own, bad)
        assert "https://" in result.summary + str(result.reason)
        assert "geheim77" not in str(result)


def test_no_answer_is_neither_good_nor_bad():
    for bad in (reading(problem="it was ended after 5 s"), reading("512", status=3, errors="x")):
        assert judge.judged(check(), bad).severity == "unknown"
    (silent,) = judge.results([check()], {})
    assert (silent["severity"], silent["id"]) == ("unknown", "own-scratch-free")
    (skipped,) = judge.results([check()], None, "check mode")
    assert (skipped["severity"], skipped["reason"]) == ("skipped", "check mode")
