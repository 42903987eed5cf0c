"""What stands first when texts of public threads are pasted: bounds that hold, on both halves."""

import hashlib
from collections import Counter

import pytest

from . import threads

TEXTS = {half: threads.read(half) for half in threads.HALVES}
ALL = [record for records in TEXTS.values() for record in records]
MEASURED = {
    "open": {threads.RIGHT: 327, threads.WRONG: 0, threads.ALARM: 0},
    "frozen": {threads.RIGHT: 51, threads.WRONG: 2, threads.ALARM: 0},
}


def test_there_are_at_least_150_errors_and_40_healthy_texts():
    healthy = sum(not record["first"] for record in ALL)
    assert len(ALL) - healthy >= 150
    assert healthy >= 40
    assert len({record["text"] for record in ALL}) == len(ALL)


def test_what_is_frozen_was_not_chosen():
    """A coin that the thread's address fixes says which half a text is in."""
    for record in TEXTS["frozen"]:
        assert hashlib.sha256(record["source"].encode()).digest()[0] % 2 == 1, record["source"]


@pytest.mark.parametrize("half", threads.HALVES)
def test_no_half_falls_behind_what_was_measured(half):
    count = Counter(threads.judged(record)[0] for record in TEXTS[half])
    assert count[threads.RIGHT] >= MEASURED[half][threads.RIGHT]
    assert count[threads.WRONG] <= MEASURED[half][threads.WRONG]
    assert count[threads.ALARM] <= MEASURED[half][threads.ALARM]
