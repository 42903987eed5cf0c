# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules over the history of one host: what gets worse from proof to proof. No I/O happens here.

Each rule takes the lines of a host (see lines.py), the latest last, and yields what it finds in the latest one. Rates
have rules of their own (see series.py, siblings.py, falls.py).
"""

from __future__ import annotations

import re
from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import GpuId
    from ansible_collections.gpulab.node.plugins.plugin_utils.history.lines import Line
    from ansible_collections.gpulab.node.plugins.plugin_utils.history.model import ReportedGpu, Trend, Worse

    Counter = Literal["ecc_corrected", "ecc_uncorrected", "remapped_rows", "replays"]
    Lines = Sequence[Line]
    Found = Iterator[Worse]

# With fewer earlier values there is nothing usual to stand out from.
ENOUGH = 3
# As the comparison of nodes has it (checks/fleet.py).
WARMER_CELSIUS = 20
# A check that turned from good to bad or back so often is not cured by what was done.
TURNS = 4
# Counters for which any rise is a defect, and those of which only a rise in each of the last proofs is one.
NEVER_RISES: dict[Counter, str] = {
    "ecc_uncorrected": "uncorrected memory errors",
    "remapped_rows": "replaced rows of memory",
}
MAY_RISE: dict[Counter, str] = {"ecc_corrected": "corrected memory errors", "replays": "PCIe replays"}
STEPS = 3
ANEW_AT_BOOT = ("replays",)


def trends(lines: Lines) -> list[Trend]:
    """Return what gets worse on a host."""
    judged = [line for line in lines if line["state"] == "verified"]
    return [{"rule": rule.__name__, **found} for rule in RULES for found in rule(judged)] if judged else []


def more_errors(lines: Lines) -> Found:
    """Find counters of memory errors that rose since the first of these proofs, and others that rise each time."""
    for gpu, records in _gpus(lines):
        for name, what in NEVER_RISES.items():
            known = _known(records, name)
            if known and known[-1] > known[0]:
                yield _found(gpu, f"{known[-1] - known[0]} more {what} in {len(known)} proofs", "reset_gpu")
        for name, what in MAY_RISE.items():
            counted = _counted(lines, gpu["uuid"], name)[-STEPS - 1 :]
            known = [value for _when, value in counted]
            if len(known) > STEPS and all(one < other for one, other in zip(known, known[1:])):
                hours = (counted[-1][0] - counted[0][0]).total_seconds() / 3600
                often = f", {(known[-1] - known[0]) / hours:.2g} an hour" if hours > 0 else ""
                yield _found(gpu, f"{what} rise in each proof: {', '.join(map(str, known))}{often}", "check_seating")


def _counted(lines: Lines, uuid: str | None, name: Counter) -> list[tuple[datetime, int]]:
    """Return a counter of a GPU with its times, since the boot where it begins with one; others go on for life."""
    boot = lines[-1].get("boot")
    since = [line for line in lines if name not in ANEW_AT_BOOT or not boot or line.get("boot", boot) == boot]
    return [
        (datetime.fromisoformat(line["created"].replace("Z", "+00:00")), value)
        for line in since
        for gpu in line["gpus"]
        if gpu["uuid"] == uuid and (value := gpu[name]) is not None
    ]


def _known(records: Sequence[ReportedGpu], name: Counter) -> list[int]:
    """Return the values of a counter, where a proof had one."""
    return [value for value in (record[name] for record in records) if value is not None]


def xid_again(lines: Lines) -> Found:
    """Find XIDs that came, and came once more by a later proof; counts begin at 0 at each boot."""
    for gpu, records in _gpus(lines):
        came: dict[str, int] = {}
        before: dict[str, int] = {}
        for record in records:
            counts = record["xids"] or {}
            for xid, count in counts.items():
                if count > before.get(xid, 0) or (xid in before and count < before[xid]):
                    came[xid] = came.get(xid, 0) + 1
            before = counts
        for xid, times in came.items():
            if times > 1:
                yield _found(gpu, f"XID {xid} came between proofs {times} times", "contact_support")


def warmer(lines: Lines) -> Found:
    """Find GPUs much warmer than they usually are."""
    for gpu, records in _gpus(lines):
        *earlier, last = [record["temperature_celsius"] for record in records]
        known = [value for value in earlier if value is not None]
        if len(known) >= ENOUGH and last is not None and last > median(known) + WARMER_CELSIUS:
            yield _found(gpu, f"{last} °C, {last - median(known):g} more than its median", "check_cooling")


def narrower(lines: Lines) -> Found:
    """Find links with fewer lanes than they once had."""
    for gpu, records in _gpus(lines):
        lanes = [
            int(match[1]) for match in (re.search(r"x(\d+)$", record["pcie"] or "") for record in records) if match
        ]
        if lanes and lanes[-1] < max(lanes):
            yield _found(gpu, f"{lanes[-1]} PCIe lanes, once {max(lanes)}", "check_seating")


def gone(lines: Lines) -> Found:
    """Find GPUs of the proof before that this one does not list: fallen off the bus, or replaced."""
    if len(lines) > 1:
        here = {gpu["uuid"] for gpu in lines[-1]["gpus"]}
        for gpu in lines[-2]["gpus"]:
            if gpu["uuid"] and gpu["uuid"] not in here:
                yield _found(gpu, f"GPU {gpu['index']} ({gpu['uuid']}) is not there any more", "check_seating")


def comes_and_goes(lines: Lines) -> Found:
    """Find checks that turn from good to bad and back again."""
    for check in lines[-1]["checks"]:
        bad = [line["checks"][check] != "ok" for line in lines if check in line["checks"]]
        turns = sum(one != other for one, other in zip(bad, bad[1:]))
        if turns >= TURNS:
            yield _found(None, f"{check} turned {turns} times in {len(bad)} proofs", "contact_support")


RULES: tuple[Callable[[Lines], Found], ...] = (more_errors, xid_again, warmer, narrower, gone, comes_and_goes)


def _found(gpu: ReportedGpu | None, summary: str, remediation: str) -> Worse:
    named: GpuId | None = {"index": gpu["index"], "uuid": gpu["uuid"], "bus_id": gpu["bus_id"]} if gpu else None
    return {"gpu": named, "summary": summary, "remediation": remediation}


def _gpus(lines: Lines) -> Iterator[tuple[ReportedGpu, list[ReportedGpu]]]:
    """Yield each GPU of the latest line, and its records in all lines; a GPU is the same by its UUID."""
    for gpu in lines[-1]["gpus"]:
        if gpu["uuid"]:
            yield gpu, [one for line in lines for one in line["gpus"] if one["uuid"] == gpu["uuid"]]
