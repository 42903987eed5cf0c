"""How long roles will take, by what they took before: the host's own runs first, then those of others."""

from __future__ import annotations

import json
import os

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.history.durations import expected


@pytest.fixture
def history(tmp_path):
    """Return a function that writes the runs of a host, and the directory."""

    def write(host, *runs, age=0):
        path = tmp_path / f"{host}.jsonl"
        path.write_text("".join(json.dumps({"schema": 1, "roles": roles}) + "\n" for roles in runs), encoding="utf-8")
        os.utime(path, (1000 - age, 1000 - age))
        return tmp_path

    return write


def test_a_host_that_has_run_it_takes_as_long_as_the_last_time(history):
    place = history("a", {"base": 30.0, "verify": 5.0}, {"base": 2.0, "verify": 4.0}, None, {"verify": 3.0})
    history("b", {"base": 99.0, "verify": 99.0})
    assert expected(place, "a", {"base": False}) == {"base": 2.0, "verify": 3.0}


def test_a_role_that_begins_from_nothing_takes_as_long_as_it_ever_took(history):
    place = history("a", {"base": 30.0, "verify": 5.0}, {"base": 2.0, "verify": 4.0})
    assert expected(place, "a", {"base": True}) == {"base": 30.0, "verify": 4.0}


def test_a_new_host_takes_as_long_as_the_one_that_ran_last(history):
    history("old", {"base": 99.0, "cuda": 50.0, "verify": 9.0}, age=100)
    place = history("new", {"base": 20.0, "verify": 4.0})
    assert expected(place, "a", {"base": True, "cuda": True}) == {"base": 20.0, "cuda": 50.0, "verify": 4.0}


@pytest.mark.parametrize("due", [{"base": True, "cuda": True}, {}])
def test_nothing_is_foretold_where_a_role_never_ran_or_nothing_is_due(history, due):
    assert expected(history("a", {"base": 20.0, "verify": 4.0}), "a", due) == {}


def test_without_history_nothing_is_foretold(tmp_path):
    assert expected(tmp_path / "none", "a", {"base": True}) == {}
