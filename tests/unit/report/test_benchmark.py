"""A fleet's report is made in seconds, and a browser can open it."""

import time

from ansible_collections.gpulab.node.plugins.plugin_utils.report import document
from ansible_collections.gpulab.node.plugins.plugin_utils.report.html import html

from unit.checks import nodes
from unit.report import runs

NODES, SECONDS, BYTES = 64, 5.0, 5_000_000


def test_64_nodes_of_8_gpus_render_in_time_and_size():
    host = runs.faulty("two NVLinks down", "XID 79", "row remap failed, and pending too")
    hosts = {f"gpu{number:02d}": host for number in range(NODES)}
    hosts["gpu00"] = runs.judged(nodes.healthy("h100x8"))
    started = time.perf_counter()
    text = html(document.build(hosts, runs.CREATED))
    assert time.perf_counter() - started < SECONDS
    assert len(text.encode()) < BYTES
    assert text.count("<tr>") > NODES * 8
