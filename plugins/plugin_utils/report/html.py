# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proof's document as one HTML file that needs no network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import SEVERITIES, worst
from ansible_collections.gpulab.node.plugins.plugin_utils.report.document import compare, findings
from jinja2 import Environment, FileSystemLoader, StrictUndefined

SYMBOLS = {"ok": "✓", "skipped": "·", "info": "i", "unknown": "?", "warn": "!", "fail": "✗"}


def html(document: dict[str, Any], earlier: dict[str, Any] | None = None) -> str:
    """Return the report; with an earlier document it also says what changed since."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2").render(
        document=document,
        symbols=SYMBOLS,
        severities=SEVERITIES[::-1],
        matrix={host["name"]: _row(host) for host in document["hosts"]},
        findings={host["name"]: findings(host["results"]) for host in document["hosts"]},
        changes=compare(document, earlier) if earlier else None,
    )


def _row(host: dict[str, Any]) -> dict[str, str]:
    """Return the worst severity of each check on this host."""
    row: dict[str, str] = {}
    for result in host["results"]:
        row[result["id"]] = worst((row.get(result["id"], "ok"), result["severity"]))
    return row
