"""What stands first when texts of public threads are pasted: bounds that hold, on both halves."""

import hashlib
from collections import Counter

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog

from . import threads

TEXTS = {half: threads.read(half) for half in threads.HALVES}
ALL = [record for records in TEXTS.values() for record in records]


def test_there_are_at_least_150_errors_and_40_healthy_texts():
    healthy = sum(not record["first"] for record in ALL)
    assert len(ALL) - healthy >= 150
    assert healthy >= 40
    assert len({record["text"] for record in ALL}) == len(ALL)


def test_what_is_frozen_was_not_chosen():
    for record in TEXTS["frozen"]:
        assert hashlib.sha256(record["text"].encode()).digest()[0] % 2 == 1, record["source"]


@pytest.mark.parametrize("half", threads.HALVES)
def test_bounds_of_a_half(half):
    count = Counter(threads.judged(record)[0] for record in TEXTS[half])
    errors = count[threads.RIGHT] + count[threads.NONE] + count[threads.WRONG]
    assert count[threads.WRONG] == 0
    assert count[threads.RIGHT] >= 0.6 * errors
    assert count[threads.ALARM] <= (count[threads.ALARM] + count[threads.SILENT]) / 20


def test_what_has_to_stand_first_is_known():
    """A label that nothing can give would only lower the figures."""
    known = {f"error-{record['id']}" for record in catalog.load().error_texts}
    for record in TEXTS["frozen"]:
        assert not record["first"] or any(
            name in known or name.startswith(("error-xid-", "network-")) for name in record["first"]
        ), record["source"]
