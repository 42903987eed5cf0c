# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether GPUs are fit for a job, by those checks of the proof that only a repair or reset mends. No I/O happens here.

What could not be looked at is no finding: a driver that is late once must not drain a node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.checks import board, memory
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import REGISTRY, Check, Facts, Node, Unread

if TYPE_CHECKING:
    from collections.abc import Collection

# Each per GPU, and each by NVML alone.
FATAL = ("gpu-answers", "ecc-uncorrected", "sram-threshold", "row-remapping", "retired-pages")
SUBJECTS = (board, memory)  # whose modules put them into the registry


def findings(answers: dict[str, Any], expected: int, minors: Collection[int] | None = None) -> list[str]:
    """Return what makes GPUs unfit, a sentence each, from the facts ``nvml``.

    expected is how many GPUs Slurm knows here; minors are the numbers of their device files that a job has, None for
    all GPUs. A GPU that answers nothing has no number, and counts for every job.
    """
    if answers["state"] not in ("ok", "no_devices"):
        return []
    read = answers["gpus"]
    found = [f"the driver lists {len(read)} of {expected} GPUs"] if len(read) < expected else []
    node = Node(Facts({"nvml": answers}))
    for gpu in node.gpus:
        if minors is None or gpu.data.get("minor", -1) in {-1, *minors}:
            found += [f"GPU {gpu.data.get('index')}: {told}" for told in _told(node, gpu)]
    return found


def _told(node: Node, gpu: Facts) -> list[str]:
    if "error" in gpu.data:
        return [f"it answers {gpu.data['error']}"] if gpu.data["error"] in board.BROKEN else []
    return [summary for name in FATAL for summary in _failed(REGISTRY[name], node, gpu)]


def _failed(check: Check, node: Node, gpu: Facts) -> list[str]:
    try:
        return [result.summary for result in check.find(node, gpu) if result.severity == "fail"]
    except Unread:
        return []


def numbers(listed: str) -> list[int]:
    """Return the GPUs of SLURM_JOB_GPUS, such as "0,2-3"; none where a part is no number."""
    found: list[int] = []
    for part in filter(None, listed.split(",")):
        first, _dash, last = part.partition("-")
        if not (first.isdigit() and (last or first).isdigit()):
            return []
        found += range(int(first), int(last or first) + 1)
    return found


def may_drain(states: Collection[str], most: int) -> bool:
    """Tell whether one more node may be drained: most is a percentage of all, and one node may be in any case.

    states has the reason of each node of the cluster, empty where it takes jobs.
    """
    drained = sum(bool(state) for state in states)
    return drained == 0 or (drained + 1) * 100 <= most * len(states)
