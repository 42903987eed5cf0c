# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run every check in the registry over one node's facts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks import (
    board,
    cuda,
    environments,
    gpu_settings,
    group,
    host,
    infiniband,
    kernel_log,
    libraries,
    limits,
    links,
    memory,
    monitoring,
    nccl,
    pcie,
    people,
    roce,
    services,
    slurm,
    software,
    storage,
    thermal,
    tuning,
)
from ansible_collections.gpulab.node.plugins.module_utils.checks.containers import engines as container_engines
from ansible_collections.gpulab.node.plugins.module_utils.checks.containers import images_of_work
from ansible_collections.gpulab.node.plugins.module_utils.checks.driver import gpus as driver_gpus
from ansible_collections.gpulab.node.plugins.module_utils.checks.driver import running as driver_running
from ansible_collections.gpulab.node.plugins.module_utils.checks.driver import versions as driver_versions
from ansible_collections.gpulab.node.plugins.module_utils.checks.measurements import collectives, load, peers, rdma
from ansible_collections.gpulab.node.plugins.module_utils.checks.measurements import gpus as measured_gpus
from ansible_collections.gpulab.node.plugins.module_utils.checks.measurements import node as measured_node
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    REGISTRY,
    Check,
    Facts,
    Node,
    Result,
    Unplanned,
    Unread,
    fail,
    inapplicable,
    skipped,
    unknown,
)

if TYPE_CHECKING:
    from collections.abc import Collection

# What must hold before anything else comes first; a report shows its checks in this order.
FILES = (
    driver_gpus,
    driver_versions,
    driver_running,
    software,
    cuda,
    libraries,
    services,
    container_engines,
    images_of_work,
    environments,
    kernel_log,
    board,
    memory,
    thermal,
    gpu_settings,
    pcie,
    links,
    infiniband,
    roce,
    nccl,
    group,
    host,
    storage,
    limits,
    tuning,
    monitoring,
    slurm,
    people,
    measured_gpus,
    peers,
    collectives,
    rdma,
    measured_node,
    load,
)
# NVML does not report these for a GPU with MIG instances (documented at nvmlDeviceGetRemappedRows); nor errors.
HIDDEN_BY_MIG = ("remapped_rows",)


def _subject(file: str) -> str:
    """Return what the checks of a file are about: its name, or that of the package of checks that it is in."""
    return file.partition(".checks.")[2].partition(".")[0]


SUBJECT_NAMES = list(dict.fromkeys(_subject(file.__name__) for file in FILES))


def checks() -> list[Check]:
    """Return every check that verify runs, in that order."""
    return [check for file in FILES for check in REGISTRY.values() if check.find.__module__ == file.__name__]


def subject(check: Check) -> str:
    """Return what a check is about: one of SUBJECT_NAMES."""
    return _subject(check.find.__module__)


def verify(node: Node, subjects: Collection[str] = ()) -> list[Result]:
    """Return the results of the checks, in the registry's order, each with its id, source and GPU.

    subjects limits them to those about one of these; empty means all.
    """
    chosen = [check for check in checks() if not subjects or subject(check) in subjects]
    return [result for check in chosen for result in run(check, node)]


def run(check: Check, node: Node) -> list[Result]:
    """Return the results of one check; at least one, whatever the facts hold."""
    if check.on_host and node.foreign_kernel:
        return [_sign(check, inapplicable("a container uses its host's kernel and modules"))]
    if not check.per_gpu:
        return [_sign(check, result) for result in _answers(check, node)]
    if not node.gpus:
        return [_sign(check, node.without("NVML lists no GPU (see driver-responsive)"))]
    return [_sign(check, result, gpu) for gpu in node.gpus for result in _gpu_answers(check, node, gpu)]


def _gpu_answers(check: Check, node: Node, gpu: Facts) -> list[Result]:
    if set(gpu.data) <= {"index", "error", "code", "unsupported"}:
        return [skipped("the GPU does not answer (see gpu-count)")]
    return _answers(check, node, gpu)


def _answers(check: Check, node: Node, *gpu: Facts) -> list[Result]:
    """Return the check's own results, or the one that says what kept it from answering."""
    results = []
    try:
        for result in check.find(node, *gpu):
            results.append(result)  # noqa: PERF402 - what was found before a fact was missing counts
    except Unread as unread:
        results.append(_unread(check, unread, node, *gpu))
    except Unplanned as unplanned:
        results.append(skipped(str(unplanned)))
    return results or [unknown("the check gave no answer; please report this as a bug in gpulab")]


def _unread(check: Check, unread: Unread, node: Node, gpu: Facts | None = None) -> Result:
    """Turn a fact that cannot be had into a result."""
    if unread.error is None:
        return unknown(f"the facts do not contain {unread.path}")
    if unread.error in board.BROKEN:
        return skipped(f"the GPU answers {unread.error} (see gpu-answers)")
    if not unread.unsupported:
        return unknown(f"{unread.path} could not be read: {unread.error}")
    return _unsupported(check, unread.error, node, gpu)


def _unsupported(check: Check, error: str, node: Node, gpu: Facts | None) -> Result:
    """Judge what a board does not support: a fault if its model has it, unknown if a virtual machine may hide it."""
    profile = node.profile(gpu) if gpu else {}
    capabilities = profile.get("capabilities", ())
    if gpu and gpu.get("mig.enabled") and (check.requires in HIDDEN_BY_MIG or check.also_requires):
        return inapplicable(f"NVML does not report it while MIG is on ({error})")
    if check.also_requires and check.also_requires[0] in capabilities:
        return skipped(f"the board does not report it ({error}; see {check.also_requires[1]})")
    if not check.requires or check.requires not in capabilities:
        return inapplicable(f"the board or its driver does not support it ({error})")
    text = f"a {profile.get('name', 'board of this model')} has {check.requires}, but this one does not report it"
    if node.facts.get("system.virtualization", "none") != "none" and not node.facts.get("simulated"):
        return unknown(f"{text} in this virtual machine ({error})")
    return fail(text, "contact_support", observed=error, expected=check.requires)


def _sign(check: Check, result: Result, gpu: Facts | None = None) -> Result:
    return replace(result, id=check.id, source=check.source, gpu=gpu.identity() if gpu else result.gpu)
