"""Measure how long the report of 64 nodes of 8 GPUs takes to be made, and how large it is."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS)]
import conftest  # noqa: F401  it makes this checkout importable as a collection
from ansible_collections.gpulab.node.plugins.plugin_utils.report import document
from ansible_collections.gpulab.node.plugins.plugin_utils.report.html import html
from unit.report import runs

NODES = 64
BUDGET_S, BUDGET_MB = 5.0, 5.0


def main() -> None:
    """Print one line of JSON: the seconds, the size, and what was promised of both."""
    host = runs.faulty("two NVLinks down", "XID 79", "row remap failed, and pending too")
    hosts = {f"gpu{number:02d}": host for number in range(NODES)}
    start = time.process_time()
    text = html(document.build(hosts, runs.CREATED))
    seconds = time.process_time() - start
    size = len(text.encode()) / 1e6
    print(json.dumps({"seconds of CPU": seconds, "promised s": BUDGET_S, "MB": size, "promised MB": BUDGET_MB}))


if __name__ == "__main__":
    main()
