# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of PCI Express: the link as wide as it can be and, at work, as fast; no errors; no detour between GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    Facts,
    check,
    fail,
    inapplicable,
    info,
    ok,
    skipped,
    unknown,
    warn,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Node, Result

LINK_API = "https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html"
ERROR_COUNTERS = "https://docs.kernel.org/PCI/pcieaer-howto.html"
PEER_GUIDE = "https://docs.nvidia.com/cuda/cuda-programming-guide/03-advanced/multi-gpu-systems.html"
ACS_GUIDE = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html"
SUPERCHIP = "superchip"  # a profile's form: GH200, GB10
BELOW_SWITCHES = ("internal", "single", "multiple")  # what a pair of GPUs has in common; see nvml.query
BESIDE_C2C = "NVLink-C2C connects the GPU to its processor and carries its data"
IN_MACHINE = "in a virtual machine, the host controls this"


@check("pcie-width", proves="the link uses all lanes that board and slot have", source=LINK_API, per_gpu=True)
def pcie_width(node: Node, gpu: Facts) -> Iterator[Result]:
    """Compare the width with the catalog's; without one, with those of board and slot.

    A board that the catalog does not know may have fewer lanes than its connector: then the difference is only info.
    """
    if shares_module(node, gpu):
        yield inapplicable(BESIDE_C2C)
        return
    width, board = gpu["pcie.width"], gpu["pcie.max_width"]
    slot = _device(node, gpu).get("bridge_link.max_width") or board
    wanted = node.profile(gpu).get("pcie_width")
    expected = wanted or min(board, slot)
    text, seen = f"the link runs at x{width} of x{expected}", {"observed": width, "expected": expected, "unit": "lanes"}
    if width >= expected:
        yield ok(f"x{width}", width)
    elif not node.bare_metal:
        yield info(text, reason=IN_MACHINE, **seen)
    elif wanted and width < slot:
        yield fail(text, "check_seating", **seen)
    elif wanted or node.profile(gpu).get("lanes_known"):
        yield warn(text, "check_seating", reason=f"the slot has {slot} lanes" if wanted else None, **seen)
    else:
        yield info(text, reason="the number of lanes of this model is unknown", **seen)


def shares_module(node: Node, gpu: Facts) -> bool:
    """Tell whether the GPU is on one module with its processor.

    Then PCI Express is only a side path: a healthy GPU of a VR200 has two lanes, one of a DGX Spark one.
    """
    return bool(gpu.get("c2c")) or node.profile(gpu).get("form") == SUPERCHIP


def _device(node: Node, gpu: Facts) -> Facts:
    """Return what the PCI bus shows of a GPU; nothing where it is not found there."""
    known: list[Facts] = node.facts.get("pci.gpus", [])
    return next((device for device in known if device.get("address") == gpu.get("bus_id")), Facts({}))


@check(
    "pcie-generation",
    proves="under load, the link runs at the highest speed that board and slot share",
    source=LINK_API,
    per_gpu=True,
)
def pcie_generation(node: Node, gpu: Facts) -> Iterator[Result]:
    """Judge a GPU at work only: an idle one saves power at generation 1. Tell of a slot below the board."""
    if shares_module(node, gpu):
        yield inapplicable(BESIDE_C2C)
        return
    generation, highest = gpu["pcie.generation"], gpu["pcie.max_generation"]
    if generation >= highest:
        yield ok(f"generation {generation}", generation)
    elif not gpu.get("utilization.gpu"):
        yield skipped(f"generation {generation} of {highest}, which saves power on an idle GPU")
    else:
        yield warn(
            f"under load, the link runs at generation {generation} of {highest}",
            "check_seating",
            observed=generation,
            expected=highest,
            unit="generation",
        )
    board = gpu.get("pcie.gpu_max_generation", highest)
    if board > highest:
        yield info(
            f"the slot has generation {highest}; the board supports {board}",
            observed=highest,
            expected=board,
            unit="generation",
        )


@check("pcie-errors", proves="the link carries data without errors", source=ERROR_COUNTERS, per_gpu=True)
def pcie_errors(node: Node, gpu: Facts) -> Iterator[Result]:
    """Warn of fatal errors; tell of what was repaired, for one reading of a counter makes no rate."""
    errors = _device(node, gpu).get("errors", Facts({}))
    counts = {kind: errors.get(kind, 0) for kind in ("fatal", "nonfatal", "correctable")}
    counts["replayed"] = gpu.get("pcie.replays", 0)
    text = ", ".join(f"{number} {kind}" for kind, number in counts.items() if number)
    if counts["fatal"]:
        yield warn(f"PCI Express errors: {text}", "check_seating", observed=counts["fatal"], expected=0, unit="errors")
    elif text:
        yield info(f"PCI Express errors: {text}", observed=sum(counts.values()), expected=0, unit="errors")
    else:
        yield ok("no PCI Express errors", 0)


@check("pcie-acs", proves="GPUs below the same PCIe switch reach each other through it", source=ACS_GUIDE, on_host=True)
def pcie_acs(node: Node) -> Iterator[Result]:
    """Find bridges that send peer traffic up to the processor, where peer traffic takes PCI Express."""
    if not node.bare_metal:
        yield inapplicable(IN_MACHINE)
        return
    gpus = _peers_over_pcie(node, BELOW_SWITCHES)
    if not gpus:
        yield _no_peers(node, "no two GPUs share a PCIe switch")
        return
    bridges = [gpu.optional("redirecting_bridges") for gpu in gpus]
    redirecting = sorted({bridge for above in bridges for bridge in above or ()})
    if redirecting:
        yield warn(
            f"ACS redirects transfers between GPUs through the processor, at {', '.join(redirecting[:4])}",
            "configure",
            observed=len(redirecting),
            expected=0,
            unit="bridges",
            reason="turn ACS off in the firmware, or run setpci -s BRIDGE ECAP_ACS+6.w=0 at each boot",
        )
    elif None in bridges:
        yield unknown("the bridges' settings could not be read; reading them needs root")
    else:
        yield ok("no PCIe switch redirects transfers between GPUs")


@check("iommu", proves="copies between GPUs over PCI Express arrive intact", source=PEER_GUIDE, on_host=True)
def iommu(node: Node) -> Iterator[Result]:
    """Find an IOMMU that translates, where CUDA uses PCI Express between GPUs: NVIDIA does not support that."""
    if not node.bare_metal:
        yield inapplicable(IN_MACHINE)
        return
    gpus = _peers_over_pcie(node)
    translated = [gpu["address"] for gpu in gpus if str(gpu.get("iommu", "")).startswith("DMA")]
    if not gpus:
        yield _no_peers(node, "no two GPUs reach each other over PCI Express")
    elif translated:
        yield warn(
            "an IOMMU translates copies between GPUs over PCI Express, which can silently corrupt data",
            "configure",
            observed=", ".join(translated),
            expected="no translation",
            reason="set the kernel parameter iommu=pt, or turn the IOMMU off in the firmware",
        )
    else:
        yield ok("no IOMMU translates copies between the GPUs")


def _no_peers(node: Node, why: str) -> Result:
    return inapplicable(why) if node.gpus else node.without("NVML lists no GPU (see driver-responsive)")


def _peers_over_pcie(node: Node, ancestors: tuple[str, ...] | None = None) -> list[Facts]:
    """Return the PCI devices of GPUs that have peer access without NVLink, in pairs with these common ancestors."""
    over = {
        index
        for pair in node.facts["nvml.peers"]
        if pair.get("read") == "ok" and pair.get("nvlink") != "ok"
        if ancestors is None or pair.get("ancestor") in ancestors
        for index in pair["gpus"]
    }
    devices = [_device(node, gpu) for gpu in node.gpus if gpu.get("index") in over]
    return [device for device in devices if device.data]
