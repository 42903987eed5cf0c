"""Dnf's history: which packages came as dependencies."""

import sqlite3

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.packages import dnf_history

INSTALL, UPGRADE, UPGRADED, REMOVE, REASON_CHANGE = 1, 6, 7, 8, 11
DEPENDENCY, USER, WEAK, GROUP = 1, 2, 4, 5
DONE, FAILED = 1, 2


@pytest.fixture
def history(tmp_path):
    """Return a function that writes the history; its tables are those of dnf 4.14, as far as they matter."""
    path = tmp_path / "history of #1.sqlite"

    def write(*rows):
        with sqlite3.connect(path) as file:
            file.execute("CREATE TABLE trans (id INTEGER PRIMARY KEY, state INTEGER)")
            file.execute("CREATE TABLE rpm (item_id INTEGER, name TEXT, arch TEXT)")
            file.execute("CREATE TABLE trans_item (id INTEGER, trans_id INTEGER, item_id INTEGER, action, reason)")
            for number, (name, action, reason, *state) in enumerate(rows):
                file.execute("INSERT INTO trans VALUES (?, ?)", (number, *(state or [DONE])))
                file.execute("INSERT INTO rpm VALUES (?, ?, 'x86_64')", (number, name))
                file.execute("INSERT INTO trans_item VALUES (?, ?, ?, ?, ?)", (number, number, number, action, reason))
        return path

    return write


def names(path):
    return sorted(name for name, _architecture in dnf_history.automatic(path))


def test_dependencies_weak_ones_too(history):
    assert names(
        history(("a", INSTALL, DEPENDENCY), ("b", INSTALL, USER), ("c", INSTALL, WEAK), ("d", INSTALL, GROUP))
    ) == [
        "a",
        "c",
    ]


def test_the_last_action_counts(history):
    path = history(
        ("asked", INSTALL, DEPENDENCY),
        ("asked", REASON_CHANGE, USER),
        ("upgraded", INSTALL, DEPENDENCY),
        ("upgraded", UPGRADE, DEPENDENCY),
        ("upgraded", UPGRADED, USER),
        ("gone", INSTALL, DEPENDENCY),
        ("gone", REMOVE, DEPENDENCY),
    )
    assert names(path) == ["upgraded"]


def test_transactions_that_failed_do_not_count(history):
    assert names(history(("a", INSTALL, USER), ("a", INSTALL, DEPENDENCY, FAILED))) == []


def test_no_history(tmp_path):
    assert dnf_history.automatic(tmp_path / "none") is None


def test_a_damaged_history(tmp_path):
    (tmp_path / "history").write_bytes(b"SQLite format 3\0 and no more")
    assert dnf_history.automatic(tmp_path / "history") is None


def test_what_dnf_has_only_in_its_log_counts_and_all_files_stay_as_they_are(history):
    path = history(("a", INSTALL, USER))
    dnf = sqlite3.connect(path)  # dnf leaves its connection open, and with it the log
    dnf.execute("PRAGMA journal_mode = WAL")
    dnf.execute("UPDATE trans_item SET reason = ?", (DEPENDENCY,))
    dnf.commit()
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    assert sorted(before) == [path.name, f"{path.name}-shm", f"{path.name}-wal"]
    assert names(path) == ["a"]
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before
    dnf.close()
