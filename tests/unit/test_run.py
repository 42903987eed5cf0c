"""How make test runs its gates: which come first, what is left out, and what is written down."""

import re
import time
from dataclasses import replace
from threading import Event
from types import SimpleNamespace

import gates
import pytest
import run


@pytest.fixture
def begun(monkeypatch, tmp_path):
    """Let gates end at once, all well but those in the list that is returned beside the names of those begun."""
    names, bad = [], []

    def end(gate, _given_up):
        names.append(gate.name)
        return run.Result(gate, gate.name not in bad, 7.0, "3 passed in 7.0s")

    monkeypatch.setattr(run, "run", end)
    monkeypatch.setattr(run, "AT_ONCE", 1)
    monkeypatch.setattr(run, "LOGS", tmp_path)
    monkeypatch.setattr(run, "TESTED", tmp_path / "tested.md")
    return names, bad


@pytest.fixture
def house(monkeypatch, tmp_path):
    """Return a directory whose Makefile has targets for gates of its own, at a heartbeat of 0.1 s."""
    targets = ["good:", "bad:\n\t@sleep 1; false", "long:\n\t@trap 'echo cleaned; exit 1' TERM; sleep 99 & wait"]
    (tmp_path / "Makefile").write_text("\n".join([*targets, "deaf:\n\t@trap '' TERM; sleep 99", ""]))
    for name, value in {"ROOT": tmp_path, "LOGS": tmp_path, "HEARTBEAT": 0.1}.items():
        monkeypatch.setattr(run, name, value)
    return tmp_path


def main(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["run.py", *arguments])
    return run.main()


def test_lint_and_unit_tests_come_before_all_others(monkeypatch, begun, capsys):
    assert main(monkeypatch) == 0
    assert set(begun[0][:3]) == {"lint", "unit", "sanity"}
    assert set(gates.ALWAYS) < set(begun[0][3:])
    # Each gate counts beside its tests.
    assert f"{4 * len(begun[0])} passed, 0 failed" in capsys.readouterr().out


@pytest.mark.parametrize("bad", ["lint", "unit", "sanity"])
def test_nothing_else_is_begun_after_one_of_them_has_failed(monkeypatch, begun, capsys, bad):
    begun[1].append(bad)
    assert main(monkeypatch) == 1
    assert set(begun[0]) == {"lint", "unit", "sanity"}
    assert f"{bad} failed: all others are ended" in capsys.readouterr().out


def test_what_runs_beside_one_of_them_is_ended_when_it_fails(monkeypatch, house, capsys):
    first, others = gates.target("bad", 1), [gates.target(name, 1) for name in ("long", "good", "deaf", "good")]
    monkeypatch.setattr(gates, "FIRST", (first,))
    start = time.monotonic()
    results = run.run_all([first, *others], end=60)
    assert time.monotonic() - start < 30
    assert [(result.gate.name, result.passed) for result in results] == [("bad", False), ("good", True)]
    assert (house / "long.log").read_text().startswith("cleaned")
    assert "deaf: FAILED" not in capsys.readouterr().out


def test_a_gate_that_runs_into_its_time_limit_may_clean_up(house):
    result = run.run(gates.Gate("long", 0, "long"), Event())
    assert not result.passed
    assert (house / "long.log").read_text().startswith("cleaned")


def test_a_scenario_that_fails_keeps_no_other_from_its_run(monkeypatch, begun):
    begun[1].append("lab-test")
    assert main(monkeypatch) == 1
    assert set(begun[0]) > set(gates.ALWAYS)


@pytest.mark.parametrize(("first", "left_out"), [(4, 0), (25, 3), (50, 10)])
def test_what_comes_in_turn_is_left_out_where_no_time_is_left(monkeypatch, begun, capsys, first, left_out):
    """The first gates took so many minutes; a machine on which they take long is slow, and so are the others."""
    clock = iter([0.0, 0.0, *[first * 60.0] * 1000])
    monkeypatch.setattr(run, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    end = run.run
    monkeypatch.setattr(run, "run", lambda gate, given_up: replace(end(gate, given_up), seconds=first * 60.0))
    assert main(monkeypatch) == 0
    slower = max(1, first / gates.FIRST_MINUTES)
    chosen = gates.of_test(gates.day_of("HEAD"))
    late = {gate.name for gate in chosen if gate.takes * slower > gates.END - first} - set(gates.ALWAYS)
    assert set(begun[0][3:]) == {gate.name for gate in chosen} - late
    assert len(late) >= left_out
    assert set(re.findall(r"^== (\S+): LEFT OUT", capsys.readouterr().out, re.MULTILINE)) == late


@pytest.mark.parametrize("arguments", [("--full",), ("capture",)])
def test_nothing_is_left_out_of_what_was_asked_for(monkeypatch, begun, arguments):
    clock = iter([0.0, 0.0, *[99 * 60.0] * 1000])
    of_clock = SimpleNamespace(monotonic=lambda: next(clock), strftime=lambda _form: "")
    monkeypatch.setattr(run, "time", of_clock)
    assert main(monkeypatch, *arguments) == 0
    assert "capture" in begun[0]


def test_named_gates_run_alone_and_their_rows_are_written(monkeypatch, begun):
    assert main(monkeypatch, "nccl", "base") == 0
    begun[1].append("nccl")
    assert main(monkeypatch, "nccl") == 1
    assert sorted(begun[0]) == ["base", "nccl", "nccl"]
    lines = run.TESTED.read_text(encoding="utf-8").splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith("| ")]
    assert [row[0] for row in rows] == ["| gate", "| ---", "| base", "| nccl"]
    assert [row[-1] for row in rows[2:]] == ["passed: 3 passed |", "failed: 3 passed |"]
    assert rows[2][2] == gates.git("rev-parse", "HEAD")[:9]


def test_what_a_change_concerns_runs_after_the_first_gates(monkeypatch, begun):
    monkeypatch.setattr(gates, "changed_since", lambda _branch: ["molecule/conda/test_conda.py"])
    assert main(monkeypatch, "--changed", "main") == 0
    assert begun[0][3:] == ["conda"]
    assert not run.TESTED.exists()
