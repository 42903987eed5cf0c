# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.diagnose: gather evidence on the node, and draw conclusions from it and the facts on the controller."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts
from ansible_collections.gpulab.node.plugins.module_utils.core.records import typed
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.arguments import ARGUMENTS
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.shapes import Evidence, Noted
from ansible_collections.gpulab.node.plugins.module_utils.watch.noted import MOST
from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import load
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.core.host_file import file_name
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis import diagnose
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.estimate import parameters
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import Asked, Case
from ansible_collections.gpulab.node.plugins.plugin_utils.proof import facts_of
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

ON_NODE = ("pid", "user", "error", "environment", "address", "dumps", "seconds", "timeout")
_ADDRESS = re.compile(r"[^\s:/]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}")


class ActionModule(ActionBase):
    """Run the module, then the rules."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the diagnosis, for programs and for people, or the refusal."""
        super().run(tmp, task_vars)
        variables = task_vars or {}
        _validated, arguments = self.validate_argument_spec(ARGUMENTS)
        host = variables["inventory_hostname"]
        try:
            count = _checked(arguments)
            facts = facts_of(variables["ansible_facts"], "standard")
            if not facts:
                raise refuse("V002", host=host)
            result = self._execute_module(
                module_name="gpulab.node.diagnose",
                module_args={name: arguments[name] for name in ON_NODE},
                task_vars=variables,
            )
            if "evidence" not in result:
                return {"failed": True, **result}
            evidence = typed(json.loads(json.dumps(result["evidence"])), Evidence)  # without Ansible's tags
            evidence = replace(evidence, noted=_noted(arguments["noted"]))
            asked = Asked(arguments["symptom"], arguments["pid"], arguments["user"], arguments["error"])
            if asked.pid and asked.pid not in {record.pid for record in evidence.processes}:
                raise refuse("G001", host=host, pid=asked.pid)
            case = Case(
                Facts(json.loads(json.dumps(facts))),
                evidence,
                asked,
                load(),
                count,
                arguments["dtype"],
                arguments["optimizer"],
            )
            document = diagnose.diagnosis(case, host, f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}")
            if arguments["documents"]:
                _write(Path(arguments["documents"]) / f"{file_name(host)}.json", asdict(document))
        except Refusal as refusal:
            return failure([refusal])
        return {"changed": False, "diagnosis": asdict(document), "lines": diagnose.lines(document)}


def _checked(arguments: dict[str, Any]) -> float | None:
    """Return the number of parameters. Raises Refusal G002 for a text that is none, or no address."""
    if arguments["address"] and not _ADDRESS.fullmatch(arguments["address"]):
        raise refuse("G002", option="diagnose_address", value=arguments["address"], wanted="HOST:PORT")
    try:
        return parameters(arguments["parameters"]) if arguments["parameters"] else None
    except ValueError as error:
        wanted = "a number of parameters, such as 7B"
        raise refuse("G002", option="diagnose_parameters", value=arguments["parameters"], wanted=wanted) from error


def _noted(given: list[Any]) -> list[Noted]:
    """Return what Slurm's controller says of the node; nothing where that has another form."""
    try:
        return typed(json.loads(json.dumps(given[:MOST])), list[Noted])
    except ValueError:
        return []


def _write(path: Path, document: Any) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="ascii")
    except OSError as error:
        raise refuse("G003", path=path, detail=error.strerror) from error
