# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether GPUs are fit for a job, by those checks of the proof that only a repair or reset mends. No I/O happens here.

A driver that does not answer in time is no finding: one that is late once must not drain a node. One that answers that
it serves nobody is: each job would fail there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks import board, memory
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import REGISTRY, Check, Facts, Node, Unread

if TYPE_CHECKING:
    from collections.abc import Collection

    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.driver import Nvml

# Each per GPU, and each by NVML alone.
FATAL = ("gpu-answers", "ecc-uncorrected", "sram-threshold", "row-remapping", "retired-pages")
SUBJECTS = (board, memory)  # whose modules put them into the registry
READ, LATE = ("ok", "no_devices"), "unresponsive"
# Of the states in which the driver serves no program, those that have a remedy of their own.
SERVES_NOBODY = {
    "mismatch": "the driver on disk is not the one that is loaded: reboot the node",
    "not_loaded": "the driver is not loaded: reboot the node, or run modprobe nvidia",
    "absent": "the driver's library cannot be loaded: install the driver",
}


def findings(answers: Nvml, expected: int, minors: Collection[int] | None = None) -> list[str]:
    """Return what makes GPUs unfit, a sentence each, from the facts ``nvml``.

    expected is how many GPUs Slurm knows here; minors are the numbers of their device files that a job has, None for
    all GPUs. A GPU that answers nothing has no number, and counts for every job. What was read before the driver was
    late, or the reader ended, counts.
    """
    if not expected:
        return []
    state, read = answers["state"], answers["gpus"]
    found = [_of_driver(answers)] if is_broken(answers) else []
    if state in READ and len(read) < expected:
        found.append(f"the driver lists {len(read)} of {expected} GPUs")
    node = Node(Facts({"nvml": answers}))
    for gpu in node.gpus:
        minor = gpu.data.get("minor")
        if minors is None or not isinstance(minor, int) or minor in minors:
            found += [f"GPU {gpu.data.get('index')}: {told}" for told in _told(node, gpu)]
    return found


def is_broken(answers: Nvml) -> bool:
    """Tell whether the driver answers that it serves no program."""
    return answers["state"] not in (*READ, LATE)


def _of_driver(answers: Nvml) -> str:
    why = (answers.get("error") or {}).get("text") or answers["state"]
    return f"{SERVES_NOBODY.get(answers['state'], 'the driver serves no program')} ({why})"


def _told(node: Node, gpu: Facts) -> list[str]:
    """Return what is wrong with a GPU; one that gives no handle serves no program, whatever the reason is called."""
    refused = gpu.data.get("error", gpu.data.get("unsupported"))
    if refused is not None:
        return [f"it answers {refused}"]
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
