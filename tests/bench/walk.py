"""Measure the walk of a capture over 20,000 and over 200,000 files that are in no bin, against find."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS)]
import conftest  # noqa: F401  it makes this checkout importable as a collection
from ansible_collections.gpulab.node.plugins.module_utils.capture import asked, environments, look, owned, walk
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.records import typed
from ansible_collections.gpulab.node.plugins.plugin_utils import options
from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog
from ansible_collections.gpulab.node.plugins.plugin_utils.roles import leaves

SIZES, IN_ONE = (20_000, 200_000), 100
FIND = ("-xdev", "-printf", "%p %y %m %U:%G %s %T@ %l\n")


def wishes(node: Node) -> walk.Wishes:
    """Return what decides of the bins of paths: the catalog's patterns and the roles'."""
    catalog = Catalog()
    parts = {name: catalog.read(name)[name] for name in ("captured", "ephemeral")}
    given = {**parts, "leaves": leaves.on_host(options.complete({})), "largest": 64 << 20}
    goes_by = typed({**given, "paths": [], "acknowledged": [], "receipts": []}, asked.Asked)
    return look.wishes(node, goes_by, {})


def walked(files: int, root: Path) -> dict[str, float]:
    """Return what the walk over so many files takes, and find."""
    for number in range(files // IN_ONE):
        directory = root / f"home/wei/data/{number // 100}/{number % 100}"
        directory.mkdir(parents=True)
        for name in range(IN_ONE):
            (directory / f"{name:04d}.jpg").touch()
    node = Node(root)
    run = walk.Walk(node, owned.Packages(node), wishes(node), partial(environments.at, node=node)).run
    times = []
    for _run in range(3):
        start = time.monotonic()
        subprocess.run(["find", root, *FIND], check=True, stdout=subprocess.DEVNULL)
        between = time.monotonic()
        run(["/"], set())
        times.append((between - start, time.monotonic() - between))
    find, own = (min(of_one) for of_one in zip(*times))
    return {
        f"{files} files: walk / find -printf": own / find,
        f"{files} files: walk, a file (us)": 1e6 * own / files,
        f"{files} files: memory (MB)": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }


def main() -> None:
    """Print one line of JSON."""
    figures: dict[str, float] = {}
    for files in SIZES:
        with tempfile.TemporaryDirectory() as directory:
            figures.update(walked(files, Path(directory)))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
