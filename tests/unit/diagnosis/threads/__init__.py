"""Texts of public threads, as a measure of the diagnosis: what stands first when one of them is pasted.

open.yml is for those who write patterns. frozen.yml is the measure: a coin that the thread's address fixes put its
texts there, and nobody looks at what fails in it while writing them. Each text is asked about on a healthy, idle node
without internet, on which no name of the text is known and no server answers.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis import evidence, reach
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.shapes import DiagnosisQuestion
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis import diagnose

from unit.checks import nodes
from unit.diagnosis import cases

HALVES = ("open", "frozen")
RIGHT, NONE, WRONG, ALARM, SILENT = "right", "none", "wrong first", "false alarm", "silent"
_HERE = Path(__file__).parent


def read(half: str) -> list[dict[str, Any]]:
    """Return the texts of a half: {"source": owner/name#number, "first": ids of findings, none if healthy, "text"}."""
    found: list[dict[str, Any]] = yaml.safe_load((_HERE / f"{half}.yml").read_text(encoding="utf-8"))
    return found


def findings(text: str) -> list[Any]:
    """Diagnose a pasted text on a node without internet."""
    facts = nodes.healthy("h100x8")
    names, servers, _ports = evidence.network_of(DiagnosisQuestion(error=text), [])
    problem = "Temporary failure in name resolution"
    found = cases.evidence(
        facts,
        names=[{"name": name, "addresses": [], "problem": problem} for name in names if not _is_address(name)],
        servers=[
            {
                "host": host,
                "port": port,
                "state": reach.SILENT if _is_address(host) else reach.UNKNOWN,
                "certificate": None,
            }
            for host, port in servers
        ],
    )
    return diagnose.findings(cases.case(facts, found, error=text))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def judged(record: dict[str, Any]) -> tuple[str, str]:
    """Return how a text was answered, and by which finding first; what costs nothing is no answer, and no alarm."""
    told = [one.id for one in findings(record["text"]) if one.cost]
    first = told[0] if told else ""
    if not record["first"]:
        return (ALARM if first else SILENT), first
    if not first:
        return NONE, ""
    return (RIGHT if first in record["first"] else WRONG), first
