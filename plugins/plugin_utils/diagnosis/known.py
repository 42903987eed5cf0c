# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the proof's checks say of the node as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.checks import runner
from ansible_collections.gpulab.node.plugins.module_utils.checks.remedies import REMEDIES
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
    "roce": HANG,
    "nccl": HANG,
    "group": NETWORK,
    "host": SLOW,
    "storage": SLOW,
    "tuning": SLOW,
    "slurm": HANG,
    "monitoring": None,  # explains no symptom of a program, and neither does this:
    "people": None,
    "measurements": SLOW,
}
COSTS = {"fail": MOST, "warn": SOME}
TOLD_BETTER = frozenset({"clock", "shared-memory", "memlock"})  # by a rule of the diagnosis, with a command


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
            tuple(f"observed {one.observed}{_expected(one)}" for one in alike if one.observed is not None)[:4],
            id_,
            str(SUBJECTS[subjects[id_]]),
            first.source,
        )


def _expected(result: Result) -> str:
    unit = f" {result.unit}" if result.unit else ""
    return unit if result.expected is None else f", expected {result.expected}{unit}"


def _cost(result: Result) -> float:
    """Return the share by which a rate falls short of what is expected, else a place by severity."""
    numbers = isinstance(result.observed, (int, float)) and isinstance(result.expected, (int, float))
    rates = result.unit in ("GB/s", "TFLOPS", "lanes", "MB/s", "W", "GT/s", "MHz")
    if numbers and rates and 0 <= result.observed < result.expected:
        return round(1 - result.observed / result.expected, 2)
    return COSTS[result.severity]
