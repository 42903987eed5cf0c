# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proof's document as one HTML file: no network, no script; the filter is CSS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import SEVERITIES, worst
from ansible_collections.gpulab.node.plugins.plugin_utils import host_types
from ansible_collections.gpulab.node.plugins.plugin_utils.report.document import compare, findings
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

SYMBOLS = {"ok": "✓", "skipped": "·", "info": "i", "unknown": "?", "warn": "!", "fail": "✗"}
GRAVEST_FIRST = SEVERITIES[::-1]


def html(document: dict[str, Any], earlier: dict[str, Any] | None = None) -> str:
    """Return the report; with an earlier document it also says what changed since."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(shown=shown, written=host_types.written)
    hosts = document["hosts"]
    found = {host["name"]: findings(host["results"]) for host in hosts}
    verdicts = [host["verdict"] for host in hosts]
    style = environment.get_template("report.css").render(severities=GRAVEST_FIRST)
    return environment.get_template("report.html.j2").render(
        document=document,
        style=Markup(style),  # noqa: S704 - ours, and made of severities only
        symbols=SYMBOLS,
        severities=GRAVEST_FIRST,
        failed=verdicts.count("fail"),
        warned=verdicts.count("warn"),
        fit=len(verdicts) - verdicts.count("fail") - verdicts.count("warn"),
        simulations=_simulations(hosts),
        troubled=sorted(
            (host for host in hosts if found[host["name"]] or host["state"] != "verified"),
            key=lambda host: GRAVEST_FIRST.index(host["verdict"]),
        ),
        findings=found,
        matrix={host["name"]: _row(host) for host in hosts},
        changes=compare(document, earlier) if earlier else None,
    )


def shown(value: Any, unit: str = "") -> str:
    """Return a value for a table's cell: a dash for what is not known, words for yes and no."""
    if value is None:
        return "-"
    return ("no", "yes")[value] if isinstance(value, bool) else f"{value}{unit}"


def _simulations(hosts: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return what the simulator says of itself, and on which hosts."""
    found: dict[str, list[str]] = {}
    for host in hosts:
        if host["simulated"]:
            found.setdefault(str(host["simulated"]), []).append(host["name"])
    return found


def _row(host: dict[str, Any]) -> dict[str, str]:
    """Return the worst severity of each check on this host."""
    row: dict[str, str] = {}
    for result in host["results"]:
        row[result["id"]] = worst((row.get(result["id"], result["severity"]), result["severity"]))
    return row
