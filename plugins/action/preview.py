# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show on the controller what site.yml would change on all hosts of the play."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.core.hosts_action import HostsAction
from ansible_collections.gpulab.node.plugins.plugin_utils.pages.page import place
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import by_subject
from ansible_collections.gpulab.node.plugins.plugin_utils.preview import document, text
from ansible_collections.gpulab.node.plugins.plugin_utils.preview.gathered import GATHERED
from ansible_collections.gpulab.node.plugins.plugin_utils.preview.page import page
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.preview.model import HostBefore, Preview


class ActionModule(HostsAction):
    """Collect the hosts' facts and plans from hostvars, and what the callback gpulab.node.preview has kept."""

    spec: ClassVar[dict[str, Any]] = {"path": {"type": "path"}, "page": {"type": "path"}}

    def for_hosts(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Return the preview, and write it where path says."""
        try:
            hosts = _hosts(variables)
            preview = document.build(hosts, f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}")
            if arguments["path"]:
                _write(Path(arguments["path"]), preview)
        except Refusal as refusal:
            return {"failed": True, "msg": str(refusal), "refusal": asdict(refusal)}
        why = {name: by_subject(host["plan"]) for name, host in hosts.items() if host["plan"]}
        whole = variables.get("ansible_verbosity", 0) > 0
        lines = text.lines(preview, why, whole=whole)
        if arguments["page"]:
            lines.append(place(arguments["page"], page(preview)))
        return {"changed": False, "preview": preview, "lines": lines}


def _hosts(task_vars: dict[str, Any]) -> dict[str, HostBefore]:
    """Return what the document is built from, for each host of the play, failed and unreachable ones included.

    Raises Refusal P097 where no callback has kept what the tasks would change.
    """
    if not GATHERED.is_open:
        raise refuse("P097")
    hostvars, hosts = task_vars["hostvars"], {}
    for name in task_vars["ansible_play_hosts_all"]:
        known = hostvars[name]
        hosts[name] = {
            "groups": known["group_names"],
            "facts": known["ansible_facts"].get("gpulab"),
            "plan": known["ansible_facts"].get("gpulab_plan"),
            "results": GATHERED.of(name),
            "failure": known.get("__plan_failure"),
            "unreachable": known.get("__plan_facts", {}).get("unreachable", False),
            "ended": name not in task_vars["ansible_play_hosts"],
            "expected": known.get("__plan_decision", {}).get("expected", {}),
            "policy": known.get("reboot_policy"),
            "force": known.get("reboot_force"),
        }
    # What hostvars hand out is tagged and lazy; JSON makes plain data of it.
    plain: dict[str, HostBefore] = json.loads(json.dumps(hosts, default=str))
    return plain


def _write(path: Path, preview: Preview) -> None:
    """Write the preview as JSON. Raises Refusal P037."""
    try:
        path.write_text(json.dumps(preview, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    except OSError as error:
        raise refuse("P037", path=path, detail=error.strerror) from error
