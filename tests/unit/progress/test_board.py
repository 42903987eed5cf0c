"""What the board knows of a run, with a clock that is a number."""

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.board import (
    Failure,
    RunBoard,
    counts,
    duration,
    short_task,
    verdict,
    wrapped,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.channel import Progress
from hypothesis import given
from hypothesis import strategies as st

SUMMARY = {"ok": 3, "failures": 0, "unreachable": 0, "changed": 0, "skipped": 0, "rescued": 0, "ignored": 0}


@pytest.fixture
def board():
    board = RunBoard(100.0)
    board.start_task("a", "First", 100.0)
    board.start_task("b", "First", 101.0)
    return board


def test_hosts_at_work_are_listed_with_the_longest_first(board):
    assert [(row.host, row.seconds) for row in board.rows(110.0)] == [("a", 10.0), ("b", 9.0)]


def test_a_host_that_is_done_waits(board):
    assert board.end_task("a", 104.0) == 4.0
    assert [row.host for row in board.rows(110.0)] == ["b"]
    assert board.at_rest() == (1, 0)


def test_a_host_that_failed_does_not_wait(board):
    board.end_task("a", 104.0)
    board.fail("a", Failure("First", None, "no"))
    assert board.at_rest() == (0, 1)
    assert [failure.message for failure in board.failures("a")] == ["no"]


@pytest.mark.parametrize(
    ("task", "shown"),
    [
        ("cuda : Install the toolkits", "cuda (2 of 3) : Install the toolkits"),
        ("cuda_x : Install", "cuda_x : Install"),
        ("Write cuda", "Write cuda"),
        ("tuning : Tune", "tuning : Tune"),
    ],
)
def test_a_task_says_the_place_of_its_role_among_those_that_are_due(board, task, shown):
    board.plan("a", ["nvidia_driver", "cuda", "reboot"], {})
    board.start_task("a", task, 102.0)
    assert [row.task for row in board.rows(110.0) if row.host == "a"] == [shown]


def test_the_last_line_belongs_to_the_task_at_work(board):
    board.note(Progress("a", "driver", 3.0, "Setting up gcc"))
    board.note(Progress("unknown", "driver", 3.0, "ignored"))
    assert board.rows(110.0)[0].line == "Setting up gcc"
    board.end_task("a", 111.0)
    board.start_task("a", "Second", 111.0)
    assert [row.line for row in board.rows(112.0)] == ["", ""]


def test_a_line_is_due_once_in_each_interval(board):
    assert board.overdue(129.0, 30.0) == []
    assert [row.host for row in board.overdue(130.0, 30.0)] == ["a"]
    assert [row.host for row in board.overdue(131.0, 30.0)] == ["b"]
    assert board.overdue(132.0, 30.0) == []
    assert [row.host for row in board.overdue(160.0, 30.0)] == ["a"]


def test_a_host_at_rest_is_never_due(board):
    board.end_task("a", 102.0)
    assert [row.host for row in board.overdue(500.0, 30.0)] == ["b"]


def test_a_host_lasts_from_its_first_to_its_last_sign_of_life(board):
    board.end_task("a", 104.0)
    board.start_task("a", "Second", 110.0)
    board.end_task("a", 117.0)
    assert board.seconds("a") == 17.0
    assert board.seconds("never-seen") == 0.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0s"), (0.44, "0.4s"), (9.94, "9.9s"), (9.96, "10s"), (59.6, "1m00s"), (185, "3m05s"), (3725, "1h02m")],
)
def test_durations_are_short(seconds, text):
    assert duration(seconds) == text


def test_counts_are_what_other_tools_look_for():
    assert counts(SUMMARY) == "ok=3 changed=0"
    assert counts({**SUMMARY, "changed": 2, "failures": 1, "ignored": 4}) == "ok=3 changed=2 failed=1 ignored=4"


@pytest.mark.parametrize(
    ("differs", "word"),
    [
        ({}, "ok"),
        ({"changed": 1}, "changed"),
        ({"changed": 1, "failures": 1}, "failed"),
        ({"failures": 1, "unreachable": 1}, "unreachable"),
    ],
)
def test_a_verdict_is_the_worst_that_happened(differs, word):
    assert verdict({**SUMMARY, **differs}) == word


def test_tasks_lose_the_name_of_this_collection_only():
    assert short_task("gpulab.node.nouveau : Blacklist nouveau") == "nouveau : Blacklist nouveau"
    assert short_task("other.node.x : Do") == "other.node.x : Do"


@given(
    columns=st.integers(20, 130),
    indent=st.integers(0, 30),
    words=st.lists(st.text("abc:", min_size=1, max_size=15), max_size=30),
)
def test_no_word_is_broken_and_no_line_is_wider_than_the_terminal(columns, indent, words):
    lines = wrapped(" " * indent + " ".join(words), columns)
    assert " ".join(lines).split() == words
    assert all(len(line) <= columns for line in lines if len(line.split()) > 1)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            40,
            [
                "  remedy    Set the branch to the one",
                "            that the distribution has.",
            ],
        ),
        (80, ["  remedy    Set the branch to the one that the distribution has."]),
    ],
)
def test_what_follows_stands_below_the_text_behind_its_label(columns, expected):
    assert wrapped("  remedy    Set the branch to the one that the distribution has.", columns) == expected


def test_a_deep_indent_leaves_room_for_words_on_a_narrow_terminal():
    assert wrapped(" " * 24 + "tuning: it has no receipt on the node", 40) == [
        "      tuning: it has no receipt on the",
        "        node",
    ]


def at_work(board, task, now):
    board.end_task("a", now)
    board.start_task("a", task, now)
    return next(row for row in board.rows(now) if row.host == "a").task


def test_a_task_of_a_due_role_says_how_much_is_left(board):
    board.plan("a", ["base", "cuda"], {"base": 60.0, "cuda": 240.0, "verify": 5.0})
    assert at_work(board, "base : Write files", 101.0) == "base (1 of 2, about 5 min left) : Write files"
    assert (
        at_work(board, "base : More", 171.0) == "base (1 of 2, about 4 min left) : More"
    )  # it took longer: nothing owed
    assert at_work(board, "cuda : Install", 181.0) == "cuda (2 of 2, about 4 min left) : Install"
    (row,) = [row for row in board.rows(401.0) if row.host == "a"]
    assert row.task == "cuda (2 of 2, less than 1 min left) : Install"
    assert at_work(board, "verify : Judge", 402.0) == "verify : Judge"
    assert board.roles("a") == {"base": 80.0, "cuda": 221.0}


def test_nothing_is_said_of_time_that_nobody_measured(board):
    board.plan("a", ["base", "cuda"], {})
    assert at_work(board, "cuda : Install", 101.0) == "cuda (2 of 2) : Install"
