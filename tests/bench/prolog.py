"""Lay Slurm's prolog out as the role slurm does, for nodes of which Slurm expects eight and nine GPUs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS)]
import conftest  # noqa: F401  it makes this checkout importable as a collection
from ansible_collections.gpulab.node.plugins.filter.program import program

PROLOG = TESTS.parent / "roles/slurm/files/prolog.py"

if __name__ == "__main__":
    for gpus in (8, 9):
        place = Path(sys.argv[1], str(gpus))
        settings = {str(place / "node.json"): json.dumps({"gpus": gpus, "most_drained": 0})}
        for path, text in {**program(str(PROLOG), str(place), executable=True), **settings}.items():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(text, encoding="utf-8")
        (place / "prolog.py").chmod(0o755)
