"""Print what the diagnosis answers to texts that people pasted into public threads: python tests/diagnosis_table.py.

Of the open half each miss is named; of the frozen half, which is the measure, only with --frozen.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import conftest  # noqa: F401 - makes the collection importable
from unit.diagnosis import threads

KINDS = (threads.RIGHT, threads.NONE, threads.WRONG, threads.SILENT, threads.ALARM)


def main() -> None:
    """Print the misses that may be seen, then the figures of both halves."""
    shown = threads.HALVES if "--frozen" in sys.argv[1:] else threads.HALVES[:1]
    figures = {}
    for half in threads.HALVES:
        answers = [(record, *threads.judged(record)) for record in threads.read(half)]
        figures[half] = Counter(kind for _record, kind, _first in answers)
        for record, kind, first in answers:
            if half in shown and kind not in (threads.RIGHT, threads.SILENT):
                wanted = " or ".join(record["first"]) or "nothing"
                sys.stdout.write(f"{half}: {kind}: {record['source']}: {first or 'nothing'}, not {wanted}\n")
    row("half", ("errors", *KINDS[:3], "healthy", *KINDS[3:]))
    for half, counts in figures.items():
        errors, healthy = (sum(counts[kind] for kind in kinds) for kinds in (KINDS[:3], KINDS[3:]))
        shares = [f"{counts[kind]} ({counts[kind] / errors:.0%})" for kind in KINDS[:3]]
        shares_healthy = [f"{counts[kind]} ({counts[kind] / healthy:.0%})" for kind in KINDS[3:]]
        row(half, (str(errors), *shares, str(healthy), *shares_healthy))


def row(name: str, cells: tuple[str, ...]) -> None:
    """Print one line of the table."""
    sys.stdout.write(f"{name:<8}" + "".join(f"{cell:>14}" for cell in cells) + "\n")


if __name__ == "__main__":
    main()
