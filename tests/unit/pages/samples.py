"""Every page of a fleet of so many nodes, for looks at it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis import diagnose
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.page import page as diagnosis_page
from ansible_collections.gpulab.node.plugins.plugin_utils.history import told
from ansible_collections.gpulab.node.plugins.plugin_utils.history.model import ReportedGpu
from ansible_collections.gpulab.node.plugins.plugin_utils.preview import document as previews
from ansible_collections.gpulab.node.plugins.plugin_utils.preview.page import page as plan_page
from ansible_collections.gpulab.node.plugins.plugin_utils.report import document as reports
from ansible_collections.gpulab.node.plugins.plugin_utils.report import nights
from ansible_collections.gpulab.node.plugins.plugin_utils.report.html import html as report_page
from ansible_collections.gpulab.node.plugins.plugin_utils.report.html import index, summary
from ansible_collections.gpulab.node.plugins.plugin_utils.usage import page as usage_pages
from ansible_collections.gpulab.node.plugins.plugin_utils.usage.measured import NodeMeasured
from ansible_collections.gpulab.node.plugins.plugin_utils.usage.model import Source
from ansible_collections.gpulab.node.plugins.plugin_utils.usage.month import month
from ansible_collections.gpulab.node.plugins.plugin_utils.usage.monthly import Lab
from ansible_collections.gpulab.node.plugins.plugin_utils.usage.monthly import usage as usage_of
from ansible_collections.gpulab.node.plugins.plugin_utils.usage.slurm import Job

from unit.checks import nodes
from unit.diagnosis import cases, troubles
from unit.preview import hosts as previewed
from unit.report import runs

if TYPE_CHECKING:
    from collections.abc import Callable

    from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import Diagnosis
    from ansible_collections.gpulab.node.plugins.plugin_utils.history.lines import Line

NOW = datetime(2026, 11, 21, 2, tzinfo=timezone.utc)


def report(number: int) -> str:
    """Return the report of a fleet."""
    return report_page(reports.build(runs.fleet(number), runs.CREATED))


def reports_of(number: int) -> str:
    """Return the index of as many reports."""
    of_fleet = summary(reports.build(runs.fleet(number), runs.CREATED))
    return index(
        [{"place": f"2026-11-{1 + at % 28:02d}T010000Z", "summary": of_fleet} for at in range(min(number, 100))]
    )


def plan(number: int) -> str:
    """Return the plan of a fleet, in which hosts are in every state."""
    kinds = [
        previewed.virgin(),
        previewed.provisioned(),
        previewed.upgradable(),
        previewed.busy(previewed.upgradable()),
        previewed.refused(),
        previewed.unreachable(),
        previewed.provisioned(),
    ]
    hosts = {f"node{at:03d}": kinds[(at - 1) % len(kinds)] for at in range(1, number + 1)}
    return plan_page(previews.build(hosts, previewed.CREATED))


def diagnosis(number: int) -> str:
    """Return the page of the diagnoses of a fleet."""
    return diagnosis_page(diagnosed(number))


def diagnosed(number: int) -> dict[str, Diagnosis]:
    """Return the diagnoses of a fleet: what was found of every kind, and nodes of which nothing was."""
    kinds = [
        {"error": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n" * 3},
        {},
        {"parameters": 7e9},
    ]
    made = ["another user holds the GPU", "a rank was stopped", "a dead file server", "a link of half its width"]
    documents = []
    for at in range(1, min(number, len(kinds) * len(made)) + 1):  # then they come again
        facts = nodes.healthy("h100x8")
        found = cases.at_work(facts)
        if at % 2:
            troubles.TROUBLES[made[at % len(made)]].change(found, facts)
        asked = cases.case(facts, found, **kinds[at % len(kinds)])
        documents.append(diagnose.diagnosis(asked, "", runs.CREATED))
    named = {f"node{at + 1:03d}": documents[at % len(documents)] for at in range(number)}
    return {name: replace(document, host=name) for name, document in named.items()}


def history(number: int) -> str:
    """Return the page of sixty nights of a fleet: hosts that wear out, one that nobody proves, one that is new."""
    hosts = []
    for at in range(1, number + 1):
        lines = [] if at % 50 == 49 else [_night(at, night) for night in range(60) if (at + night) % 19]
        hosts.append(nights.of(told.of(f"node{at:03d}", lines, NOW, 90), lines))
    return nights.page(hosts, f"{NOW:%Y-%m-%dT%H:%M:%SZ}", 90)


def _night(at: int, night: int) -> Line:
    bad = at % 5 == 0 and night > 40
    verdict = ("fail" if at % 10 else "warn") if bad else "ok"
    gpu = dict.fromkeys(ReportedGpu.__annotations__) | {
        "index": 0,
        "uuid": f"GPU-{at}",
        "model": "NVIDIA H100",
        "temperature_celsius": 40 + (at * 7 + night * 3) % 15,
        "ecc_uncorrected": night - 40 if bad else 0,
        "rates": {"bf16_tflops": 700.0 - (night * 3 if at % 10 == 0 else night % 3)},
    }
    finding = {"id": "ecc", "severity": verdict, "summary": "uncorrected memory errors", "gpu": None}
    return {
        "schema": 1,
        "created": f"{NOW - timedelta(days=60 - night):%Y-%m-%dT01:00:00Z}",
        "state": "verified",
        "verdict": verdict,
        "level": "standard",
        "simulated": None,
        "gpus": [gpu],
        "rates": {},
        "checks": {"ecc": verdict},
        "findings": [finding] if bad else [],
    }


def usage(number: int) -> str:
    """Return the page of a month of a fleet; a node of ten counts no energy, another one was not watched."""
    october = month("2026-10", "Europe/Berlin", NOW)
    jobs = [
        Job(str(at), f"person{at:03d}", f"group-{at % 7}", october.start, None, 1, (f"node{at:03d}",))
        for at in range(1, number + 1)
    ]
    nodes = {
        f"node{at:03d}": NodeMeasured(
            hours=745.0,
            gpu_hours=2980.0,
            busy_hours=400.0 + at,
            used={f"person{at:03d}": 400.0 + at},
            kwh={f"person{at:03d}": 250.0, "nobody": 220.0},
            estimated=at % 10 == 2,
        )
        for at in range(1, number + 1)
        if at % 10
    }
    lab = Lab([f"node{at:03d}" for at in range(1, number + 1)], names=True, price_kwh=0.31, currency="EUR")
    sources = [
        Source("Slurm on head", known=True, text=f"{number} jobs held GPUs"),
        Source(
            "Slurm on old-head", known=False, text="no answer (Connection refused); what its jobs held is in no sum"
        ),
    ]
    return usage_pages.page(usage_of(october, lab, jobs, nodes, sources, []))


PAGES: dict[str, Callable[[int], str]] = {
    "report": report,
    "index": reports_of,
    "plan": plan,
    "diagnosis": diagnosis,
    "history": history,
    "usage": usage,
}
