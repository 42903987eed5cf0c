# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the PCI Express link: as wide as it can be and, at work, as fast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import check, fail, ok, skipped, warn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts, Node, Result

LINK_API = "https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html"


@check("pcie-width", proves="the link has all the lanes that board and slot have", source=LINK_API, per_gpu=True)
def pcie_width(node: Node, gpu: Facts) -> Iterator[Result]:
    """Hold the width against the profile's; without one, against board and slot, and only warn."""
    width, board = gpu["pcie.width"], gpu["pcie.max_width"]
    slot = _slot_width(node, gpu) or board
    wanted = node.profile(gpu).get("pcie_width")
    seen = {"observed": width, "expected": wanted or min(board, slot), "unit": "lanes"}
    if width >= seen["expected"]:
        yield ok(f"x{width}", width)
    elif wanted and width < slot:
        yield fail(f"the link runs at x{width} of x{wanted}", "check_seating", **seen)
    else:
        reason = f"the slot has {slot} lanes" if wanted else None
        yield warn(f"the link runs at x{width} of x{seen['expected']}", "check_seating", reason=reason, **seen)


def _slot_width(node: Node, gpu: Facts) -> int | None:
    """Return how many lanes the port above the GPU has, or None where sysfs does not tell."""
    for device in node.facts.get("pci.gpus", []):
        if device.get("address") == gpu.get("bus_id"):
            width: int | None = device.get("bridge_link.max_width")
            return width
    return None


@check(
    "pcie-generation",
    proves="under load the link runs at the highest speed that board and slot share",
    source=LINK_API,
    per_gpu=True,
)
def pcie_generation(_node: Node, gpu: Facts) -> Iterator[Result]:
    """Judge a GPU at work only: an idle one saves power at generation 1."""
    generation, highest = gpu["pcie.generation"], gpu["pcie.max_generation"]
    if generation >= highest:
        yield ok(f"generation {generation}", generation)
    elif not gpu.get("utilization.gpu"):
        yield skipped(f"generation {generation} of {highest} on an idle GPU is power saving")
    else:
        yield warn(
            f"the link runs at generation {generation} of {highest} under load",
            "check_seating",
            observed=generation,
            expected=highest,
            unit="generation",
        )
