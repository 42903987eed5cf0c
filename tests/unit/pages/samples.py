"""Every page of a fleet of so many nodes, for looks at it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.plugin_utils.preview import document as previews
from ansible_collections.gpulab.node.plugins.plugin_utils.preview.page import page as plan_page
from ansible_collections.gpulab.node.plugins.plugin_utils.report import document as reports
from ansible_collections.gpulab.node.plugins.plugin_utils.report.html import html as report_page
from ansible_collections.gpulab.node.plugins.plugin_utils.report.html import index, summary

from unit.preview import hosts as previewed
from unit.report import runs

if TYPE_CHECKING:
    from collections.abc import Callable


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


PAGES: dict[str, Callable[[int], str]] = {"report": report, "index": reports_of, "plan": plan}
