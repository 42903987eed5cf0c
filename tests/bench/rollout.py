"""Measure what a rollout's record costs a node among 100, 1,000 and 10,000 of them.

The steps of a node are those of playbooks/rollout.yml; nothing is changed, and no node is connected to.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS)]
import conftest  # noqa: F401  it makes this checkout importable as a collection
from unit.rollout.fleet import Fleet

SIZES = (100, 1000, 10000)
MEASURED = 24  # nodes whose steps are measured: less than a quarter of the fewest
NOTED = ("changing", "proving", "done")


def rolled(directory: Path, nodes: int) -> dict[str, float]:
    """Return the milliseconds that the order and the steps take, for each node."""
    fleet = Fleet(directory, *(f"n{number}" for number in range(1, nodes + 1)))
    start = time.monotonic()
    order = fleet.order("25%", "50%")
    ordered = time.monotonic()
    canary, *others = order["order"]
    _batch_through(fleet, [canary])
    begun = time.monotonic()
    _batch_through(fleet, others[: order["sizes"][1]])
    ended = time.monotonic()
    return {
        f"{nodes}: order, a node (ms)": 1e3 * (ordered - start) / nodes,
        f"{nodes}: steps, a node (ms)": 1e3 * (ended - begun) / MEASURED,
    }


def _batch_through(fleet: Fleet, batch: list[str]) -> None:
    """Take the first nodes of a batch through their steps."""
    for name in batch[:MEASURED]:
        assert fleet.work("turn", name, batch, file=fleet.file)["go"]
    for state in NOTED:
        for name in batch[:MEASURED]:
            fleet.work("note", name, batch, file=fleet.file, state=state)


def main() -> None:
    """Print one line of JSON."""
    figures: dict[str, float] = {}
    for nodes in SIZES:
        with tempfile.TemporaryDirectory() as directory:
            figures.update(rolled(Path(directory), nodes))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
