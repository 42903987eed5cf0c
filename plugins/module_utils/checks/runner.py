# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run every check in the registry over one node's facts."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.gpulab.node.plugins.module_utils.checks import driver  # noqa: F401 - fills the registry
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    REGISTRY,
    Check,
    Facts,
    Node,
    Result,
    Unread,
    fail,
    skipped,
    unknown,
)

# NVML's errors (nvml.h, without the prefix NVML_ERROR_) that say the GPU is broken, and what helps.
BROKEN = {
    "GPU_IS_LOST": "reboot",
    "RESET_REQUIRED": "reset_gpu",
    "CORRUPTED_INFOROM": "rma",
    "IRQ_ISSUE": "reboot",
    "INSUFFICIENT_POWER": "check_power",
    "TIMEOUT": "reboot",
}


def checks() -> list[Check]:
    """Return every check that verify runs, in that order."""
    return list(REGISTRY.values())


def verify(node: Node) -> list[Result]:
    """Return the results of all checks, in the registry's order, each with its id, source and GPU."""
    return [result for check in checks() for result in run(check, node)]


def run(check: Check, node: Node) -> list[Result]:
    """Return the results of one check; at least one, whatever the facts hold."""
    if check.on_host and node.foreign_kernel:
        return [_sign(check, skipped("in a container the kernel and its modules are the host's"))]
    if not check.per_gpu:
        return [_sign(check, result) for result in _answers(check, node)]
    if not node.gpus:
        return [_sign(check, skipped("NVML lists no GPU (see driver-responsive)"))]
    return [_sign(check, result, gpu) for gpu in node.gpus for result in _answers(check, node, gpu)]


def _answers(check: Check, node: Node, *gpu: Facts) -> list[Result]:
    """Return the check's own results, or the one that says what kept it from answering."""
    results = []
    try:
        for result in check.find(node, *gpu):
            results.append(result)  # noqa: PERF402 - what was found before a fact was missing counts
    except Unread as unread:
        results.append(_unread(check, unread, node, *gpu))
    return results or [unknown("the check gave no answer; please report this as a bug in gpulab")]


def _unread(check: Check, unread: Unread, node: Node, gpu: Facts | None = None) -> Result:
    """Turn a fact that cannot be had into a result."""
    if unread.error is None:
        return unknown(f"the facts do not hold {unread.path}")
    if unread.error in BROKEN:
        return fail(f"the GPU answers {unread.error}", BROKEN[unread.error], observed=unread.error, reason=unread.path)
    if not unread.unsupported:
        return unknown(f"{unread.path} could not be read: {unread.error}")
    profile = node.profile(gpu) if gpu else {}
    if check.requires and check.requires in profile.get("capabilities", ()):
        return fail(
            f"a {profile.get('name', 'board of this model')} has {check.requires}, this one does not show it",
            "contact_support",
            observed=unread.error,
            expected=check.requires,
        )
    return skipped(f"the board or its driver does not have it ({unread.error})")


def _sign(check: Check, result: Result, gpu: Facts | None = None) -> Result:
    who = {key: gpu.get(key) for key in ("index", "uuid", "bus_id")} if gpu else result.gpu
    return replace(result, id=check.id, source=result.source or check.source, gpu=who)
