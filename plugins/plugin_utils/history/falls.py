# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rates that fell, told to people: what may have caused it comes first, and what all share is one finding. No I/O."""

from __future__ import annotations

import re
from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.gpulab.node.plugins.plugin_utils.history.series import NODE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ansible_collections.gpulab.node.plugins.plugin_utils.history.lines import Line
    from ansible_collections.gpulab.node.plugins.plugin_utils.history.model import ReportedGpu, Trend
    from ansible_collections.gpulab.node.plugins.plugin_utils.history.promise import Promise
    from ansible_collections.gpulab.node.plugins.plugin_utils.history.series import Followed, Series, State

Board = tuple[str | None, str]  # a board's PCI device, None for all of a node, and the rate

# What else a proof finds on a GPU or its node that makes a rate fall.
CAUSES = {
    "clock-events",
    "clock-without-reason",
    "temperature",
    "memory-temperature",
    "power-limit",
    "pcie-width",
    "pcie-generation",
    "pcie-errors",
    "retired-pages",
    "row-remapping",
    "busy-for-nobody",
    "gpu-idle",
    "gpu-settings",
}
# The checks by which the catalog says which of two GPUs is slow.
FLOORS = {"copy-rate", "memory-bandwidth", "matmul-rate"}
WARMER_CELSIUS = 10
# More than this share of all siblings, and not one alone, has a cause that they share.
SHARED = 0.3
UNEXPLAINED = "unexplained, repeat alone"
NAMED = 3  # hosts


class Fall(NamedTuple):
    """A rate that fell: of a GPU, or, where gpu is None, of a node or one of two GPUs. alone: by its own baseline."""

    host: str
    gpu: ReportedGpu | None
    board: Board
    model: str
    share: float
    alone: bool
    cause: str
    summary: str


def falls(host: str, state: State, last: Line, promised: Promise, known: Counter[Board]) -> list[Fall]:
    """Return what fell on a host by its latest line, and count all series of its boards in known."""
    found: list[Fall] = []
    for gpu in last["gpus"]:
        followed = state["series"].get(gpu["uuid"] or "")
        if not followed:
            continue
        for name, series in followed["rates"].items():
            known[gpu["device"], name] += 1
            found += _falls(host, gpu, name, series, (followed, last, promised))
    if NODE in state["series"] and last["gpus"]:
        for name, series in state["series"][NODE]["rates"].items():
            known[None, name] += 1
            found += _falls(host, None, name, series, (state["series"][NODE], last, promised))
    blamed = {one.board for one in found if one.alone} | {
        (gpu["device"], name)
        for one in last["findings"]
        for gpu in last["gpus"]
        if one["id"] in FLOORS and one["gpu"] and one["gpu"]["uuid"] == gpu["uuid"]
        for name in gpu["rates"] or {}
    }
    return [one for one in found if one.alone or one.gpu or one.board not in blamed]


def _falls(
    host: str, gpu: ReportedGpu | None, name: str, series: Series, known: tuple[Followed, Line, Promise]
) -> Iterator[Fall]:
    followed, last, promised = known
    board = (gpu["device"] if gpu else None, name)
    model = str(gpu["model"]) if gpu else "all GPUs of the node"
    cause = ", ".join(_causes(gpu, followed, last)) or UNEXPLAINED
    value, usual = f"{_named(name)} {series['last']:g} {_unit(name)}", series["usual"]
    if series["found"] and usual:
        share = 1 - series["last"] / usual
        summary = (
            f"{value}, {share:.0%} below the {usual:.4g} of its first proofs"
            f" (from {series['since'][:10]}), since {series['found'][:10]}"
        )
        yield Fall(host, gpu, board, model, share, alone=True, cause=cause, summary=summary)
    elif series["others"] == 1 and series["apart"] >= promised.repeats(2):
        summary = f"{value}, {series['share']:.0%} apart from the other {model}: one of both, nobody can say which"
        yield Fall(host, None, board, model, series["share"], alone=False, cause=cause, summary=summary)
    elif series["others"] > 1 and series["apart"] >= promised.repeats(series["others"] + 1):
        summary = (
            f"{value}, {series['share']:.0%} below the median of its {series['others']} siblings"
            f" in {series['apart']} proofs in a row"
        )
        yield Fall(host, gpu, board, model, series["share"], alone=False, cause=cause, summary=summary)


def _causes(gpu: ReportedGpu | None, followed: Followed, last: Line) -> Iterator[str]:
    """Yield what changed on a GPU since its baseline, or was found on it or its node."""
    for one in last["findings"]:
        if one["id"] in CAUSES and (gpu is None or not one["gpu"] or one["gpu"]["uuid"] == gpu["uuid"]):
            yield one["summary"]
    if gpu:
        warmer = _more(gpu["temperature_celsius"], followed["celsius"])
        if warmer >= WARMER_CELSIUS:
            yield f"{warmer} °C warmer"
        lanes, once = _lanes(gpu["pcie"]), _lanes(followed["pcie"])
        if lanes and once and lanes < once:
            yield f"{lanes} PCIe lanes, once {once}"
        rows = _more(gpu["remapped_rows"], followed["remapped_rows"])
        if rows > 0:
            yield f"{rows} more replaced rows of memory"


def _more(now: int | None, once: int | None) -> int:
    return 0 if now is None or once is None else now - once


def _lanes(pcie: str | None) -> int:
    match = re.search(r"x(\d+)$", pcie or "")
    return int(match[1]) if match else 0


def told(found: Sequence[Fall], known: Counter[Board]) -> list[tuple[str, Trend]]:
    """Return each fall with its host; those that most siblings share are one, with the hosts' names."""
    fell: Counter[Board] = Counter(one.board for one in found if one.alone)
    shared = {board for board, count in fell.items() if count > 1 and count > SHARED * known[board]}
    devices = sorted({str(board[0]) for board in shared})
    return [
        *(
            _together([one for one in found if one.board in shared and str(one.board[0]) == device], known)
            for device in devices
        ),
        *((one.host, _trend(one)) for one in found if one.board not in shared),
    ]


def _together(found: Sequence[Fall], known: Counter[Board]) -> tuple[str, Trend]:
    hosts = sorted({one.host for one in found})
    rates = sorted({one.board[1] for one in found})
    fell = max(Counter(one.board for one in found).values())
    what = f"{', '.join(map(_named, rates))} {median(one.share for one in found):.0%} lower"
    causes = {one.cause for one in found}
    cause = f"all of them: {causes.pop()}; " if len(causes) == 1 and UNEXPLAINED not in causes else ""
    board = found[0].model if found[0].board[0] else "nodes"
    of = f"{fell} of {max(known[one.board] for one in found)} {board}"
    summary = f"{cause}{what} on {of} at once: look at the driver, the room and the test before the boards"
    more = f" and {len(hosts) - NAMED} more" if len(hosts) > NAMED else ""
    return ", ".join(hosts[:NAMED]) + more, {
        "rule": "slower",
        "gpu": None,
        "summary": summary,
        "remediation": "repeat_proof",
    }


def _trend(one: Fall) -> Trend:
    gpu = one.gpu
    return {
        "rule": "slower",
        "gpu": {"index": gpu["index"], "uuid": gpu["uuid"], "bus_id": gpu["bus_id"]} if gpu else None,
        "summary": f"{one.cause}: {one.summary}",
        "remediation": "repeat_proof" if one.cause == UNEXPLAINED else _remedy(one.board[1]),
    }


def _remedy(name: str) -> str:
    if name in ("to_device_gbs", "to_host_gbs"):
        return "check_seating"
    return "check_cooling" if name.endswith("_tflops") else "contact_support"


def _named(name: str) -> str:
    return name.rpartition("_")[0]


def _unit(name: str) -> str:
    return {"gbs": "GB/s", "tflops": "TFLOPS"}.get(name.rpartition("_")[2], "")
