# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the copies between GPUs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Callable

from ansible_collections.gpulab.node.plugins.module_utils.checks.measurements.judging import (
    left_out,
    measured,
    rates_mean_something,
    what_kept,
)
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    Facts,
    Node,
    Result,
    check,
    fail,
    ok,
    skipped,
    unknown,
    warn,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

PEER_GUIDE = "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__PEER__ACCESS.html"
# The ways between two GPUs, and what stands in the last one.
HOST, NVLINK, PCIE = "the path through the host", "NVLink", "PCI Express"
PEER_RATE = "peer_gbs"
PEER_PATH = "ACS or a translating IOMMU is between the GPUs"
SHOWN = 4
# Of pairs: two GPUs that one NVLink joins have half the rate of two that a pair of them joins, and no fault.
PAIR_SHARE = 0.45


@check("peer-copies", proves="copies between GPUs are correct and fast", source=PEER_GUIDE)
@measured
def peer_copies(node: Node) -> Iterator[Result]:
    """Judge the data of every pair of GPUs, and the rate of those that reach each other without the host's help."""
    record = node.facts["measurements.peer_copies"]
    if record["state"] != "done":
        yield left_out(node, record)
        return
    taken = record.data.get("taken", {})
    for gpu in node.facts["measurements.gpus"]:
        if gpu.get("uuid") in taken:
            yield replace(skipped(taken[gpu["uuid"]]), gpu=gpu.identity())
    copies = [_Copy(pair, _way(node, pair)) for pair in record["pairs"]]
    yield from _grouped(copies, lambda copy: _kept_or_wrong(node, copy))
    if rates_mean_something(node.facts):
        yield from _grouped(copies, lambda copy: _slow(node, copy, copies))
    arrived = [copy for copy in copies if copy.arrived]
    if arrived:
        yield _all_that_arrived(arrived, len(copies))


@dataclass(frozen=True)
class _Copy:
    """A copy between two GPUs, and the way it took: (its kind, "" or how the GPUs lie to each other)."""

    record: Facts
    way: tuple[str, str]

    @property
    def arrived(self) -> bool:
        return self.record["state"] == "done" and not self.record["wrong_mib"]

    @property
    def rate(self) -> float | None:
        """GB/s of a copy that took no detour."""
        return self.record["gbs"] if self.arrived and self.way[0] != HOST else None


def _way(node: Node, pair: Facts) -> tuple[str, str]:
    if not pair.get("straight"):
        return HOST, ""
    ends = {pair["from"], pair["to"]}
    known = next((peers for peers in node.facts.get("nvml.peers", []) if set(peers.get("gpus", ())) == ends), None)
    if known and known.get("nvlink") == "ok":
        return NVLINK, ""
    return PCIE, str(known.get("ancestor")) if known else ""


def _kept_or_wrong(node: Node, copy: _Copy) -> Result | None:
    """Return what kept a copy from its end, or that other data arrived; the summary has the pairs put before it."""
    way, record = copy.way[0], copy.record
    if record["state"] == "late":
        return fail(
            f"a copy does not end within {record['seconds']:g} s",
            "reboot",
            reason=f"{PEER_PATH}, where copies can hang; a reboot restores the GPUs"
            if way == PCIE
            else "the driver does not answer, or a GPU hangs",
        )
    if record["state"] == "skipped":
        return unknown(record["reason"])
    if record["state"] != "done":
        return what_kept(node, record, "a copy")
    if not record["wrong_mib"]:
        return None
    summary = f"{way} corrupts data"
    if way == PCIE:
        return fail(summary, "clear_peer_path", reason=PEER_PATH)
    return fail(summary, "contact_support", reason="neither ACS nor the IOMMU is on this path")


def _slow(node: Node, copy: _Copy, copies: list[_Copy]) -> Result | None:
    """Hold a pair against the board's floor, then against the pairs that are joined alike."""
    if copy.rate is None:
        return None
    floor = _floor_between(node, copy)
    remedy = "check_seating" if copy.way[0] == PCIE else "contact_support"
    if floor is not None and copy.rate < floor:
        summary = f"{copy.way[0]} carries less than {floor:g} GB/s"
        return fail(summary, remedy, observed=copy.rate, expected=floor, unit="GB/s")
    usual = median(other.rate for other in copies if other.way == copy.way and other.rate is not None)
    if copy.rate < PAIR_SHARE * usual:
        summary = f"{copy.way[0]} carries less than half of the {usual:g} GB/s that it carries between their siblings"
        return warn(summary, remedy, observed=copy.rate, expected=usual, unit="GB/s")
    return None


def _floor_between(node: Node, copy: _Copy) -> float | None:
    """Return the operator's floor, else the board's, which holds where NVSwitches join all GPUs alike."""
    own: dict[str, float | None] = (node.declared.get("profile") or {}).get("floors", {})
    if PEER_RATE in own or not node.facts.get("pci.nvswitches"):
        return own.get(PEER_RATE)
    board = next((gpu for gpu in node.facts["measurements.gpus"] if gpu.get("index") == copy.record["from"]), None)
    floors: dict[str, float | None] = node.profile(board).get("floors", {}) if board else {}
    return floors.get(PEER_RATE)


def _grouped(copies: list[_Copy], judge: Callable[[_Copy], Result | None]) -> Iterator[Result]:
    """Yield what judge says of copies, once for all pairs of which it says the same with their names."""
    found: dict[tuple[str, str, str | None], list[tuple[_Copy, Result]]] = {}
    for copy in copies:
        result = judge(copy)
        if result:
            found.setdefault((result.severity, result.summary, result.reason), []).append((copy, result))
    for group in found.values():
        names = [f"GPU {copy.record['from']} to GPU {copy.record['to']}" for copy, _result in group]
        shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more pairs" if len(names) > SHOWN else "")
        worst = min((result for _copy, result in group), key=lambda result: result.observed or 0)
        if worst.severity == "unknown":
            yield replace(worst, reason=f"{shown}: {worst.reason}")
        else:
            yield replace(worst, summary=f"{shown}: {worst.summary}")


def _all_that_arrived(arrived: list[_Copy], count: int) -> Result:
    straight = [copy.rate for copy in arrived if copy.rate is not None]
    rates = f", {min(straight):g} to {max(straight):g} GB/s between {len(straight)} pairs" if straight else ""
    detour = len(arrived) - len(straight)
    through = f", {detour} of them through the host" if detour else ""
    return ok(f"copies between {len(arrived)} of {count} pairs arrive as sent{through}{rates}", len(arrived))
