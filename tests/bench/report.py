"""Measure what the report of 200 and of 2,000 nodes takes, and how soon a browser shows that of 1,000."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS)]
import conftest  # noqa: F401  it makes this checkout importable as a collection
from ansible_collections.gpulab.node.plugins.plugin_utils.report import document, files
from ansible_collections.gpulab.node.plugins.plugin_utils.report.html import html
from unit.pages.chromium import PROGRAM, Browser
from unit.report import runs

SIZES, SHOWN = (200, 2000), 1000
PROMISED = {
    "promised: 200 nodes (s)": 5.0,
    "promised: report.json, a node (kB)": 15.0,
    "promised: shown after (s)": 2.0,
}
PAINTED = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"


def written(nodes: int, directory: Path) -> dict[str, float]:
    """Return what the report of so many nodes takes, all its files together, and how large two of them are."""
    hosts = runs.fleet(nodes)
    start = time.process_time()
    files.write(document.build(hosts, runs.CREATED), directory)
    seconds = time.process_time() - start
    sizes = {name: (directory / name).stat().st_size for name in ("report.json", "report.html")}
    return {
        f"{nodes} nodes: CPU (s)": seconds,
        f"{nodes} nodes: CPU, a node (ms)": 1e3 * seconds / nodes,
        f"{nodes} nodes: report.json, a node (kB)": sizes["report.json"] / nodes / 1e3,
        f"{nodes} nodes: report.html (MB)": sizes["report.html"] / 1e6,
    }


def shown(nodes: int, directory: Path) -> dict[str, float]:
    """Return after how many seconds Chromium has painted a report, from when it was asked for it."""
    if not PROGRAM:
        return {}
    page = directory / "page.html"
    page.write_text(html(document.build(runs.fleet(nodes), runs.CREATED)), encoding="utf-8")
    browser = Browser(directory / "profile")
    try:
        start = time.monotonic()
        browser.open(page)
        browser.look(PAINTED)
        return {f"{nodes} nodes: shown after (s)": time.monotonic() - start}
    finally:
        browser.close()


def main() -> None:
    """Print one line of JSON."""
    with tempfile.TemporaryDirectory() as directory:
        figures = {name: value for nodes in SIZES for name, value in written(nodes, Path(directory)).items()}
        print(json.dumps({**figures, **shown(SHOWN, Path(directory)), **PROMISED}))


if __name__ == "__main__":
    main()
