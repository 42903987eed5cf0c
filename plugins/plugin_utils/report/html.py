# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proof's document as a page, and the index of all reports."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import worst
from ansible_collections.gpulab.node.plugins.plugin_utils.pages.page import GRAVEST_FIRST, LARGE, render
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import host_types
from ansible_collections.gpulab.node.plugins.plugin_utils.report.document import findings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import GpuId
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import HostTypeOption
    from ansible_collections.gpulab.node.plugins.plugin_utils.report.model import Report, ReportedHost, SharedFinding

Numbered = tuple[int, "ReportedHost"]


class Summary(TypedDict):
    """What the index says of a report; the hosts by their names that fail, and that have a warning."""

    created: str
    gpulab: str
    seconds: float | None
    verdict: str
    levels: list[str]
    hosts: int
    fail: list[str]
    warn: list[str]
    changed: int
    simulated: bool


class Listed(TypedDict):
    """A report by the name of its directory; the summary is None where nothing is known of it."""

    place: str
    summary: Summary | None


class SeenEvidence(TypedDict):
    """What was seen, and what was expected."""

    observed: Any
    expected: Any
    unit: str | None


class Seen(SeenEvidence):
    """What was seen on a host; number is its place in the document."""

    name: str
    number: int
    gpus: list[GpuId]


class PageEntry(TypedDict):
    """A finding with all hosts that have it; evidence is what is the same on all of them."""

    id: str
    severity: str
    summary: str
    reason: str | None
    remediation: str
    hosts: list[Seen]
    anchor: str
    evidence: SeenEvidence | None


class OfCheck(TypedDict):
    """The findings of a check, and how many hosts have any."""

    id: str
    severity: str
    entries: list[PageEntry]
    hosts: int


class OfType(TypedDict):
    """The hosts of which the types, and what these set, are the same."""

    types: list[str]
    defaults: list[HostTypeOption]
    hosts: list[str]


NOT_FIT = ("fail", "warn")


def html(document: Report) -> str:
    """Return the report."""
    hosts = document["hosts"]
    verdicts = [host["verdict"] for host in hosts]
    troubled, folded = _by_verdict(hosts)
    found, cells = _by_check(document)
    matrix = {host["name"]: _row(host) for host in hosts}
    columns = [check for check in document["checks"] if any(_says(row.get(check)) for row in matrix.values())]
    groups = sorted({group for host in hosts for group in host["groups"]})
    models = sorted({model for host in hosts for model in _models(host)})
    return render(
        "report/report.html.j2",
        written=host_types.written,
        document=document,
        fit=sum(verdict not in NOT_FIT for verdict in verdicts),
        large=len(hosts) >= LARGE,
        troubled=troubled,
        fit_hosts=folded,
        warned=verdicts.count("warn"),
        failed=verdicts.count("fail"),
        shown_counts={severity: document["counts"][severity] for severity in GRAVEST_FIRST},
        levels=sorted({host["level"] for host in hosts if host["level"]}),
        altered=sum(bool(host["changed"]) for host in hosts),
        simulations=_simulations(hosts),
        found=found,
        cells=cells,
        matrix=matrix,
        columns=columns,
        idle=[check for check in document["checks"] if check not in columns],
        groups=groups,
        models=models,
        filters=[
            {"groups": _numbers(groups, host["groups"]), "models": _numbers(models, _models(host))} for host in hosts
        ],
        gpus={host["name"]: _gpus(host) for host in hosts},
        types=_types(hosts),
        changes=document["changes"],
    )


def index(reports: list[Listed], others: Iterable[str] = ()) -> str:
    """Return a page that lists reports; others are further pages by their paths below reports, without .html."""
    return render("report/index.html.j2", reports=reports, others=others)


def summary(document: Report) -> Summary:
    """Return what the index says of a report."""
    hosts = document["hosts"]
    return {
        "created": document["created"],
        "gpulab": document["gpulab"],
        "seconds": document["seconds"],
        "verdict": document["verdict"],
        "levels": sorted({host["level"] for host in hosts if host["level"]}),
        "hosts": len(hosts),
        "fail": [host["name"] for host in hosts if host["verdict"] == "fail"],
        "warn": [host["name"] for host in hosts if host["verdict"] == "warn"],
        "changed": sum(bool(host["changed"]) for host in hosts),
        "simulated": any(host["simulated"] for host in hosts),
    }


def _by_check(document: Report) -> tuple[list[OfCheck], dict[tuple[str, str], str]]:
    """Return what a person must look at, by check; and where the finding of a host and a check is on the page.

    The gravest and the most frequent checks, and findings of a check, come first.
    """
    entries: dict[tuple[str, ...], PageEntry] = {}
    for number, host in enumerate(document["hosts"]):
        for found in _lost(host) + findings(host["results"]):
            key = found["id"], found["severity"], found["summary"], str(found["reason"]), found["remediation"]
            entries.setdefault(key, _entry(found))["hosts"].append(_seen(host["name"], number, found))
    ordered = sorted(entries.values(), key=lambda entry: entry["id"])
    checks: list[OfCheck] = []
    for check, of_check in groupby(ordered, key=lambda entry: entry["id"]):
        its = sorted(of_check, key=lambda entry: (GRAVEST_FIRST.index(entry["severity"]), -len(entry["hosts"])))
        names = {host["name"] for entry in its for host in entry["hosts"]}
        checks.append({"id": check, "severity": its[0]["severity"], "entries": its, "hosts": len(names)})
    checks.sort(key=lambda check: (GRAVEST_FIRST.index(check["severity"]), -check["hosts"]))
    cells: dict[tuple[str, str], str] = {}
    for number, entry in enumerate(entry for check in checks for entry in check["entries"]):
        entry["anchor"] = f"finding-{number + 1}"
        entry["evidence"] = _same_evidence(entry["hosts"])
        for seen in entry["hosts"]:
            cells.setdefault((seen["name"], entry["id"]), entry["anchor"])
    return checks, cells


def _entry(found: SharedFinding) -> PageEntry:
    return {
        "id": found["id"],
        "severity": found["severity"],
        "summary": found["summary"],
        "reason": found["reason"],
        "remediation": found["remediation"],
        "hosts": [],
        "anchor": "",
        "evidence": None,
    }


def _seen(name: str, number: int, found: SharedFinding) -> Seen:
    return {
        "name": name,
        "number": number,
        "gpus": found["gpus"],
        "observed": found["observed"],
        "expected": found["expected"],
        "unit": found["unit"],
    }


NOT_JUDGED = "not judged"


def _lost(host: ReportedHost) -> list[SharedFinding]:
    """Return the finding about a host that was not judged."""
    if host["state"] == "verified":
        return []
    what = "unreachable" if host["state"] == "unreachable" else "failed before it could be judged"
    return [
        {
            "observed": None,
            "expected": None,
            "unit": None,
            "gpu": None,
            "source": "",
            "id": NOT_JUDGED,
            "severity": "fail",
            "summary": what,
            "reason": host["detail"],
            "remediation": "none",
            "gpus": [],
        }
    ]


def _same_evidence(hosts: list[Seen]) -> SeenEvidence | None:
    """Return what was seen where it is the same on all hosts, and there is some."""
    of_hosts: list[SeenEvidence] = [
        {"observed": host["observed"], "expected": host["expected"], "unit": host["unit"]} for host in hosts
    ]
    first, same = of_hosts[0], all(one == of_hosts[0] for one in of_hosts)
    return first if same and (first["observed"] is not None or first["expected"] is not None) else None


def _simulations(hosts: list[ReportedHost]) -> dict[str, list[str]]:
    """Return what the simulator says of itself, and on which hosts."""
    found: dict[str, list[str]] = {}
    for host in hosts:
        if host["simulated"]:
            found.setdefault(str(host["simulated"]), []).append(host["name"])
    return found


def _row(host: ReportedHost) -> dict[str, str]:
    """Return the worst severity of each check on this host."""
    row: dict[str, str] = {}
    for result in host["results"]:
        row[result["id"]] = worst((row.get(result["id"], result["severity"]), result["severity"]))
    return row


def _says(severity: str | None) -> bool:
    return severity not in (None, "skipped")


def _by_verdict(hosts: list[ReportedHost]) -> tuple[list[Numbered], list[Numbered]]:
    """Return the hosts with their numbers, the gravest first; of many, those that are fit by themselves."""
    ordered = sorted(enumerate(hosts), key=lambda numbered: GRAVEST_FIRST.index(numbered[1]["verdict"]))
    if len(hosts) < LARGE:
        return ordered, []
    fit = [numbered for numbered in ordered if numbered[1]["verdict"] not in NOT_FIT]
    return ordered[: len(hosts) - len(fit)], fit


def _numbers(names: list[str], chosen: list[str]) -> str:
    """Return the places of some names in a list, as an attribute of the page has them."""
    return " ".join(str(names.index(name)) for name in chosen)


def _models(host: ReportedHost) -> list[str]:
    """Return the models of the host's GPUs, each once."""
    return list(dict.fromkeys(str(gpu["model"]) for gpu in host["gpus"] if gpu["model"]))


def _gpus(host: ReportedHost) -> str:
    """Return the host's GPUs in a few words: 8 x NVIDIA H100."""
    count = {model: sum(str(gpu["model"]) == model for gpu in host["gpus"]) for model in _models(host)}
    return ", ".join(f"{number} × {model}" for model, number in count.items())  # noqa: RUF001 - for people


def _types(hosts: list[ReportedHost]) -> list[OfType]:
    """Return {types, defaults, hosts} for each combination of types and of what they set."""
    found: dict[str, OfType] = {}
    for host in hosts:
        if host["host_types"]:
            key = repr((host["host_types"], host["defaults"]))
            one = found.setdefault(key, {"types": host["host_types"], "defaults": host["defaults"], "hosts": []})
            one["hosts"].append(host["name"])
    return list(found.values())
