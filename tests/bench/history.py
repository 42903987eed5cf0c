"""Measure what history.yml takes over 36 nights and over 365, of 20 hosts; it reads one host after the other."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from unittest.mock import Mock

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS)]
import conftest  # noqa: F401  it makes this checkout importable as a collection
from ansible_collections.gpulab.node.plugins.action.history import ActionModule
from ansible_collections.gpulab.node.plugins.plugin_utils.history import files
from ansible_collections.gpulab.node.plugins.plugin_utils.history.lines import line
from ansible_collections.gpulab.node.plugins.plugin_utils.history.memory import Memory, Settings
from ansible_collections.gpulab.node.plugins.plugin_utils.report import document
from unit.report import runs

HOSTS, NIGHTS = 20, (36, 365)


def told(nights: int, directory: Path) -> dict[str, float]:
    """Return what the history of so many nights takes to be read and told."""
    report = document.build(runs.fleet(HOSTS), runs.CREATED)
    lines = {host["name"]: line(report, host) for host in report["hosts"]}
    for night in range(nights):
        created = datetime.now(timezone.utc) - timedelta(days=nights - night)
        files.append(
            directory, {name: {**kept, "created": f"{created:%Y-%m-%dT%H:%M:%SZ}"} for name, kept in lines.items()}
        )
    memory = Memory(directory, Settings())
    proven = memory.proven(lines.values())
    for name, last in lines.items():
        proven.follow(name, last, [])
    memory.write()
    size = sum(path.stat().st_size for path in directory.glob("*.json*"))
    task = Mock(check_mode=False, async_val=0, action="history", args={"directory": str(directory), "days": nights + 1})
    plugin = ActionModule(task, Mock(), Mock(), Mock(), Mock(), Mock())
    plugin._connection._shell.tmpdir = None  # noqa: SLF001
    start = time.process_time()
    found = plugin.run(None, {"ansible_play_hosts_all": list(lines)})
    seconds = time.process_time() - start
    assert {host["proofs"] for host in found["hosts"]} == {nights}
    return {
        f"{nights} nights: CPU, a host and night (ms)": 1e3 * seconds / HOSTS / nights,
        f"{nights} nights: on disk, a host and night (kB)": size / HOSTS / nights / 1e3,
        f"{nights} nights: memory (MB)": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }


def main() -> None:
    """Print one line of JSON."""
    figures: dict[str, float] = {}
    for nights in NIGHTS:
        with tempfile.TemporaryDirectory() as directory:
            figures.update(told(nights, Path(directory)))
    print(json.dumps({**figures, "promised: memory (MB)": 200.0}))


if __name__ == "__main__":
    main()
