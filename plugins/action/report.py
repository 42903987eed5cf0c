# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write what the proof found on all hosts of the play, on the controller."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.module_utils.refusal import Refusal, refuse
from ansible_collections.gpulab.node.plugins.plugin_utils.explain import explain
from ansible_collections.gpulab.node.plugins.plugin_utils.proof import facts_of, judge
from ansible_collections.gpulab.node.plugins.plugin_utils.report import document, files

# What the tasks before the judgement register, the latest first.
BEFORE_THE_PROOF = ("gpulab_reading", "__preflight_judgement", "__plan_decision", "__plan_facts")
ARGUMENTS = {"directory": {"type": "path"}, "baseline": {"type": "path"}}


class ActionModule(ActionBase):
    """Collect the hosts' facts and results from hostvars and write the report."""

    BYPASS_HOST_LOOP = True
    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Write the report and return where it is."""
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        _validated, arguments = self.validate_argument_spec(ARGUMENTS)
        now = datetime.now(timezone.utc)
        report = document.build(_hosts(task_vars), f"{now:%Y-%m-%dT%H:%M:%SZ}")
        try:
            earlier = _earlier(arguments["baseline"])
            directory = files.place(arguments["directory"], now)
            files.write(report, earlier, directory)
        except Refusal as refusal:
            return {"failed": True, "msg": str(refusal)}
        return {
            "changed": False,
            "directory": str(directory),
            "verdict": report["verdict"],
            "counts": report["counts"],
            "msg": [*files.terminal(report), f"report: {directory / 'report.html'}"],
        }


def _hosts(task_vars: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what the document is built from, for each host of the play, failed and unreachable ones included."""
    hostvars, hosts = task_vars["hostvars"], {}
    for name in task_vars["ansible_play_hosts_all"]:
        known = hostvars[name]
        facts, verdict = known["ansible_facts"], known.get("gpulab_verify") or {}
        hosts[name] = {
            "facts": facts_of(facts, (verdict.get("declared") or {}).get("level", "quick")),
            "plan": facts.get("gpulab_plan"),
            "verify": {part: verdict[part] for part in ("declared", "failed", "msg") if part in verdict},
            "reading": _ending(_last_words(known), name),
        }
    # What hostvars hand out is tagged and lazy; JSON makes plain data of it.
    plain: dict[str, dict[str, Any]] = json.loads(json.dumps(hosts, default=str))
    for host in plain.values():
        judged = "declared" in host["verify"]
        host["results"] = judge(host["facts"], host["plan"], host["verify"]["declared"]) if judged else []
    return plain


def _last_words(known: Any) -> dict[str, Any]:
    """Return the result that kept a host from being judged; nothing where it is not known."""
    results = [known.get(name) or {} for name in BEFORE_THE_PROOF]
    return next((result for result in results if result.get("failed") or result.get("unreachable")), {})


def _ending(reading: dict[str, Any], host: str) -> dict[str, Any]:
    """Return how the reading ended, its message with cause and remedy where they are known."""
    ending: dict[str, Any] = {part: reading[part] for part in ("unreachable", "failed", "msg") if part in reading}
    if ending.get("unreachable") or ending.get("failed"):
        refusal = explain(reading, host, unreachable=bool(ending.get("unreachable")))
        ending["msg"] = str(refusal) if refusal else ending.get("msg", "")
    return ending


def _earlier(path: str | None) -> dict[str, Any] | None:
    """Return the earlier report to compare with, or None. Raises Refusal V004 for a file that is none."""
    if not path:
        return None
    try:
        earlier: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        schema = earlier["schema"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise refuse("V004", path=path, detail=error) from error
    if schema != document.SCHEMA:
        raise refuse("V004", path=path, detail=f"its schema is {schema}, this gpulab writes {document.SCHEMA}")
    return earlier
