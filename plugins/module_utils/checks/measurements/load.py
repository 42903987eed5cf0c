# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the GPUs under load for long, and of the errors that came under load."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.measurements.judging import (
    correct,
    measured,
    of_each,
)
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    Facts,
    Node,
    Result,
    check,
    fail,
    inapplicable,
    ok,
    skipped,
    unknown,
    warn,
)
from ansible_collections.gpulab.node.plugins.module_utils.checks.thermal import (
    HW_POWER_BRAKE,
    HW_SLOWDOWN,
    HW_THERMAL,
    SW_THERMAL,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

DRIVER_API = "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html"
EVENT_REASONS = "https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html"
# Counters that a load may raise: what they count, and the remedy.
ERRORS = {
    "uncorrected": ("uncorrectable memory errors", "reset_gpu"),
    "remapped_rows": ("rows remapped after uncorrectable errors", "reset_gpu"),
}


@check(
    "burn-in", proves="the GPUs run under load for long without wrong results or reduced clocks", source=EVENT_REASONS
)
@measured
def burn_in(node: Node) -> Iterator[Result]:
    """Judge what was seen while all GPUs were loaded."""
    if node.facts["measurements.level"] != "burn-in":
        yield inapplicable("only level burn-in runs this test")
        return
    yield from of_each(node, "burn_in", _burnt)


def _burnt(_gpu: Facts, record: Facts) -> Iterator[Result]:
    reasons = record["event_reasons"]
    seen = {"observed": hex(reasons), "expected": "no slowdown"}
    if record["wrong"]:
        yield correct(record)
    elif reasons & HW_POWER_BRAKE:
        yield fail("under load, the power supply's brake signal reduces the clocks", "check_power", **seen)
    elif reasons & HW_THERMAL:
        yield fail("under load, the hardware reduces the clocks because of heat", "check_cooling", **seen)
    elif reasons & HW_SLOWDOWN:
        yield fail("under load, the hardware reduces the clocks", "check_power", **seen)
    elif reasons & SW_THERMAL:
        yield warn("under load, the driver reduces the clocks because of heat", "check_cooling", **seen)
    else:
        load = f"{record['load']} for {record['minutes']:g} min"
        extremes = f"{record.get('hottest_celsius')} °C, {record.get('slowest_sm_mhz')} MHz at the worst"
        yield ok(f"{load}, {extremes}", record["runs"])


@check(
    "load-errors",
    proves="no memory errors occurred under load, and no XID except those that programs cause",
    source=DRIVER_API,
)
@measured
def load_errors(node: Node) -> Iterator[Result]:
    """Compare each GPU's counters before the tests with those after them."""
    for gpu in node.facts["measurements.gpus"]:
        for result in _came_under_load(gpu):
            yield replace(result, gpu=gpu.identity())


def _came_under_load(gpu: Facts) -> Iterator[Result]:
    if gpu["tests.smoke.state"] == "skipped":  # nor was any other test made: what came is of somebody else's load
        yield skipped(gpu["tests.smoke.reason"])
        return
    before, after = gpu.get("errors.before"), gpu.get("errors.after")
    if before is None or after is None:
        yield unknown("the GPU did not answer before or after the tests")
        return
    came = {key: after.get(key, 0) - before.get(key, 0) for key in ERRORS}
    for key, (what, remedy) in ERRORS.items():
        if came[key] > 0:
            yield fail(f"{came[key]} {what} occurred under load", remedy, observed=came[key], expected=0)
    logged = _logged(before["kernel_log"].data, after["kernel_log"].data)
    if logged:
        names = ", ".join(f"XID {name}" if name.isdigit() else name for name in sorted(logged))
        summary = f"{sum(logged.values())} driver errors occurred in the kernel log under load"
        yield fail(summary, "contact_support", reason=names, observed=sum(logged.values()), expected=0)
    if max(came.values()) <= 0 and not logged:
        yield ok("no errors occurred", 0)


def _logged(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """Return how often each error came."""
    came = {name: count - before.get(name, 0) for name, count in after.items()}
    return {name: count for name, count in came.items() if count > 0}
