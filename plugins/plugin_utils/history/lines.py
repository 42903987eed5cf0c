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
    boot: str | None
    kernel: str | None
    driver: str | None
    seconds: float | None
    roles: dict[str, float] | None
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
        "boot": host.get("boot"),
        "kernel": host.get("kernel"),
        "driver": host.get("driver"),
        "seconds": host.get("seconds"),
        "roles": host.get("roles"),
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


class Comparison(TypedDict):
    """What is new and gone on a host since its earlier lines, of which earlier is the latest one's time."""

    earlier: str
    new: list[FoundOn]
    gone: list[FoundOn]


def since(now: Mapping[str, Line], earlier: Mapping[str, Sequence[Line]]) -> Changes | None:
    """Return what is new and gone; None where no host was proven before.

    earlier has the lines of each host, the latest last.
    """
    return together(now.keys(), {host: compared(host, now.get(host), lines) for host, lines in earlier.items()})


def compared(host: str, last: Line | None, lines: Sequence[Line]) -> Comparison | None:
    """Return what is new and gone on a host; None where it was not proven before.

    Each check of a host is compared with the last earlier line in which it looked at something, which may be that of
    another run, or of a deeper level.
    """
    if not lines:
        return None
    appeared, disappeared = _compared(last, lines) if last else ([], [])
    return {
        "earlier": lines[-1]["created"],
        "new": [_on(host, found) for found in appeared],
        "gone": [_on(host, found) for found in disappeared],
    }


def together(now: Collection[str], comparisons: Mapping[str, Comparison | None]) -> Changes | None:
    """Return what is new and gone on the hosts of a run; None where none of them was proven before."""
    known = {host: comparison for host, comparison in sorted(comparisons.items()) if comparison}
    if not known:
        return None
    return {
        "earlier": max(comparison["earlier"] for comparison in known.values()),
        "new": [found for comparison in known.values() for found in comparison["new"]],
        "gone": [found for comparison in known.values() for found in comparison["gone"]],
        "hosts_added": sorted(set(now) - known.keys()),
        "hosts_removed": sorted(known.keys() - set(now)),
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
