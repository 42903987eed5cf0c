"""Measure how long the report of 200 nodes takes to be made, and how large it is."""

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

NODES = 200
BUDGET_S, BUDGET_MB = 5.0, 1.5


def main() -> None:
    """Print one line of JSON: the seconds, the size, and what was promised of both."""
    hosts = runs.fleet(NODES)
    start = time.process_time()
    text = html(document.build(hosts, runs.CREATED))
    seconds = time.process_time() - start
    size = len(text.encode()) / 1e6
    print(json.dumps({"seconds of CPU": seconds, "promised s": BUDGET_S, "MB": size, "promised MB": BUDGET_MB}))


if __name__ == "__main__":
    main()
