# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of what was measured on each GPU: it computes, as right and as fast as boards of its kind."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.measurements.judging import (
    SIMULATED,
    Rate,
    against_floor,
    correct,
    measured,
    of_each,
    rates_mean_something,
)
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    Facts,
    Node,
    Result,
    check,
    fail,
    warn,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

DRIVER_API = "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html"
PROFILES = "catalog/profiles.yml"
# A GPU slower than this share of its siblings' median has a fault that they have not.
SIBLING_SHARE = 0.85
# GB/s of one PCIe lane by generation, one way, and the share of it that pinned copies exceed on every healthy node:
# V100 nodes pass Azure's 9 GB/s of 15.75, A100 21 of 31.5, H100 48 of 63 (Azure/azurehpc-health-checks conf, 2026-05).
LANE_GBS = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
LINK_SHARE = 0.6
COPIES = (
    Rate("copies", "to_device_gbs", "GB/s", "copies to the GPU", "check_seating"),
    Rate("copies", "to_host_gbs", "GB/s", "copies to the host", "check_seating"),
)
MEMORY = Rate("memory", "memory_gbs", "GB/s", "triad", "contact_support")


@check("cuda-smoke", proves="every GPU computes correct results", source=DRIVER_API)
@measured
def cuda_smoke(node: Node) -> Iterator[Result]:
    """Count wrong results of a known kernel."""
    return of_each(node, "smoke", lambda _gpu, record: [correct(record)])


@check(
    "copy-rate", proves="copies between host and GPU are correct and as fast as the PCIe link allows", source=PROFILES
)
@measured
def copy_rate(node: Node) -> Iterator[Result]:
    """Hold both directions against the floor and the siblings."""

    def judge(gpu: Facts, record: Facts) -> Iterator[Result]:
        if record["intact"]:
            yield from (_rate(node, gpu, rate) for rate in COPIES)
        else:
            yield fail("data copied to the GPU and back has changed", "contact_support")

    return of_each(node, "copies", judge)


@check("memory-bandwidth", proves="the GPU's memory is as fast as on boards of its kind", source=PROFILES)
@measured
def memory_bandwidth(node: Node) -> Iterator[Result]:
    """Judge the triad's results, then its rate."""
    return of_each(
        node, "memory", lambda gpu, record: [correct(record) if record["wrong"] else _rate(node, gpu, MEMORY)]
    )


@check(
    "matmul-rate", proves="PyTorch multiplies matrices on every GPU as fast as on boards of its kind", source=PROFILES
)
@measured
def matmul_rate(node: Node) -> Iterator[Result]:
    """Judge each precision that the board and this PyTorch have."""

    def judge(gpu: Facts, record: Facts) -> Iterator[Result]:
        if record["wrong"]:
            yield correct(record)
            return
        for key in sorted(key for key in record.data if key.endswith("_tflops")):
            yield _rate(node, gpu, Rate("matmul", key, "TFLOPS", key.partition("_")[0], "check_cooling"))

    return of_each(node, "matmul", judge)


def _rate(node: Node, gpu: Facts, rate: Rate) -> Result:
    """Judge one rate of one GPU by its floor, then by its siblings."""
    if not rates_mean_something(node.facts):
        return SIMULATED
    path = f"tests.{rate.test}.{rate.key}"
    value = gpu[path]
    result = against_floor(rate, value, _floor(node, gpu, rate.key))
    siblings = [other for other in node.facts["measurements.gpus"] if other.get("device") == gpu.get("device")]
    others = [other.get(path) for other in siblings if other.get("uuid") != gpu.get("uuid")]
    known = [other for other in others if other is not None]
    if result.severity == "fail" or not known or value >= SIBLING_SHARE * median(known):
        return result
    usual = median(known)
    summary = f"{rate.label} {value:g} {rate.unit}; its siblings reach {usual:g}"
    return warn(summary, rate.remedy, observed=value, expected=usual, unit=rate.unit)


def _floor(node: Node, gpu: Facts, key: str) -> float | None:
    """Return the board's floor; that of a copy follows from the link that board and slot share."""
    floors: dict[str, float | None] = node.profile(gpu).get("floors", {})
    if key in floors or key not in {copy.key for copy in COPIES}:
        return floors.get(key)
    link = next((each for each in node.gpus if each.get("uuid") == gpu.get("uuid")), None)
    generation = link.get("pcie.max_generation") if link else None
    width = node.profile(gpu).get("pcie_width") or (link.get("pcie.width") if link else None)
    if generation not in LANE_GBS or not width:
        return None
    return round(LINK_SHARE * LANE_GBS[generation] * width, 1)
