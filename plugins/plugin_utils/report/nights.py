# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The history as a page: of each host a small picture of each main figure over the nights, the gravest hosts first."""

from __future__ import annotations

from collections import Counter
from datetime import date
from statistics import median
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import for_people_all
from ansible_collections.gpulab.node.plugins.plugin_utils.pages.page import GRAVEST_FIRST, LARGE, render

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ansible_collections.gpulab.node.plugins.plugin_utils.history.lines import Line
    from ansible_collections.gpulab.node.plugins.plugin_utils.history.series import State
    from ansible_collections.gpulab.node.plugins.plugin_utils.history.told import Known

    Figured = Callable[[Line], float | None]
    Values = dict[int, float]  # by the day, as date.toordinal() counts

NEVER = "unknown"  # the severity of a host that was never proven
WORDS = {"fail": "not fit", "warn": "with warnings", "unknown": "never proven", "ok": "fit"}
HIGH = 20  # units of a picture, from its foot to its top
BARS = {"ok": 5, "warn": 12, "fail": HIGH}  # a state is told by a bar's height, not by its colour alone


class Figure(NamedTuple):
    """A figure of a host by the day, and its unit; a picture's foot and top are at least so far apart.

    usual is marked by a line across, the days of findings by a bar each.
    """

    title: str
    unit: str
    least: float
    values: Values
    usual: float | None = None
    found: frozenset[int] = frozenset()


class HostNights(TypedDict):
    """What the page says of a host; verdicts by the day."""

    known: Known
    severity: str
    verdicts: dict[int, str]
    figures: list[Figure]


class Picture(TypedDict):
    """A picture: its SVG paths by the severity that colours them, what it shows in words, and its last value."""

    title: str
    paths: dict[str, str]
    words: str
    last: str


def of(known: Known, lines: Sequence[Line], state: State | None = None) -> HostNights:
    """Return what the page says of a host, by the last line of each day; state is what is remembered of its rates."""
    usual, found = _baselines(state) if state else ({}, frozenset[int]())
    days = {date.fromisoformat(line["created"][:10]).toordinal(): line for line in lines}
    verdict = known["last"]["verdict"] if known["last"] else None
    return {
        "known": known,
        "severity": _severity(verdict) if known["last"] else NEVER,
        "verdicts": {day: _severity(line["verdict"]) for day, line in days.items()},
        "figures": [
            Figure("hottest GPU", " °C", 20, _by_day(days, _hottest)),
            Figure("slowest rate", " % of usual", 15, _slowest(days, usual), 100, found),
            Figure("memory errors", "", 2, _by_day(days, _errors)),
        ],
    }


def page(hosts: list[HostNights], created: str, days: int, shared: Sequence[str] = ()) -> str:
    """Return the page of the nights of so many days until created, a time as a report has it.

    shared is what gets worse on several hosts at once.
    """
    of_all = [day for host in hosts for day in host["verdicts"]]
    first, last = (min(of_all), max(of_all)) if of_all else (0, 0)
    ordered = sorted(hosts, key=lambda host: (GRAVEST_FIRST.index(host["severity"]), -len(host["known"]["trends"])))
    counts = Counter(host["severity"] for host in hosts)
    large = len(hosts) >= LARGE
    shown = [
        for_people_all({**host["known"], "severity": host["severity"], "pictures": _pictures(host, first)})
        for host in ordered
    ]
    fit = [host for host in shown if large and host["severity"] == "ok" and not host["trends"]]
    return render(
        "report/history.html.j2",
        hosts=[host for host in shown if host not in fit] if fit else shown,
        fit_hosts=fit,
        number=len(hosts),
        large=large,
        counts={severity: counts[severity] for severity in WORDS},
        shared=shared,
        words=WORDS,
        created=created,
        days=days,
        span=(date.fromordinal(first or 1).isoformat(), date.fromordinal(last or 1).isoformat()),
        titles=["verdict", *(figure.title for figure in hosts[0]["figures"])] if hosts else [],
        wide=max(last - first, 1),
        high=HIGH,
    )


def _severity(verdict: str | None) -> str:
    return verdict if verdict in BARS else "ok"


def _by_day(days: dict[int, Line], figure: Figured) -> Values:
    known = {day: figure(line) for day, line in days.items()}
    return {day: value for day, value in known.items() if value is not None}


def _hottest(line: Line) -> float | None:
    return max(
        (gpu["temperature_celsius"] for gpu in line["gpus"] if gpu["temperature_celsius"] is not None), default=None
    )


def _errors(line: Line) -> float | None:
    counters = [gpu[name] for gpu in line["gpus"] for name in ("ecc_uncorrected", "remapped_rows")]
    known = [value for value in counters if value is not None]
    return sum(known) if known else None


def _baselines(state: State) -> tuple[dict[tuple[str | None, str], float], frozenset[int]]:
    """Return the usual rates of each GPU that has learnt them, and since which days falls are told."""
    series = [
        ((uuid, name), one) for uuid, followed in state["series"].items() for name, one in followed["rates"].items()
    ]
    return (
        {rate: one["usual"] for rate, one in series if one["usual"]},
        frozenset(date.fromisoformat(one["found"][:10]).toordinal() for _rate, one in series if one["found"]),
    )


def _slowest(days: dict[int, Line], learnt: Mapping[tuple[str | None, str], float]) -> Values:
    """Return of each day the rate of a GPU that falls furthest short of its usual one, in per cent of it.

    That is its baseline; while that is learnt, its median.
    """
    rates = {
        day: {(gpu["uuid"], name): value for gpu in line["gpus"] for name, value in (gpu["rates"] or {}).items()}
        for day, line in days.items()
    }
    of_rate: dict[tuple[str | None, str], list[float]] = {}
    for of_day in rates.values():
        for rate, value in of_day.items():
            of_rate.setdefault(rate, []).append(value)
    usual = {rate: learnt.get(rate) or median(values) for rate, values in of_rate.items()}
    shares = {
        day: [100 * value / usual[rate] for rate, value in known.items() if usual[rate]] for day, known in rates.items()
    }
    return {day: min(known) for day, known in shares.items() if known}


def _pictures(host: HostNights, first: int) -> list[Picture]:
    return [_bars(host["verdicts"], first), *(_line(figure, first) for figure in host["figures"])]


def _bars(verdicts: dict[int, str], first: int) -> Picture:
    """Draw a bar for each night."""
    paths = {
        severity: "".join(f"M{day - first} {HIGH}v-{high}" for day, verdict in verdicts.items() if verdict == severity)
        for severity, high in BARS.items()
    }
    count = Counter(verdicts.values())
    words = ", ".join(f"{count[severity]} {WORDS[severity]}" for severity in BARS if count[severity])
    paths = {severity: path for severity, path in paths.items() if path}
    return {"title": "verdict", "paths": paths, "words": f"nights: {words or 'none'}", "last": ""}


def _line(figure: Figure, first: int) -> Picture:
    """Draw a line over the nights; one that has no next night is a dot."""
    values, unit = figure.values, figure.unit
    if not values:
        return {"title": figure.title, "paths": {}, "words": f"{figure.title}: not known", "last": "-"}
    low, top = min(values.values()), max(values.values())
    words = f"{figure.title}: {low:.0f} to {top:.0f}{unit}"
    foot, height = (low, top) if figure.usual is None else (min(low, figure.usual), max(top, figure.usual))
    scale = (HIGH - 2) / max(height - foot, figure.least)
    paths = {"info": "".join(_steps(values, first, foot, scale))}
    if figure.usual is not None and len(values) > 1:
        across = max(values) - min(values)
        paths["unknown"] = f"M{min(values) - first} {HIGH - 1 - round((figure.usual - foot) * scale)}h{across}"
    if found := "".join(f"M{day - first} {HIGH}v-{HIGH}" for day in sorted(figure.found) if day >= first):
        paths["warn"], words = found, f"{words}; a fall is told"
    return {
        "title": figure.title,
        "paths": paths,
        "words": words,
        "last": f"{[*values.values()][-1]:.0f}{unit}",
    }


def _steps(values: Values, first: int, low: float, scale: float) -> Iterator[str]:
    before: tuple[int, int] | None = None
    for day, value in sorted(values.items()):
        across, up = day - first, HIGH - 1 - round((value - low) * scale)
        yield f"M{across} {up}h0" if before is None else f"l{across - before[0]} {up - before[1]}"
        before = across, up
