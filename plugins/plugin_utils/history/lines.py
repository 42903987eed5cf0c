# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the history keeps of one proof of one host, and what is new and gone since earlier ones. No I/O happens here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SCHEMA = 1
NOT_JUDGED = "not-judged"
GRAVE = ("warn", "fail")
# A check that says one of these looked at nothing: what was found before may still be so.
DID_NOT_LOOK = ("skipped", "unknown")
KEPT = ("state", "verdict", "simulated", "level", "kernel", "driver", "seconds", "rates", "gpus")
Line = dict[str, Any]


def line(document: Mapping[str, Any], host: Mapping[str, Any]) -> Line:
    """Return what is kept of a host of a report: docs/history.schema.json."""
    return {
        "schema": SCHEMA,
        "created": document["created"],
        "gpulab": document.get("gpulab"),
        **{part: host.get(part) for part in KEPT},
        "checks": _checks(host),
        "findings": _findings(host),
    }


def _checks(host: Mapping[str, Any]) -> dict[str, str]:
    """Return the checks that looked at something, with ok or the worst finding of warn and above."""
    looked: dict[str, str] = {NOT_JUDGED: "ok" if host["state"] == "verified" else "fail"}
    for result in host["results"]:
        severity = result["severity"] if result["severity"] in GRAVE else "ok"
        if result["severity"] not in DID_NOT_LOOK and looked.get(result["id"]) != "fail":
            looked[result["id"]] = severity if severity != "ok" else looked.get(result["id"], "ok")
    return looked


def _findings(host: Mapping[str, Any]) -> list[dict[str, Any]]:
    parts = ("id", "severity", "summary", "gpu")
    found = [{part: result[part] for part in parts} for result in host["results"] if result["severity"] in GRAVE]
    if host["state"] != "verified":
        found.append(
            {"id": NOT_JUDGED, "severity": "fail", "summary": f"{host['state']}: {host['detail']}", "gpu": None}
        )
    return found


def since(now: Mapping[str, Line], earlier: Mapping[str, Sequence[Line]]) -> dict[str, Any] | None:
    """Return {earlier, new, gone, hosts_added, hosts_removed}; None where no host was proven before.

    Each check of a host is compared with the last earlier line in which it looked at something, which may be that of
    another run, or of a deeper level. earlier has the lines of each host, the latest last.
    """
    known = {host: lines for host, lines in earlier.items() if lines}
    if not known:
        return None
    new, gone = [], []
    for host in sorted(now.keys() & known.keys()):
        appeared, disappeared = _compared(now[host], known[host])
        new += [{"host": host, **found} for found in appeared]
        gone += [{"host": host, **found} for found in disappeared]
    return {
        "earlier": max(lines[-1]["created"] for lines in known.values()),
        "new": new,
        "gone": gone,
        "hosts_added": sorted(now.keys() - known.keys()),
        "hosts_removed": sorted(known.keys() - now.keys()),
    }


def _compared(last: Line, lines: Sequence[Line]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the findings of a host that are new, and those that are gone."""
    now, before = _by_signature(last["findings"], last["checks"]), {}
    for check in last["checks"]:
        looked = next((one for one in reversed(lines) if check in one["checks"]), None)
        if looked:
            before.update(_by_signature(looked["findings"], (check,)))
    return (
        [now[key] for key in sorted(now.keys() - before.keys())],
        [before[key] for key in sorted(before.keys() - now.keys())],
    )


def _by_signature(findings: Sequence[dict[str, Any]], checks: Any) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return findings of these checks by what makes them the same in two proofs: check, severity and GPU."""
    return {
        (found["id"], found["severity"], str((found["gpu"] or {}).get("uuid"))): found
        for found in findings
        if found["id"] in checks
    }
