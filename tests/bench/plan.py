"""Measure how long 1,000 hosts take to be planned on one core, the reading of the catalog included."""

from __future__ import annotations

import json
import sys
import time
from datetime import date
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "unit")]
import conftest  # noqa: F401  it makes this checkout importable as a collection
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import resolve
from plan.make import SYSTEMS, facts

HOSTS = 1000
BUDGET_S = 2.0
WISHES = {"cuda_toolkits": ["12.9"], "gpulab_environments": [{"name": "lab", "pytorch": "2.9"}]}


def main() -> None:
    """Print one line of JSON: hosts, CPU seconds, and the seconds that were promised."""
    platforms = [name for name in SYSTEMS if name != "debian-13"]  # its repository has no CUDA 12
    nodes = [facts(platforms[index % len(platforms)], ["10de:2330"] * 8) for index in range(HOSTS)]
    start = time.process_time()
    known = catalog.Catalog()
    for node in nodes:
        resolve(node, options.complete(WISHES), known, date(2026, 11, 20))
    seconds = time.process_time() - start
    print(json.dumps({"hosts": HOSTS, "seconds of CPU": seconds, "promised": BUDGET_S}))


if __name__ == "__main__":
    main()
