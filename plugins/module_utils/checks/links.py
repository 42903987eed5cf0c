# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of what joins GPUs: NVLink, the NVSwitch fabric, peer access."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    Unread,
    check,
    fail,
    inapplicable,
    info,
    ok,
    skipped,
    warn,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts, Node, Result

NVLINK_API = "https://docs.nvidia.com/deploy/nvml-api/group__NvLink.html"
FABRIC_GUIDE = "https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/"
# Bit errors that the link repaired; DCGM calls this many a second too many, and no counter here has a time.
CRC_ERRORS = 100
# nvml.h, NVML_GPU_FABRIC_HEALTH_MASK_*: two bits each, 1 true, 2 false, 0 not known.
HEALTH_BITS = {0: "degraded bandwidth", 2: "route recovery", 4: "unhealthy route", 6: "access timeout recovery"}
# ctrl2080gpu.h of the open modules 595.45.04, NV2080_CTRL_GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION: what is
# wrong, and what helps. 0 is not known, 1 none.
CONFIGURATION_SHIFT, CONFIGURATION_FINE = 8, (0, 1)
CONFIGURATIONS = {
    2: ("incorrect system GUID", "contact_support"),
    3: ("incorrect chassis serial number", "contact_support"),
    4: ("no partition", "check_rack"),
    5: ("insufficient NVLinks", "contact_support"),
    6: ("incompatible GPU firmware", "upgrade_software"),
    7: ("invalid location", "check_seating"),
    8: ("invalid state of the GPU", "reset_gpu"),
}
SUMMARIES = {2: "unhealthy", 3: "limited capacity"}
MOST_OF_BRIDGE = 4  # boards that one bridge joins: two, of H200 NVL up to four
CUT = "MIG is on: its instances cannot reach other GPUs"


@check(
    "nvlink",
    proves="all NVLinks of the board are up, and both boards of a bridge have the same number",
    source=NVLINK_API,
    per_gpu=True,
)
def nvlink(node: Node, gpu: Facts) -> Iterator[Result]:
    """Count active links against the profile, or the node's own boards; a bridge is an option."""
    active = _active(gpu)
    if len(node.gpus) == 1:
        yield inapplicable("the node has only one GPU")
    elif _cut(gpu):
        yield inapplicable(CUT)
    elif _made_with(node, gpu):
        wanted = node.profile(gpu).get("nvlink_links") or _best(node, gpu) or _most(node, gpu)
        down = [link["link"] for link in gpu["nvlink.links"] if link.get("active") is not True]
        if active < wanted:
            yield fail(
                f"{active} of {wanted} NVLinks are up",
                "reset_gpu",
                observed=active,
                expected=wanted,
                unit="links",
                reason=f"down: {', '.join(map(str, down))}" if down else "the driver lists no more",
            )
        else:
            yield ok(f"{active} NVLinks are up", active)
    elif not active and not _best(node, gpu):
        yield ok("no NVLink is in use", 0)
    elif active < _best(node, gpu):
        yield warn(
            f"{active} NVLinks are up, {_best(node, gpu)} on another board of the same model",
            "check_seating",
            observed=active,
            expected=_best(node, gpu),
            unit="links",
            reason="the NVLink bridge is not seated properly",
        )
    else:
        yield ok(f"{active} NVLinks are up, through bridges", active)


def _made_with(node: Node, gpu: Facts) -> bool:
    """Tell whether the board's NVLinks are there for good: by its record, else by what the node shows.

    A card is joined by bridges. Of a board that no list has, an NVSwitch says it, and more boards than a bridge joins.
    """
    bridge = node.profile(gpu).get("bridge")
    if bridge is not None:
        return not bridge
    linked = sum(_active(sibling) > 0 for sibling in _alike(node, gpu))
    return bool(_most(node, gpu)) and (bool(node.facts.get("pci.nvswitches")) or linked > MOST_OF_BRIDGE)


def _alike(node: Node, gpu: Facts) -> list[Facts]:
    return [sibling for sibling in node.gpus if sibling.get("device") == gpu.get("device")]


def _best(node: Node, gpu: Facts) -> int:
    """Return how many links are up on the board of this model that has most."""
    return max(_active(sibling) for sibling in _alike(node, gpu))


def _most(node: Node, gpu: Facts) -> int:
    """Return how many links the driver lists of a board of this model."""
    return max(len(sibling.get("nvlink.links", [])) for sibling in _alike(node, gpu))


def _cut(gpu: Facts) -> bool:
    """Tell whether MIG is on: then no instance reaches another GPU, and NVLinks need not be up."""
    return bool(gpu.get("mig.enabled", False))


def _active(gpu: Facts) -> int:
    return sum(link.get("active") is True for link in gpu.get("nvlink.links", []))


@check("nvlink-errors", proves="NVLinks carry data without errors", source=NVLINK_API, per_gpu=True)
def nvlink_errors(node: Node, gpu: Facts) -> Iterator[Result]:
    """Name the links that replayed, recovered, or repaired many bits."""
    noisy = [str(link["link"]) for link in gpu["nvlink.links"] if _noisy(link.get("errors") or {})]
    if noisy:
        yield warn(
            f"NVLinks with errors: {', '.join(noisy)}", "contact_support", observed=len(noisy), expected=0, unit="links"
        )
    elif gpu["nvlink.links"]:
        yield ok("no NVLink errors")
    elif "nvlink" in node.profile(gpu).get("capabilities", ()):
        yield skipped("the driver lists no NVLink (see nvlink)")
    else:
        yield inapplicable("the board has no NVLink")


def _noisy(errors: Any) -> bool:
    repaired = max(errors.get("crc_flit", 0), errors.get("crc_data", 0)) if errors else 0
    return bool(errors) and (errors.get("replay", 0) > 0 or errors.get("recovery", 0) > 0 or repaired >= CRC_ERRORS)


@check("fabric", proves="the GPU has joined the NVSwitch fabric", source=FABRIC_GUIDE, per_gpu=True)
def fabric(node: Node, gpu: Facts) -> Iterator[Result]:
    """Expect a completed, healthy registration; CUDA fails with error 802 without.

    A board that a rack's switches can join may also stand alone, as in a GB200 NVL4. So it is expected to have joined
    only if the nodes of its domain are listed.
    """
    rack = node.fabric_manager(gpu) == "rack"
    made = "fabric_state" in node.profile(gpu).get("capabilities", ())
    expected = bool(node.facts.get("imex.nodes")) if rack else made and node.runs_fabric_manager
    try:
        state, status = gpu["fabric.state"], gpu["fabric.status"]
    except Unread as unread:
        if not unread.unsupported or not expected:
            raise
        state, status = "not_supported", unread.error
    unwell, remedy = _unwell(gpu.get("fabric.health_mask", 0), gpu.get("fabric.health_summary", 0))
    if state == "not_supported" and not expected:
        yield inapplicable("the GPU is not on an NVSwitch fabric")
    elif _cut(gpu) and state != "completed":
        yield inapplicable(CUT)
    elif state != "completed" or status != "SUCCESS":
        yield fail(
            f"the NVSwitch fabric is not ready: {state}, {status}",
            "check_rack" if rack else "start_fabricmanager",
            observed=state,
            expected="completed",
        )
    elif unwell:
        yield fail(f"the NVSwitch fabric is not healthy: {unwell}", remedy, observed=unwell, expected="healthy")
    else:
        yield ok("joined the fabric", state)


def _unwell(mask: int, summary: int) -> tuple[str, str]:
    """Return what the fabric's health says is wrong, empty where nothing is, and the remedy."""
    wrong = [text for shift, text in HEALTH_BITS.items() if mask >> shift & 3 == 1]
    number, remedy = mask >> CONFIGURATION_SHIFT & 0xF, "contact_support"
    if number not in CONFIGURATION_FINE:
        named, remedy = CONFIGURATIONS.get(number, (f"configuration error {number}", remedy))
        wrong.append(named)
    return ", ".join(wrong) or SUMMARIES.get(summary, ""), remedy


@check("peer-access", proves="GPUs reach each other's memory over the best path of their boards", source=NVLINK_API)
def peer_access(node: Node) -> Iterator[Result]:
    """Expect NVLink between boards that are made with it; tell of other pairs without peer access.

    An NVSwitch fabric joins all of them; boards that are wired to each other, each to some (eight V100 in a cube mesh).
    """
    cut = {gpu.get("index") for gpu in node.gpus if _cut(gpu)}
    pairs = [pair for pair in node.facts["nvml.peers"] if not cut.intersection(pair["gpus"])]
    if not pairs:
        yield _no_pairs(node, bool(cut))
        return
    apart, wrong = _without_nvlink(node, pairs)
    disabled = [pair for pair in pairs if pair.get("read") == "disabled_by_regkey"]
    without = [pair for pair in pairs if (pair.get("read"), pair.get("write")) != ("ok", "ok")]
    if wrong:
        yield fail(
            f"{len(wrong)} of {len(pairs)} pairs of GPUs have no NVLink between them: {_names(wrong)}",
            "start_fabricmanager" if node.runs_fabric_manager else "reset_gpu",
            observed=len(pairs) - len(wrong),
            expected=len(pairs),
            unit="pairs",
        )
    elif disabled:
        yield warn(f"peer access is disabled by a driver option: {_names(disabled)}", "configure")
    elif without:
        yield info(f"{len(without)} of {len(pairs)} pairs of GPUs have no peer access; copies go through host memory")
    elif apart:
        yield info(f"{len(apart)} of {len(pairs)} pairs of GPUs have no NVLink between them; copies go over PCIe")
    else:
        yield ok(f"all {len(pairs)} pairs of GPUs have peer access")


def _without_nvlink(node: Node, pairs: list[Facts]) -> tuple[list[Facts], list[Facts]]:
    """Return the pairs of boards made with NVLink that it does not join, and those of them that it has to join."""
    boards = {gpu.get("index"): node.profile(gpu) for gpu in node.gpus}
    made = {number for number, board in boards.items() if "nvlink" in board.get("capabilities", ())}
    joined = [pair for pair in pairs if pair.get("nvlink") == "ok"]
    linked = {number for pair in joined for number in pair["gpus"]}
    apart = [pair for pair in pairs if pair not in joined and made.issuperset(pair["gpus"])]
    return apart, [pair for pair in apart if _switched(node, boards, pair) or not linked.issuperset(pair["gpus"])]


def _no_pairs(node: Node, cut: bool) -> Result:  # noqa: FBT001 - whether MIG is on
    if cut or len(node.gpus) == 1:
        return inapplicable(CUT if cut else "the node has only one GPU")
    if not node.gpus:
        return node.without("NVML lists no GPU (see driver-responsive)")
    return skipped("NVML tells of no pair of GPUs")


def _switched(node: Node, boards: dict[Any, dict[str, Any]], pair: Facts) -> bool:
    """Tell whether an NVSwitch fabric is what joins two GPUs; a virtual machine may not see the switches."""
    made = (boards[n].get("fabric") == "nvswitch" for n in pair["gpus"])
    return bool(node.facts.get("pci.nvswitches")) or all(made)


def _names(pairs: list[Facts], shown: int = 4) -> str:
    names = ["-".join(map(str, pair["gpus"])) for pair in pairs[:shown]]
    return ", ".join(names) + (" ..." if len(pairs) > shown else "")
