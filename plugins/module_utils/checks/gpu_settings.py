# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that the GPUs are set as planned: what NVML reads against what the inventory declares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    check,
    fail,
    inapplicable,
    info,
    ok,
    skipped,
    warn,
)
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.gpu_settings import plan
from ansible_collections.gpulab.node.plugins.module_utils.gpu_settings.plan import CLOCKS, ECC, INSTANCES, MIG
from ansible_collections.gpulab.node.plugins.module_utils.nvml import mig_profiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts, Node, Result

MIG_GUIDE = "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/"
NVML_COMMANDS = "https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceCommands.html"


def declared(node: Node) -> dict[str, Any]:
    """Return the settings that were applied; where no receipt holds them, those that gpulab keeps in its file."""
    planned = node.plan.get("gpu_settings.settings") if node.plan else None
    applied = node.facts.get("gpu_settings") if planned is None else planned
    return applied.data if applied else {}


def planned(node: Node, gpu: Facts) -> dict[str, Any]:
    """Return what one GPU is to have, by name; nothing where that cannot be told."""
    try:
        aims = plan.wanted(declared(node), plan.usable(one.data for one in node.gpus))
    except Refusal:
        return {}
    return aims.get(gpu.get("bus_id"), {})


@check("gpu-settings", proves="the GPU has the planned settings", source=NVML_COMMANDS, per_gpu=True)
def settings(node: Node, gpu: Facts) -> Iterator[Result]:
    """Compare, by what the role itself would have to change."""
    try:
        present = plan.usable(one.data for one in node.gpus)
        aim = plan.wanted(declared(node), present).get(gpu.get("bus_id"), {})
        steps = plan.plan({"all": aim}, [gpu.data])
    except Refusal as refusal:
        yield fail(refusal.cause.rstrip("."), "configure", reason=refusal.remedy)
        return
    compared = [name for name in aim if name != INSTANCES]  # that has a check of its own
    if not compared:
        yield inapplicable("no settings are declared")
        return
    differing = [step for step in steps if step.name not in (CLOCKS, INSTANCES)]
    for step in differing:
        yield warn(f"{step.name} is {step.before}", "configure", observed=step.before, expected=step.after)
    later = [name for name in (ECC, MIG) if name in aim and aim[name] != _holds(gpu, name)]
    for name in later:
        if name not in [step.name for step in differing]:
            yield warn(f"{name} takes effect at the next boot", "reboot", observed=not aim[name], expected=aim[name])
    fast = CLOCKS in aim and gpu["clocks.sm"] > aim[CLOCKS][1]
    if fast:
        runs = gpu["clocks.sm"]
        yield warn(f"the clock runs at {runs} MHz", "configure", observed=runs, expected=aim[CLOCKS], unit="MHz")
    if not (differing or later or fast):
        yield ok(f"{', '.join(compared)} as planned", len(compared))


def _holds(gpu: Facts, name: str) -> bool:
    return bool(gpu["ecc.mode.enabled" if name == ECC else "mig.enabled"])


@check("mig-instances", proves="the GPU has the declared MIG instances", source=MIG_GUIDE, per_gpu=True)
def instances(node: Node, gpu: Facts) -> Iterator[Result]:
    """Compare layouts: which instances there are, not where they lie."""
    aim = planned(node, gpu).get(INSTANCES)
    if not gpu["mig.enabled"]:
        yield inapplicable("MIG is off") if aim is None else skipped("MIG is off (see mig)")
        return
    has = mig_profiles.in_order(one["name"] for one in gpu[INSTANCES])
    told = ", ".join(has) or "none"
    if aim is not None and has != aim:
        declared_ones = ", ".join(aim) or "none"
        yield fail(f"MIG instances: {told}; declared: {declared_ones}", "configure", observed=has, expected=aim)
    elif aim is None and not has:
        yield info("MIG is on, but has no instances: no program can use the GPU", "configure", observed=has)
    else:
        yield ok(f"MIG instances: {told}", has)
