# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rates of a host's GPUs over its proofs, each against its own frozen baseline. No I/O happens here.

A baseline is learnt from the first proofs, and then stays: one that moved with time would hide a slow decay. Only what
the proofs themselves show renews it: another driver, VBIOS, power limit or board. What is remembered between proofs is
small, and is kept beside the host's lines (see files.py), as those of half a year are too many to read for each report.
"""

from __future__ import annotations

import hashlib
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING, TypedDict

from ansible_collections.gpulab.node.plugins.plugin_utils.history.promise import SLACK
from ansible_collections.gpulab.node.plugins.plugin_utils.history.siblings import measured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.gpulab.node.plugins.plugin_utils.history.lines import Line
    from ansible_collections.gpulab.node.plugins.plugin_utils.history.model import Rates, ReportedGpu
    from ansible_collections.gpulab.node.plugins.plugin_utils.history.promise import Promise
    from ansible_collections.gpulab.node.plugins.plugin_utils.history.siblings import Siblings

SCHEMA = 1
# The deviation of rounded values may be 0; no rate is measured better than this share of itself.
LEAST_SCALE = 0.005
# Values of a baseline so many scales from its median are accidents, and are no part of it. (At 5, healthy ones are left
# out so often that twice as many false alarms come as promised.)
ACCIDENT = 8
MAD = 1.4826  # the standard deviation of normal values, by their median deviation
# In so many proofs in a row a fall is seen before it is told, and is over before it is no longer told.
CONFIRMED = 2
# What the latest proof counts in the level: the last nine are most of it.
LATEST = 0.2
# The series of the GPUs that were there last are kept, of more than any node has.
MOST_GPUS = 64
NODE = "node"  # whose rates are of no single GPU


class Series(TypedDict):
    """One rate of one GPU.

    since is the time of the first proof, last the latest value. learnt holds the baseline's values until usual and
    scale are known. fallen is the sum of what proofs lay below the baseline, in scales; level the share below it of the
    last few, the latest counting most. below counts the last proofs in
    a row that lay the least effect below, and, negative, those that did not by half of it. found is since when a fall
    is told. apart counts the last proofs in a row in which it stood out from others, its siblings, last by a share of
    their median.
    """

    since: str
    last: float
    learnt: list[float]
    usual: float | None
    scale: float
    fallen: float
    level: float
    below: int
    found: str | None
    apart: int
    share: float
    others: int


class Followed(TypedDict):
    """The series of a GPU, or of the node, since an event, and what else was so when they were last learnt."""

    event: str
    seen: str
    celsius: int | None
    pcie: str | None
    remapped_rows: int | None
    rates: dict[str, Series]


class State(TypedDict):
    """What is remembered of a host: the time of its latest line, the series by UUID, and how many the fleet has."""

    schema: int
    last: str
    fleet: int
    series: dict[str, Followed]


def new() -> State:
    """Return what is known of a host before its first proof."""
    return {"schema": SCHEMA, "last": "", "fleet": 0, "series": {}}


def follow(state: State, line: Line, promised: Promise, siblings: Siblings) -> None:
    """Bring what is remembered up to date with the next line of the host."""
    state["last"] = line["created"]
    if line["state"] != "verified" or line["simulated"]:
        return
    for gpu in line["gpus"]:
        rates = measured(gpu["rates"])
        if gpu["uuid"] and rates:
            followed = _followed(state, gpu["uuid"], _event(line, [gpu]), line["created"])
            learning = _values(followed, rates, line["created"], promised)
            if learning:
                for name in ("pcie", "remapped_rows"):
                    followed[name] = gpu[name]
                followed["celsius"] = gpu["temperature_celsius"]
            for name, value in rates.items():
                siblings.compare(followed["rates"][name], gpu, name, value)
    if rates := measured(line["rates"]):
        followed = _followed(state, NODE, _event(line, line["gpus"]), line["created"])
        _values(followed, rates, line["created"], promised)
    series = state["series"]
    if len(series) > MOST_GPUS:
        for uuid in sorted(series, key=lambda uuid: series[uuid]["seen"])[: len(series) - MOST_GPUS]:
            del series[uuid]


def _event(line: Line, gpus: Sequence[ReportedGpu]) -> str:
    """Return what a baseline is renewed by when it changes."""
    which = [line["driver"], *([gpu["uuid"], gpu["vbios"], gpu["serial"], gpu["power_limit_watts"]] for gpu in gpus)]
    return hashlib.sha256(repr(which).encode()).hexdigest()[:16]


def _followed(state: State, uuid: str, event: str, now: str) -> Followed:
    followed = state["series"].get(uuid)
    if followed is None or followed["event"] != event:
        fresh: Followed = {
            "event": event,
            "seen": now,
            "celsius": None,
            "pcie": None,
            "remapped_rows": None,
            "rates": {},
        }
        followed = state["series"][uuid] = fresh
    followed["seen"] = now
    return followed


def _values(followed: Followed, rates: Rates, now: str, promised: Promise) -> bool:
    """Add the rates of a proof to their series; return whether one of them is still being learnt."""
    learning = False
    for name, value in rates.items():
        series = followed["rates"].get(name)
        if series is None:
            series = followed["rates"][name] = fresh(now)
        series["last"] = value
        if series["usual"] is None:
            learning = True
            series["learnt"].append(value)
            if len(series["learnt"]) >= promised.baseline:
                series["usual"], series["scale"] = baseline(series["learnt"], promised)
                series["learnt"] = []
        else:
            judge(series, series["usual"], value, now, promised)
    return learning


def fresh(now: str) -> Series:
    """Return a series before its first value."""
    return {
        "since": now,
        "last": 0.0,
        "learnt": [],
        "usual": None,
        "scale": 0.0,
        "fallen": 0.0,
        "level": 0.0,
        "below": 0,
        "found": None,
        "apart": 0,
        "share": 0.0,
        "others": 0,
    }


def baseline(values: Sequence[float], promised: Promise) -> tuple[float, float]:
    """Return mean and deviation of a baseline, the latter at least a third of the effect that is told."""
    middle = median(values)
    least = max(LEAST_SCALE, promised.effect / 3) * middle
    wide = max(LEAST_SCALE * middle, MAD * median(abs(value - middle) for value in values))
    kept = [value for value in values if abs(value - middle) <= ACCIDENT * wide]
    return fmean(kept), max(least, stdev(kept) if len(kept) > 1 else 0.0)


def judge(series: Series, usual: float, value: float, now: str, promised: Promise) -> None:
    """Add a value to a series whose baseline is known (CUSUM).

    One proof adds at most half of the height and the sum never exceeds one and a half of it, so that no single one
    makes a finding, and a mended GPU is not blamed for long.
    """
    series["level"] += LATEST * (1 - value / usual - series["level"])
    step = min((usual - value) / series["scale"] - SLACK, promised.height / 2)
    series["fallen"] = min(max(0.0, series["fallen"] + step), 1.5 * promised.height)
    if value <= usual * (1 - promised.effect):
        series["below"] = max(series["below"], 0) + 1
    elif value > usual * (1 - promised.effect / 2):
        series["below"] = min(series["below"], 0) - 1
    else:
        series["below"] = 0
    far = series["fallen"] > promised.height and series["level"] >= promised.effect
    if series["found"] is None and far and series["below"] >= CONFIRMED:
        series["found"] = now
    elif series["found"] and series["below"] <= -CONFIRMED:
        series["found"], series["fallen"], series["level"] = None, 0.0, 0.0


def learning(state: State, proofs: int) -> str | None:
    """Return how far the youngest baseline of the latest GPUs is, such as "learning, 7 of 20"; None where all are."""
    latest = max((followed["seen"] for followed in state["series"].values()), default="")
    learnt = [
        len(series["learnt"])
        for followed in state["series"].values()
        if followed["seen"] == latest
        for series in followed["rates"].values()
        if series["usual"] is None
    ]
    return f"learning, {min(learnt)} of {proofs}" if learnt else None
