# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the history keeps of one proof of one host, and what is new and gone since earlier ones. No I/O happens here."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ansible_collections.gpulab.node.plugins.plugin_utils.history.model import (
        Changes,
        Dated,
        FoundOn,
        KeptFinding,
        Proven,
        Rates,
        ReportedGpu,
    )

SCHEMA = 1
NOT_JUDGED = "not-judged"
GRAVE = ("warn", "fail")
# A check that says one of these looked at nothing: what was found before may still be so.
DID_NOT_LOOK = ("skipped", "unknown")


class Line(TypedDict):
    """What is kept of a host of a report: docs/history.schema.json. An earlier report may lack some of it."""

    schema: int
    created: str
    gpulab: str | None
    state: str | None
    verdict: str | None
    simulated: str | None
    level: str | None
    kernel: str | None
    driver: str | None
    seconds: float | None
    rates: Rates | None
    gpus: list[ReportedGpu]
    checks: dict[str, str]
    findings: list[KeptFinding]


def line(document: Dated, host: Proven) -> Line:
    """Return what is kept of a host of a report."""
    return {
        "schema": SCHEMA,
        "created": document["created"],
        "gpulab": document.get("gpulab"),
        "state": host.get("state"),
        "verdict": host.get("verdict"),
        "simulated": host.get("simulated"),
        "level": host.get("level"),
        "kernel": host.get("kernel"),
        "driver": host.get("driver"),
        "seconds": host.get("seconds"),
        "rates": host.get("rates"),
        "gpus": host["gpus"],
        "checks": _checks(host),
        "findings": _findings(host),
    }


def _checks(host: Proven) -> dict[str, str]:
    """Return the checks that looked at something, with ok or the worst finding of warn and above."""
    looked: dict[str, str] = {NOT_JUDGED: "ok" if host["state"] == "verified" else "fail"}
    for result in host["results"]:
        severity = result["severity"] if result["severity"] in GRAVE else "ok"
        if result["severity"] not in DID_NOT_LOOK and looked.get(result["id"]) != "fail":
            looked[result["id"]] = severity if severity != "ok" else looked.get(result["id"], "ok")
    return looked


def _findings(host: Proven) -> list[KeptFinding]:
    found: list[KeptFinding] = [
        {"id": one["id"], "severity": one["severity"], "summary": one["summary"], "gpu": one["gpu"]}
        for one in host["results"]
        if one["severity"] in GRAVE
    ]
    if host["state"] != "verified":
        found.append(
            {"id": NOT_JUDGED, "severity": "fail", "summary": f"{host['state']}: {host['detail']}", "gpu": None}
        )
    return found


def since(now: Mapping[str, Line], earlier: Mapping[str, Sequence[Line]]) -> Changes | None:
    """Return what is new and gone; None where no host was proven before.

    Each check of a host is compared with the last earlier line in which it looked at something, which may be that of
    another run, or of a deeper level. earlier has the lines of each host, the latest last.
    """
    known = {host: lines for host, lines in earlier.items() if lines}
    if not known:
        return None
    new: list[FoundOn] = []
    gone: list[FoundOn] = []
    for host in sorted(now.keys() & known.keys()):
        appeared, disappeared = _compared(now[host], known[host])
        new += [_on(host, found) for found in appeared]
        gone += [_on(host, found) for found in disappeared]
    return {
        "earlier": max(lines[-1]["created"] for lines in known.values()),
        "new": new,
        "gone": gone,
        "hosts_added": sorted(now.keys() - known.keys()),
        "hosts_removed": sorted(known.keys() - now.keys()),
    }


def _on(host: str, found: KeptFinding) -> FoundOn:
    return {"host": host, **found}


def _compared(last: Line, lines: Sequence[Line]) -> tuple[list[KeptFinding], list[KeptFinding]]:
    """Return the findings of a host that are new, and those that are gone."""
    now = _by_signature(last["findings"], last["checks"])
    before: dict[tuple[str, ...], KeptFinding] = {}
    for check in last["checks"]:
        looked = next((one for one in reversed(lines) if check in one["checks"]), None)
        if looked:
            before.update(_by_signature(looked["findings"], (check,)))
    return (
        [now[key] for key in sorted(now.keys() - before.keys())],
        [before[key] for key in sorted(before.keys() - now.keys())],
    )


def _by_signature(findings: Sequence[KeptFinding], checks: Collection[str]) -> dict[tuple[str, ...], KeptFinding]:
    """Return findings of these checks by what makes them the same in two proofs: check, severity and GPU."""
    return {
        (found["id"], found["severity"], str(found["gpu"]["uuid"] if found["gpu"] else None)): found
        for found in findings
        if found["id"] in checks
    }
