# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of the error that was pasted, and what the proof's checks say of the node as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.checks import runner
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import REMEDIES
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import (
    ALL,
    HANG,
    IMPORT,
    MEMORY,
    MISMATCH,
    MOST,
    NETWORK,
    SLOW,
    SOME,
    Finding,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Result
    from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog

MOST_SHOWN = 400  # characters of a line
KNOWN_TEXT = 0.9  # an error's usual cause; what was seen on the node goes before it
# Which symptom a finding of the proof explains, by the subject of its check
SUBJECTS = {
    "driver": MISMATCH,
    "software": MISMATCH,
    "cuda": MISMATCH,
    "libraries": MISMATCH,
    "environments": IMPORT,
    "services": IMPORT,
    "containers": IMPORT,
    "limits": IMPORT,
    "kernel_log": HANG,
    "board": HANG,
    "memory": MEMORY,
    "thermal": SLOW,
    "gpu_settings": SLOW,
    "pcie": SLOW,
    "links": SLOW,
    "infiniband": HANG,
    "nccl": HANG,
    "group": NETWORK,
    "host": SLOW,
    "storage": SLOW,
    "tuning": SLOW,
    "slurm": HANG,
    "monitoring": None,  # explains no symptom of a program
    "measurements": SLOW,
}
COSTS = {"fail": MOST, "warn": SOME}
TOLD_BETTER = frozenset({"clock", "shared-memory", "memlock"})  # by a rule of the diagnosis, with a command


def errors(catalog: Catalog, text: str) -> Iterator[Finding]:
    """Explain the known errors in a text, in the order in which they stand there."""
    found = [(match.start(), record) for record in catalog.error_texts if (match := record["pattern"].search(text))]
    sources = catalog.read("error_texts")["sources"]
    for place, record in sorted(found, key=lambda one: one[0]):
        yield Finding(
            record["cause"],
            record["remedy"],
            KNOWN_TEXT,
            (text[text.rfind("\n", 0, place) + 1 :].splitlines()[0].strip()[:MOST_SHOWN],),
            f"error-{record['id']}",
            record["symptom"],
            ", ".join(sources.get(source, source) for source in record["source"]),
        )


def checks(results: Iterable[Result], symptom: str) -> Iterator[Finding]:
    """Turn what the proof's checks find into findings of a diagnosis, those about the symptom."""
    subjects = {check.id: runner.subject(check) for check in runner.checks()}
    seen: dict[tuple[str, str], list[Any]] = {}
    for result in results:
        about = SUBJECTS[subjects[result.id]]
        wanted = about is not None and symptom in (ALL, about)
        if wanted and result.severity in COSTS and result.id not in TOLD_BETTER:
            seen.setdefault((result.id, result.summary), []).append(result)
    for (id_, summary), alike in seen.items():
        first = alike[0]
        gpus = [str(one.gpu["index"]) for one in alike if one.gpu]
        where = f"GPU {', '.join(gpus)}: " if gpus else ""
        yield Finding(
            f"{where}{summary}" + (f" ({first.reason})" if first.reason else ""),
            REMEDIES[first.remediation],
            _cost(first),
            tuple(
                f"observed {one.observed}, expected {one.expected}{f' {one.unit}' if one.unit else ''}"
                for one in alike
                if one.observed is not None
            )[:4],
            id_,
            str(SUBJECTS[subjects[id_]]),
            first.source,
        )


def _cost(result: Result) -> float:
    """Return the share that a rate falls short of what is expected, else a share by severity."""
    numbers = isinstance(result.observed, (int, float)) and isinstance(result.expected, (int, float))
    rates = result.unit in ("GB/s", "TFLOPS", "lanes", "MB/s", "W", "GT/s", "MHz")
    if numbers and rates and 0 <= result.observed < result.expected:
        return round(1 - result.observed / result.expected, 2)
    return COSTS[result.severity]
