# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPUs nobody uses, so that a test takes nothing from anybody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.facts.users import MACHINE, named, workers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.module_utils.active.shapes import NvmlGpu
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.driver import UsersOfGpus

HIDDEN = "who uses it is hidden from this user (run as root)"


def why_not(gpu: NvmlGpu, gpus: list[NvmlGpu], users: UsersOfGpus) -> str | None:
    """Return why a GPU may not be tested now, or None where it is idle.

    gpu and gpus are NVML's, users is the fact users_of_gpus. A process that NVML names occupies its GPU; one that only
    has a device file open, a container and a job may use any of them. A virtual machine has one that NVML
    does not know.
    """
    if not isinstance(gpu.get("uuid"), str) or not isinstance(gpu.get("processes"), list):
        return "NVML does not report which GPU it is, or who uses it"
    work = {entry["pid"]: entry for entry in workers(users)}
    here = [process["pid"] for process in gpu["processes"] if process["pid"] in work]
    if here:
        return "in use by " + ", ".join(named(work[pid]) for pid in here)
    placed = {process["pid"] for each in gpus for process in _listed(each)}
    elsewhere = [entry for pid, entry in work.items() if pid not in placed and entry["kind"] != MACHINE]
    if elsewhere:
        return f"{', '.join(map(named, elsewhere))} may use any GPU"
    if users["state"] == "unknown":
        return HIDDEN
    return "MIG is on: the GPU is not one device" if gpu["mig"].get("enabled") else None


def in_use(users: UsersOfGpus) -> str | None:
    """Return who works with the node's GPUs, or None; whoever does, needs its disks and processors, too."""
    found = workers(users)
    if found:
        return "in use by " + ", ".join(map(named, found))
    return HIDDEN if users["state"] == "unknown" else None


def taken(uuids: Iterable[str], gpus: list[NvmlGpu], users: UsersOfGpus) -> dict[str, str]:
    """Return, by uuid, why some of these GPUs may not be tested any more; gpus and users are those of now."""
    listed = {gpu["uuid"]: gpu for gpu in gpus if isinstance(gpu.get("uuid"), str)}
    reasons = {uuid: why_not(listed.get(uuid, {}), gpus, users) for uuid in uuids}
    return {uuid: reason for uuid, reason in reasons.items() if reason}


def _listed(gpu: NvmlGpu) -> list[dict[str, Any]]:
    processes = gpu.get("processes")
    return processes if isinstance(processes, list) else []
