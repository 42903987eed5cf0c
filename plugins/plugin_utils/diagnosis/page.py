# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The diagnoses of a run as a page for the person who asked: what was found first, how sure, what to do, why."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import for_people_all
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis import over_nodes
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import (
    HARMLESS,
    STOPS,
    FindingRecord,
    as_record,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.pages.alike import alike
from ansible_collections.gpulab.node.plugins.plugin_utils.pages.page import GRAVEST_FIRST, LARGE, render

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import Asked, Diagnosis

OF_A_TEXT = "error-"  # the findings that a pasted text alone brings


class Cause(TypedDict):
    """A finding as the page shows it; sure says how sure it is, in a few words and in a sentence."""

    finding: FindingRecord
    severity: str
    sure: tuple[str, str]
    sources: list[str]


class Group(TypedDict):
    """Hosts of which the same was found, by their places; record is the diagnosis of one of them."""

    severity: str
    numbers: list[int]
    causes: list[Cause]
    record: dict[str, Any]


def page(documents: Mapping[str, Diagnosis]) -> str:
    """Return the page; the hosts of which the same was found stand together."""
    hosts = list(documents)
    together = [_cause(as_record(finding)) for finding in over_nodes.findings(documents)]
    groups = [_group([hosts.index(name) for name in names], record) for names, record in alike(_records(documents))]
    groups.sort(key=lambda group: GRAVEST_FIRST.index(group["severity"]))
    first = {number: group for group in groups for number in group["numbers"]}
    return render(
        "diagnosis/diagnosis.html.j2",
        large=len(hosts) >= LARGE,
        hosts=for_people_all(hosts),
        created=max(document.created for document in documents.values()),
        asked=_asked(next(iter(documents.values())).asked),
        simulated_hosts=for_people_all([name for name, document in documents.items() if document.simulated]),
        together=together,
        groups=groups,
        group_of=first,
    )


def _records(documents: Mapping[str, Diagnosis]) -> dict[str, Any]:
    """Return the diagnoses as data, without what is not found but given."""
    return {
        name: {part: value for part, value in asdict(document).items() if part not in ("host", "created")}
        for name, document in documents.items()
    }


def _group(numbers: list[int], record: dict[str, Any]) -> Group:
    causes = [_cause(FindingRecord(**finding)) for finding in record["findings"]]
    return {
        "severity": causes[0]["severity"] if causes else "ok",
        "numbers": numbers,
        "causes": causes,
        "record": record,
    }


def _cause(finding: FindingRecord) -> Cause:
    shown = for_people_all(asdict(finding))
    severity, *sure = _sure(finding)
    return {"finding": shown, "severity": severity, "sure": (sure[0], sure[1]), "sources": shown["source"].split(", ")}


def _sure(finding: FindingRecord) -> tuple[str, str, str]:
    """Return the severity of a finding, and how sure it is, in a few words and in a sentence."""
    if finding.cost == HARMLESS:
        return "ok", "harmless", "This message is known, and stops nothing."
    if finding.id.startswith(OF_A_TEXT):
        return (
            "info",
            "usual cause",
            "This is what the message usually means; nothing on the node was seen that proves it.",
        )
    if finding.cost == STOPS:
        return "fail", "seen", "It was seen on the node, and nothing runs until it is cured."
    if finding.cost is not None:
        return "warn", "measured", f"It was measured on the node: {finding.cost:.0%} of the work does not come about."
    return "warn", "seen", "It was seen on the node; what it costs was not measured."


def _asked(asked: Asked) -> list[str]:
    """Say what was asked; of a pasted text only how long it is, which may say more than its reader shall know."""
    said = [f"symptom {asked.symptom}"] if asked.symptom != "all" else ["everything that can be seen"]
    said += [f"process {asked.pid}"] if asked.pid else []
    said += [f"user {asked.user}"] if asked.user else []
    said += [f"a pasted text of {len(asked.error.splitlines())} lines"] if asked.error else []
    return said
