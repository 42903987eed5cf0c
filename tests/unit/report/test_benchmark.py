"""A fleet's report is made in seconds, and a browser can open it."""

import time

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.report import document
from ansible_collections.gpulab.node.plugins.plugin_utils.report.html import html

from unit.report import runs

SECONDS = 5.0


@pytest.mark.parametrize(("number", "size"), [(200, 1_500_000), (400, 3_000_000)])
def test_a_fleet_renders_in_time_and_size(number, size):
    started = time.process_time()
    text = html(document.build(runs.fleet(number), runs.CREATED))
    assert time.process_time() - started < SECONDS
    assert len(text.encode()) < size
    assert text.count('<tr id="host-') == number
