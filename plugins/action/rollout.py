# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.rollout: the order of a rollout, whose turn it is, and what became of each node, on the controller."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import first
from ansible_collections.gpulab.node.plugins.module_utils.facts.users import in_use
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.core.this_run import this_run
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse
from ansible_collections.gpulab.node.plugins.plugin_utils.rollout import order, report, state

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Plan

ARGUMENTS = {
    "work": {"type": "str", "choices": ["order", "turn", "note", "fail", "report"], "required": True},
    "directory": {"type": "path", "default": "rollouts"},
    "file": {"type": "path"},
    "canary": {"type": "list", "elements": "str", "default": []},
    "batch": {"type": "str", "default": "25%"},
    "out_at_once": {"type": "str", "default": "25%"},
    "freeze": {"type": "list", "elements": "dict", "default": []},
    "freeze_file": {"type": "path"},
    "minutes": {"type": "float", "default": 0},
    "state": {"type": "str", "choices": [state.CHANGING, state.PROVING, state.DONE]},
    "result": {"type": "dict"},
}
_CODE = re.compile(r"GPULAB-([A-Z]\d{3}) (.*?) Remedy: (.*)")
# As the module verify ends; some are of one GPU
_FINDING = re.compile(r"^(?:warn|fail) ([\w-]+(?: \[GPU [^\]]+\])?: .*?)\. \w+: ", re.MULTILINE)
USUAL = 3600  # seconds that a change takes, where nobody knows


class ActionModule(ActionBase):
    """Do one work; order and report are once for all hosts of the play."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what the work answers, or the refusal."""
        super().run(tmp, task_vars)
        variables = task_vars or {}
        _validated, args = self.validate_argument_spec(ARGUMENTS)
        works = {
            "order": self._order,
            "turn": self._turn,
            "note": self._note,
            "fail": self._fail,
            "report": self._report,
        }
        try:
            return {"changed": False, **works[args["work"]](args, variables)}
        except Refusal as refusal:
            return failure([refusal])

    def _order(self, args: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        directory, mine = Path(args["directory"]), this_run(os.getppid())
        _refuse_freeze(args)
        run = f"{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}-{mine['machine']}"  # two controllers may begin at once
        rollout = state.unfinished(directory) or state.Rollout(run, mine)
        known = {name: variables["hostvars"][name] for name in variables["ansible_play_hosts_all"]}
        found = [_candidate(name, known[name], rollout.run) for name in known]
        done = {name for name, entry in rollout.hosts.items() if entry.state == state.DONE}
        proven = [one.kind for one in found if not one.waits and one.name in done]
        decided = order.order(found, args["canary"], proven, batch=args["batch"], out_at_once=args["out_at_once"])
        rollout.holder, rollout.stopped, rollout.proven = mine, None, proven
        rollout.canaries = list(decided.canaries)
        for one in found:
            _take_in(rollout.hosts.setdefault(one.name, state.Host(one.kind, list(one.due))), one)
        places = {name: place for place, name in enumerate(decided.names)}
        for name, entry in rollout.hosts.items():
            entry.place = places.get(name)
        file = directory / rollout.run / state.FILE
        if not self._task.check_mode:
            state.write(file, rollout)
        names = list(decided.names)
        last = state.last_seconds(directory, names)
        users = {name: _users(known[name]) for name in names}
        back = datetime.now(timezone.utc) + timedelta(minutes=args["minutes"], seconds=max([USUAL, *last.values()]))
        return {
            "run": rollout.run,
            "file": str(file),
            "order": names,
            "sizes": list(decided.sizes),
            "until": f"{back:%Y-%m-%dT%H:%M:%SZ}" if args["minutes"] else None,
            "lines": report.before(rollout, list(decided.sizes), users, last),
        }

    def _turn(self, args: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        name, batch = variables["inventory_hostname"], list(variables["ansible_play_batch"])
        path = Path(args["file"])
        with state.changing(path, name) as (rollout, entry):
            why = state.obstacle(rollout, name, state.unsettled(path, batch))
            if why is None:
                try:
                    _refuse_freeze(args)
                except Refusal as refusal:
                    why = state.refused(refusal)
            if why:
                rollout.stopped = why
            else:
                state.enter(entry, state.DRAINING)
                entry.before = _seen(variables)
        return {"go": why is None, "batch": batch, "why": asdict(why) if why else None}

    def _note(self, args: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        with state.changing(Path(args["file"]), variables["inventory_hostname"]) as (rollout, entry):
            state.enter(entry, args["state"])
            entry.after = _seen(variables)
            if args["state"] == state.DONE:
                entry.again, entry.begun, entry.refusal = False, False, None
                rollout.proven = sorted({*rollout.proven, entry.kind})
        return {}

    def _fail(self, args: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Note how a node left the rollout; one on which nothing had begun is as it was.

        One that stopped for its console is in service, too: its driver is as before.
        """
        refusal = _explained(args["result"] or {})
        with state.changing(Path(args["file"]), variables["inventory_hostname"]) as (_rollout, entry):
            begun = entry.state != state.DRAINING or entry.begun
            ended = state.BUSY if refusal.code == "F006" else state.REFUSED
            state.enter(entry, state.CONSOLE if refusal.code == "P047" else state.FAILED if begun else ended)
            entry.refusal, entry.after = refusal, _seen(variables)
        return {"state": entry.state, "cause": refusal.cause}

    def _report(self, args: dict[str, Any], _variables: dict[str, Any]) -> dict[str, Any]:
        path = Path(args["file"])
        rollout = state.read(path)
        lines = report.after(rollout)
        text = path.with_name("report.txt")
        text.write_text("\n".join([*lines, ""]), encoding="utf-8")
        hosts = rollout.hosts
        refusals = {name: one.refusal for name, one in hosts.items() if one.refusal and one.state in state.OPEN}
        waiting = [name for name in rollout.order if hosts[name].state == state.WAITING]
        if rollout.stopped and waiting:
            refusals[waiting[0]] = rollout.stopped
        told = {name: asdict(refusal) for name, refusal in refusals.items()}
        return {"lines": [*lines, f"report: {text}, {path}"], "refusals": told}


def _take_in(entry: state.Host, node: order.Candidate) -> None:
    """Let a node of the rollout be as it was just read."""
    entry.kind, entry.due = node.kind, list(node.due)
    state.come_again(entry, fenced=node.fenced)
    if node.refusal is not None:
        if entry.state not in (*state.ON_THE_WAY, state.FAILED):  # those are still fenced
            state.enter(entry, state.REFUSED)
        entry.refusal = node.refusal
    elif node.waits or entry.state != state.DONE:
        state.enter(entry, state.WAITING if node.waits else state.CURRENT)
        entry.refusal = None


def _refuse_freeze(args: dict[str, Any]) -> None:
    """Raise Refusal F001 where no change may begin now."""
    why = order.frozen(args["freeze"], datetime.now())  # noqa: DTZ005 - the controller's own time
    file = Path(args["freeze_file"]) if args["freeze_file"] else None
    if not why and file and file.exists():
        words = " ".join(file.read_text(encoding="utf-8", errors="replace").split())
        why = f"the file {file} is there" + (f" ({words[:200]})" if words else "")
    if why:
        raise refuse("F001", why=why)


def _candidate(name: str, known: Any, run: str) -> order.Candidate:
    """Return a node from what the tasks before have read of it, and by what they refused it."""
    facts = (known.get("ansible_facts") or {}).get("gpulab")
    failed = known.get("__rollout_refused")
    if failed or not facts:
        return order.Candidate(name, refusal=_explained(failed or {}))
    fence = facts.get("fence")
    kind = ", ".join(sorted({gpu["device"] for gpu in facts["pci"]["gpus"]})) or "no GPU"
    plan: Plan = known["ansible_facts"]["gpulab_plan"]
    due = tuple(plan["due"])
    kind = f"{kind}, {facts['system']['id']} {facts['system']['version']}"
    if fence and fence["run"] != run:
        return order.Candidate(name, kind, due, refusal=state.refused(refuse("F007", host=name, **fence)))
    return order.Candidate(name, kind, due, fenced=bool(fence))


def _explained(result: dict[str, Any]) -> state.Refused:
    """Return why a task failed in the form of a refusal; of a proof, its findings are the cause."""
    refusal = result.get("refusal")
    if refusal:
        return state.Refused(*(str(refusal[name]) for name in ("code", "cause", "remedy")))
    text = str(result.get("msg") or "")
    code, findings = _CODE.match(text), _FINDING.findall(text)
    line = next((line.strip() for line in text.splitlines() if line.strip()), "its task failed")
    cause = f"the proof failed: {first(findings, 3, '; ')}" if findings else code[2] if code else line
    remedy = code[3] if code else "Read what the run says of it, and mend the node."
    return state.Refused(code[1] if code else "", cause, remedy)


def _users(known: Any) -> str:
    facts = (known.get("ansible_facts") or {}).get("gpulab")
    return in_use(json.loads(json.dumps(facts["users_of_gpus"], default=str))) if facts else ""


def _seen(variables: dict[str, Any]) -> dict[str, str]:
    """Return what a report compares of a node."""
    facts = variables["ansible_facts"].get("gpulab") or {}
    if not facts:
        return {}
    return {"driver": str(facts["driver"]["library"]), "kernel": str(facts["system"]["kernel"])}
