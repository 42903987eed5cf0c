# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The history of a host in a few lines for people. No I/O happens here."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypedDict

from ansible_collections.gpulab.node.plugins.plugin_utils.history.lines import since
from ansible_collections.gpulab.node.plugins.plugin_utils.history.series import learning
from ansible_collections.gpulab.node.plugins.plugin_utils.history.trends import trends

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import GpuId
    from ansible_collections.gpulab.node.plugins.plugin_utils.history.lines import Line
    from ansible_collections.gpulab.node.plugins.plugin_utils.history.model import FoundOn, ReportedGpu, Trend
    from ansible_collections.gpulab.node.plugins.plugin_utils.history.series import State

# A nightly proof that was left out for a week is no accident.
STALE_DAYS = 7


class Known(TypedDict):
    """What is known of a host.

    last is the latest line, also an older one, and None for a host that was never proven. new and gone tell it from
    those before. stale_days is None where the last proof is not STALE_DAYS old, learning where all rates have their
    baseline. The rates that fell are no part of trends until falls.py has told them.
    """

    host: str
    proofs: int
    last: Line | None
    stale_days: int | None
    new: list[FoundOn]
    gone: list[FoundOn]
    trends: list[Trend]
    learning: str | None


def of(host: str, lines: Sequence[Line], now: datetime, days: int, rates: tuple[State, int] | None = None) -> Known:
    """Return what is known of a host by its lines of so many days until now.

    rates is what is remembered of its rates, and how many proofs a baseline needs.
    """
    recent = [line for line in lines if _time(line) >= now - timedelta(days=days)] or [*lines[-1:]]
    if not recent:
        nothing: Known = {
            "host": host,
            "proofs": 0,
            "last": None,
            "stale_days": None,
            "new": [],
            "gone": [],
            "trends": [],
            "learning": None,
        }
        return nothing
    *earlier, last = recent
    age = (now - _time(last)).days
    changes = since({host: last}, {host: earlier})
    return {
        "host": host,
        "proofs": len(recent),
        "last": last,
        "stale_days": age if age >= STALE_DAYS else None,
        "new": changes["new"] if changes else [],
        "gone": changes["gone"] if changes else [],
        "trends": trends(recent),
        "learning": learning(*rates) if rates else None,
    }


def told(known: Known, lines: Sequence[Line]) -> Iterator[str]:
    """Yield what of() found, and the range of what each GPU showed, for a terminal."""
    last, host = known["last"], known["host"]
    if last is None:
        yield f"{host}  never proven"
        return
    stale = f"; not proven for {known['stale_days']} days" if known["stale_days"] is not None else ""
    simulated = "  SIMULATED" if last["simulated"] else ""
    level = last["level"] or last["state"]
    rates = f"; rates: {known['learning']}" if known["learning"] else ""
    yield f"{host}  {last['verdict']}  {level}  {last['created']}  {known['proofs']} proofs{stale}{rates}{simulated}"
    for word, changed in (("new", known["new"]), ("gone", known["gone"])):
        yield from (f"  {word:<5} {found['id']}{_gpu(found['gpu'])}: {found['summary']}" for found in changed)
    yield from (f"  worse{_gpu(one['gpu'])} {one['summary']} -> {one['remediation']}" for one in known["trends"])
    for gpu in last["gpus"]:
        records = [one for line in lines for one in line["gpus"] if one["uuid"] == gpu["uuid"]]
        yield f"  GPU {gpu['index']} {gpu['model']}: {', '.join(_ranges(gpu, records))}"


def worse(host: str, trend: Trend) -> str:
    """Return what gets worse on a host, or on several."""
    return f"worse: {host}{_gpu(trend['gpu'])} {trend['summary']} -> {trend['remediation']}"


def _ranges(gpu: ReportedGpu, records: Sequence[ReportedGpu]) -> Iterator[str]:
    yield _range("{} °C", [one["temperature_celsius"] for one in records])
    yield _range("{} memory errors", [one["ecc_uncorrected"] for one in records])
    xids = sorted({xid for one in records for xid in one["xids"] or {}}, key=int)
    yield f"XIDs {', '.join(xids)}" if xids else "no XID"
    for rate in gpu["rates"] or {}:
        yield _range(f"{rate} {{}}", [(one["rates"] or {}).get(rate) for one in records])


def _range(text: str, values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return text.format("-")
    low, high = min(known), max(known)
    return text.format(f"{low:g}" if low == high else f"{low:g} to {high:g}")


def _gpu(gpu: GpuId | None) -> str:
    return f" [GPU {gpu['index']}]" if gpu else ""


def _time(line: Line) -> datetime:
    return datetime.fromisoformat(line["created"].replace("Z", "+00:00"))
