# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the document of a run is built from, out of the hosts' variables; and the run's files, written."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import plain_values
from ansible_collections.gpulab.node.plugins.plugin_utils.history import files as past
from ansible_collections.gpulab.node.plugins.plugin_utils.history.lines import line, since
from ansible_collections.gpulab.node.plugins.plugin_utils.history.memory import Memory, Settings
from ansible_collections.gpulab.node.plugins.plugin_utils.pages.page import REPORTS
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.explain import explain
from ansible_collections.gpulab.node.plugins.plugin_utils.proof import facts_of, judge
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse
from ansible_collections.gpulab.node.plugins.plugin_utils.report import document, files, written
from ansible_collections.gpulab.node.plugins.plugin_utils.report.formats import terminal
from ansible_collections.gpulab.node.plugins.plugin_utils.report.noted import NOBODY_LOOKED, noted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ansible_collections.gpulab.node.plugins.plugin_utils.history.lines import Line
    from ansible_collections.gpulab.node.plugins.plugin_utils.report.model import GatheredHost, Report, TaskEnding

# What the tasks before the judgement register, the latest first.
BEFORE_THE_PROOF = (
    "__verify_rdma_started",
    "__verify_started",
    "__verify_read_again",
    "__verify_tested",
    "__verify_software",
    "gpulab_reading",
    "__preflight_judgement",
    "__plan_decision",
    "__plan_facts",
    "__provision_looked",
)


def publish(
    hosts: dict[str, GatheredHost], settings: Mapping[str, Any], *, record: bool = True
) -> tuple[Report, list[str], Path]:
    """Write the report of these hosts; return its document, what to tell on a terminal, and its directory.

    settings has the options of gpulab.node.report, None where one is unset and has no default. With record
    the proof becomes part of the history. Raises Refusal V003 where something cannot be written, V004 where baseline is
    no report.
    """
    now = datetime.now(timezone.utc)
    run = noted()
    report = document.build(hosts, f"{now:%Y-%m-%dT%H:%M:%SZ}", run.seconds() if run else None)
    before, directory = _earlier(settings["baseline"]), settings["directory"]
    kept_in = settings["history"] or (None if directory else REPORTS / "history")
    memory = Memory(Path(kept_in) if kept_in else None, Settings.of(settings))
    report = document.with_history(report, lambda name: past.read(Path(kept_in), name) if kept_in else [], memory)
    if before is not None:
        report["changes"] = since({host["name"]: line(report, host) for host in report["hosts"]}, before)
    place = files.place(directory, now)
    files.write(report, place)
    if kept_in and record:
        past.append(Path(kept_in), {host["name"]: line(report, host) for host in report["hosts"]})
        memory.write()
    if not directory:
        files.tidy(settings["kept"])
    return report, [*terminal(report), f"report: {place / 'report.html'}"], place


def gather(
    names: Iterable[str], hostvars: Mapping[str, Any], ends: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, GatheredHost]:
    """Return what the document is built from, for each host, failed and unreachable ones included.

    ends are the results by which hosts left the run, where they are known; else what the tasks before the proof
    registered tells.
    """
    hosts, run = {}, noted()
    for name in names:
        known = hostvars[name]
        facts, verdict = known.get("ansible_facts") or {}, known.get("gpulab_verify") or {}
        hosts[name] = {
            "groups": known.get("group_names") or [],
            "facts": facts_of(facts, (verdict.get("declared") or {}).get("level", "quick")),
            "plan": facts.get("gpulab_plan"),
            "verify": {part: verdict[part] for part in ("declared", "failed", "msg") if part in verdict},
            "reading": _ending(last_words(known) or (ends or {}).get(name) or {}, name),
            "run": run.of(name) if run else NOBODY_LOOKED,
        }
    # What hostvars hand out is tagged and lazy; JSON makes plain data of it. What modules of a node said is shown here.
    plain: dict[str, GatheredHost] = plain_values(json.loads(json.dumps(hosts, default=str)))
    for host in plain.values():
        facts, verify = host["facts"] or {}, host["verify"]
        found = judge(facts, host["plan"], verify["declared"]) if "declared" in verify else ([], [])
        host["results"], host["not_for_this_machine"] = found
    return plain


def known_facts(hostvars: Mapping[str, Any], names: Iterable[str], facts: Iterable[str]) -> dict[str, Any]:
    """Return these of each host's ansible_facts as plain data; none of a host that this run could not reach.

    A node that could not be read or tested in this run may have facts of an earlier one.
    """
    known = {name: hostvars[name]["ansible_facts"] for name in names}
    found = {
        name: {key: own[key] for key in facts if key in own}
        if not last_words(hostvars[name]).get("unreachable")
        else {}
        for name, own in known.items()
    }
    plain: dict[str, Any] = json.loads(json.dumps(found))  # what hostvars hand out is tagged and lazy
    return plain


def last_words(known: Any) -> dict[str, Any]:
    """Return the result that keeps a host from being judged; nothing where there is none.

    A host that went away during the tests has its first facts still, which tell nothing of how it ended.
    """
    results = [known.get(name) or {} for name in BEFORE_THE_PROOF]
    return next((result for result in results if result.get("failed") or result.get("unreachable")), {})


def _ending(reading: Mapping[str, Any], host: str) -> TaskEnding:
    """Return how the reading ended, its message with cause and remedy where they are known."""
    parts: Any = {part: reading[part] for part in ("unreachable", "failed", "msg") if part in reading}
    ending: TaskEnding = parts
    if ending.get("unreachable") or ending.get("failed"):
        refusal = explain(reading, host, unreachable=bool(ending.get("unreachable")))
        ending["msg"] = str(refusal) if refusal else ending.get("msg", "")
    return ending


def _earlier(path: str | None) -> dict[str, list[Line]] | None:
    """Return the hosts of the earlier report to compare with, or None. Raises Refusal V004 for a file that is none."""
    if not path:
        return None
    try:
        earlier = json.loads(Path(path).read_text(encoding="utf-8"))
        schema = earlier["schema"]
        if schema in written.SCHEMAS:
            return {name: [found] for name, found in written.lines(earlier).items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise refuse("V004", path=path, detail=error) from error
    raise refuse("V004", path=path, detail=f"its schema is {schema}, but this gpulab writes {document.SCHEMA}")
