# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of temperature, power, what holds the clocks down, and work that nobody does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks import gpu_settings, pcie
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    Unread,
    check,
    fail,
    inapplicable,
    ok,
    skipped,
    warn,
)
from ansible_collections.gpulab.node.plugins.module_utils.gpu_settings.plan import CLOCKS, POWER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts, Node, Result

QUERIES = "https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html"
# Where a board publishes neither margin nor limit; the limit that A100 and T4 boards publish.
FALLBACK_CELSIUS = 85
# A margin below this many degrees leaves no room for a warmer day.
NARROW_MARGIN = 5

# nvml.h, NVML_CLOCKS_EVENT_REASON_*: mask, what it means, severity, remedy. All other bits are benign.
HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, HW_POWER_BRAKE = 0x8, 0x20, 0x40, 0x80
# A GPU that works so much of the time has long reached its clock; below this share of it, something holds it down.
AT_WORK_PERCENT, SLOW_SHARE = 80, 0.5
BUSY_PERCENT = 95


@check("temperature", proves="the GPU is below its slowdown temperature", source=QUERIES, per_gpu=True)
def temperature(_node: Node, gpu: Facts) -> Iterator[Result]:
    """Judge by the board's own margin, then by its limit, then by 85 °C."""
    degrees = gpu["temperature.gpu"]
    margin = gpu.get("temperature.margin")
    limit = gpu.get("temperature.gpu_max") or gpu.get("temperature.slowdown") or FALLBACK_CELSIUS
    if margin is not None:
        seen = {"observed": margin, "expected": NARROW_MARGIN, "unit": "°C margin"}
        if margin <= 0:
            yield fail(f"{degrees} °C, no margin left", "check_cooling", **seen)
        elif margin < NARROW_MARGIN:
            yield warn(f"{degrees} °C, {margin} °C below the limit", "check_cooling", **seen)
        else:
            yield ok(f"{degrees} °C, margin {margin} °C", degrees, unit="°C")
    elif degrees > limit:
        yield fail(
            f"{degrees} °C, the limit is {limit} °C", "check_cooling", observed=degrees, expected=limit, unit="°C"
        )
    else:
        yield ok(f"{degrees} °C, the limit is {limit} °C", degrees, unit="°C")


@check("memory-temperature", proves="the GPU's memory is below its limit", source=QUERIES, per_gpu=True)
def memory_temperature(_node: Node, gpu: Facts) -> Iterator[Result]:
    """Compare where the board publishes both."""
    degrees, limit = gpu["temperature.memory"], gpu["temperature.memory_max"]
    if degrees > limit:
        yield fail(
            f"memory at {degrees} °C, its limit is {limit} °C",
            "check_cooling",
            observed=degrees,
            expected=limit,
            unit="°C",
        )
    else:
        yield ok(f"memory at {degrees} °C, its limit is {limit} °C", degrees, unit="°C")


@check("clock-events", proves="neither heat nor power reduces the clocks", source=QUERIES, per_gpu=True)
def clock_events(_node: Node, gpu: Facts) -> Iterator[Result]:
    """Read the bits; the general hardware slowdown is told only where no bit says which."""
    reasons = gpu["clocks.event_reasons"]
    seen = {"observed": hex(reasons), "expected": "no slowdown"}
    if reasons & HW_THERMAL:
        yield fail("the hardware reduces the clocks because of heat", "check_cooling", **seen)
    if reasons & HW_POWER_BRAKE:
        yield fail("the power supply's brake signal reduces the clocks", "check_power", **seen)
    if reasons & HW_SLOWDOWN and not reasons & (HW_THERMAL | HW_POWER_BRAKE):
        yield fail("the hardware reduces the clocks", "check_power", **seen)
    if reasons & SW_THERMAL:
        yield warn("the driver reduces the clocks because of heat", "check_cooling", **seen)
    if not reasons & (HW_SLOWDOWN | SW_THERMAL | HW_THERMAL | HW_POWER_BRAKE):
        yield ok("no slowdown", hex(reasons))


@check("clock-without-reason", proves="a GPU at work is not slow for no reason", source=QUERIES, per_gpu=True)
def clock_without_reason(node: Node, gpu: Facts) -> Iterator[Result]:
    """Judge a GPU at work: its driver names a reason, be it a setting, whenever it holds the clocks down."""
    clock, highest, work = gpu["clocks.sm"], gpu["clocks.max_sm"], gpu["utilization.gpu"]
    if work < AT_WORK_PERCENT:
        yield inapplicable("the GPU has little to do")
    elif gpu["clocks.event_reasons"] or CLOCKS in gpu_settings.planned(node, gpu) or clock >= highest * SLOW_SHARE:
        yield ok(f"{clock} of {highest} MHz at {work} % of work", clock, unit="MHz")
    else:
        yield warn(
            f"the GPU works {work} % of the time at {clock} of {highest} MHz, and the driver names no reason",
            "power_cycle",
            observed=clock,
            expected=highest,
            unit="MHz",
            reason="the board, or its power supply, is stuck in a state that only a power cycle ends",
        )


@check("busy-for-nobody", proves="a GPU without a program does nothing", source=QUERIES, per_gpu=True, on_host=True)
def busy_for_nobody(node: Node, gpu: Facts) -> Iterator[Result]:
    """Expect a program where a GPU works. Without persistence mode, the reading itself makes an idle GPU work."""
    work = gpu["utilization.gpu"]
    used = gpu["processes"] or any(not user["service"] for user in node.facts["users_of_gpus.who"])
    if work < BUSY_PERCENT or used or not gpu["persistence"]:
        yield ok(f"{work} % of work", work, unit="%")
    else:
        yield warn(
            f"the GPU works {work} % of the time, and no program uses it",
            "power_cycle",
            observed=work,
            expected=0,
            unit="%",
        )


@check("power-limit", proves="the board may draw its full power", source=QUERIES, per_gpu=True)
def power_limit(node: Node, gpu: Facts) -> Iterator[Result]:
    """Compare the limit with the one that is set on purpose, the profile's, or the board's default.

    What is enforced is the least of several limits. On a module, the processor shares the power, and the limit counts.
    """
    enforced, limit = gpu["power_mw.enforced_limit"] // 1000, gpu.get("power_mw.limit")
    held = limit // 1000 if limit is not None and pcie.shares_module(node, gpu) else enforced
    wanted = (
        gpu_settings.planned(node, gpu).get(POWER)
        or node.profile(gpu).get("power_limit_watts")
        or gpu["power_mw.default_limit"] // 1000
    )
    seen = {"observed": held, "expected": wanted, "unit": "W"}
    if held < wanted:
        yield warn(f"power is limited to {held} W, but {wanted} W is expected", "configure", **seen)
    elif enforced < held:
        yield ok(f"{held} W, of which the module now gives {enforced} W", held, unit="W")
    else:
        yield ok(f"{enforced} W", enforced, unit="W")


@check("power-budget", proves="the power limits of all GPUs together stay within the node's budget", source=QUERIES)
def power_budget(node: Node) -> Iterator[Result]:
    """Add the limits up, where a budget is declared: to the proof, or with the GPUs' settings."""
    budget = node.declared.get("power_budget_watts") or gpu_settings.declared(node).get("power_budget_watts")
    if not budget:
        yield inapplicable("no power budget is declared")
        return
    try:
        total = sum(gpu["power_mw.enforced_limit"] for gpu in node.gpus) // 1000
    except Unread as unread:
        yield skipped(f"{unread.path} is not available")
        return
    if total > budget:
        yield warn(f"the GPUs may draw {total} W of {budget} W", "configure", observed=total, expected=budget, unit="W")
    else:
        yield ok(f"the GPUs may draw {total} W of {budget} W", total, unit="W")
