# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.acceptance: begin an acceptance or go on with one, say which nodes to measure next, and certify."""

from __future__ import annotations

import calendar
import json
import math
import os
import time
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ansible_collections.gpulab.node.plugins.module_utils.core import files, signatures
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import first, for_people
from ansible_collections.gpulab.node.plugins.module_utils.facts.fence import TIME
from ansible_collections.gpulab.node.plugins.module_utils.slurm.reservations import of_run
from ansible_collections.gpulab.node.plugins.plugin_utils.acceptance import certificate, floors, node, page, state
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.core.gpulab_version import version
from ansible_collections.gpulab.node.plugins.plugin_utils.core.hosts_action import HostsAction
from ansible_collections.gpulab.node.plugins.plugin_utils.core.this_run import this_run
from ansible_collections.gpulab.node.plugins.plugin_utils.pages.page import place
from ansible_collections.gpulab.node.plugins.plugin_utils.peers.across_nodes import arrange
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse
from ansible_collections.gpulab.node.plugins.plugin_utils.report.hosts import last_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FACTS = ("gpulab", "gpulab_environments", "gpulab_measurements")
READABLE_BY_OTHERS = 0o077
MEETING = 90.0  # seconds that nodes wait for each other, and end in
A_DAY = 86400
MOST = 300  # signs of what a node says of a measurement
RATES = ("all_reduce_gbs", "lowest_gbs", "highest_gbs")
UNREACHABLE = "it could not be reached"


class ActionModule(HostsAction):
    """Do one work for all hosts of the play, from what the tasks before have registered of each."""

    spec: ClassVar[dict[str, Any]] = {
        "work": {"type": "str", "choices": ["begin", "test", "next", "note", "end", "verify"], "required": True},
        "directory": {"type": "path", "default": "acceptances"},
        "file": {"type": "path"},
        "reason": {"type": "str", "choices": ["new", "repair", "yearly"], "default": "new"},
        "floors": {"type": "list", "elements": "dict", "default": []},
        "key": {"type": "path", "default": "keys/acceptance/signing"},
        "signers": {"type": "path"},
        "fenced": {"type": "bool", "default": False},
        "until": {"type": "str"},
        "wait_minutes": {"type": "float", "default": 0},
        "proof": {"type": "bool", "default": True},
        "left_out": {"type": "list", "elements": "str", "default": []},
        "allow_untested": {"type": "list", "elements": "str", "default": []},
        "minutes_each": {"type": "float", "default": 3},
        "minutes_most": {"type": "float", "default": 0},
        "certificate": {"type": "path"},
        "group": {"type": "list", "elements": "str", "default": []},
        "step": {"type": "str", "default": ""},
        "began": {"type": "float", "default": 0},
    }

    def for_hosts(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Return what the work answers, or the refusal."""
        works = {
            "begin": self._begin,
            "test": _test,
            "next": _next,
            "note": _note,
            "end": _end,
            "verify": _verify,
        }
        try:
            return {"changed": False, **works[arguments["work"]](arguments, variables)}
        except Refusal as refusal:
            return failure([refusal])

    def _begin(self, args: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Refuse what keeps these nodes from being measured, then begin, or go on with what was cut off."""
        directory, key = Path(args["directory"]), Path(args["key"])
        _refuse_open(key)
        hosts = {name: variables["hostvars"][name] for name in variables["ansible_play_hosts_all"]}
        facts = {name: found for name, known in hosts.items() if (found := _facts(known))}
        users = {name: (hosts[name].get("__acceptance_users") or {}) for name in facts}
        used = {name: str(found["users"]) for name, found in users.items() if found.get("users")}
        for name, who in () if args["fenced"] else used.items():
            raise refuse("F140", host=name, who=who)
        node.refuse_mixed({name: node.boards(of) for name, of in node.telling(facts).items()})
        nodes = {name: _node(known, facts.get(name)) for name, known in hosts.items()}
        for name, found in users.items():
            if found.get("failed"):
                nodes[name].untested = _short(found.get("msg") or "nobody knows who uses it")
        before = state.unfinished(directory, {*hosts})
        until = _until(args) if args["fenced"] else ""
        for name, found in users.items() if until else ():
            _refuse_reserved(name, found.get("reservations") or (), until, before.run if before else "")
        if before:
            _refuse_changes(before, nodes, directory)
            before.holder = this_run(os.getppid())
            acceptance = before
        else:
            for name, why in node.different({name: nodes[name].versions for name in facts}).items():
                nodes[name].failed = why
            acceptance = _new(args, nodes, facts)
        acceptance.until = until
        file = directory / acceptance.run / state.FILE
        if not self._task.check_mode:
            state.write(file, acceptance)
        went = f", {len(acceptance.results)} groups were measured before" if before else ""
        told = [f"acceptance {acceptance.run}: {len(acceptance.candidates)} of {len(nodes)} nodes{went}"]
        told += [f"  {name}: {why}" for name, one in nodes.items() if (why := one.failed or one.untested)]
        told += [f"  out of service until {until} at the latest"] if until else []
        told += [f"  {name}: waits for {for_people(who)}" for name, who in used.items()]
        wait = max(0, math.ceil(acceptance.pending - time.time()))
        fenced = {"until": until, "wait_minutes": _wait_minutes(args, until)} if until else {}
        go = not self._task.check_mode
        return {"file": str(file), "run": acceptance.run, "wait": wait, "go": go, "lines": told, **fenced}


def _until(args: dict[str, Any]) -> str:
    """Return when fenced nodes are back in service at the latest (UTC). Raises Refusal F004."""
    if not args["until"]:
        return time.strftime(TIME, time.gmtime(time.time() + A_DAY))
    if args["until"] <= _now():
        raise refuse("F004", option="acceptance_until", value=args["until"], detail="it is over")
    return str(args["until"])


def _wait_minutes(args: dict[str, Any], until: str) -> float:
    """Return how long users are waited for: not for longer than until the nodes are back in service."""
    left = (calendar.timegm(time.strptime(until, TIME)) - time.time()) / 60
    wanted: float = args["wait_minutes"]
    return max(min(wanted or left, left), 0.1)


def _refuse_reserved(name: str, reservations: Iterable[Mapping[str, Any]], until: str, run: str) -> None:
    """Raise Refusal F016 where Slurm has the node reserved for others before it is to be back; run is this one's."""
    for one in reservations:
        if str(one["start"]) < until and not (run and str(one["name"]).startswith(of_run(run))):
            detail = f"the reservation {_short(one['name'])} begins at {_short(one['start'])}"
            raise refuse("F016", host=name, until=until, detail=detail)


def _new(args: dict[str, Any], nodes: dict[str, state.Node], facts: dict[str, Any]) -> state.Acceptance:
    """Return an acceptance that begins. Raises Refusal F142, F145."""
    mine = this_run(os.getppid())
    some = next(iter(node.telling(facts).values()), None)
    boards, backend = (node.boards(some), _backend(facts)) if some else ("", floors.GLOO)
    count = sum(not one.failed and not one.untested for one in nodes.values())
    kind = floors.Kind(boards, backend, count, some["infiniband"] if some else ())
    found = certificate.last(Path(args["directory"]), boards, {*nodes}, _signers(args))
    return state.Acceptance(
        run=f"{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}-{mine['machine']}",
        holder=mine,
        began=_now(),
        reason=args["reason"],
        share=floors.SHARES[backend],
        floor=floors.floor(args["floors"], kind, found[0] if found else None),
        nodes=nodes,
        left_out=args["left_out"],
        allowed=args["allow_untested"],
    )


def _refuse_changes(before: state.Acceptance, nodes: dict[str, state.Node], directory: Path) -> None:
    """Raise Refusal F144 where a node is another one than when the acceptance began."""
    for name, one in nodes.items():
        was = before.nodes[name]
        if one.untested or was.untested:
            continue
        changes = node.changed(was.versions, one.versions)
        changes += [] if was.serials == one.serials else ["serials of its GPUs"]
        if changes:
            raise refuse("F144", host=name, run=before.run, detail="; ".join(changes), directory=directory / before.run)


def _test(args: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
    """Note which nodes failed their own tests, and which cannot be measured, and why."""
    hosts = {name: variables["hostvars"][name] for name in variables["ansible_play_hosts_all"]}
    with state.changing(Path(args["file"])) as acceptance:
        for name, known in hosts.items():
            one, kept = acceptance.nodes[name], known.get("__acceptance_kept") or {}
            findings = [found for found in kept.get("findings") or () if found["severity"] == "fail"]
            if kept and not kept.get("findings"):
                one.untested = _short(kept.get("msg") or "its proof came to no end")
            elif kept and args["proof"]:
                said = [f"{found['id']}: {found['summary']}" for found in findings or kept["findings"]]
                one.failed = _short(f"its proof failed: {first(said, 2, '; ')}")
        wanted = acceptance.candidates
        meeting = arrange(json.loads(json.dumps({name: _measured_facts(hosts[name]) for name in wanted})))
        for name, why in meeting.reasons.items():
            acceptance.nodes[name].untested = why
        return {"lines": [f"{name}: {one.failed or one.untested}" for name, one in acceptance.nodes.items()]}


def _next(args: dict[str, Any], _variables: dict[str, Any]) -> dict[str, Any]:
    """Return the next group and when it begins; none at the end."""
    with state.changing(Path(args["file"])) as acceptance:
        each = MEETING + args["minutes_each"] * 60
        wanted, _verdicts = state.standing(acceptance, args["minutes_most"] * 60, each)
        number = len(acceptance.results) + 1
        if wanted is None:
            return {"group": [], "step": "", "began": 0, "run": ""}
        acceptance.pending = time.time() + each
        run = f"gpulab-acceptance-{acceptance.run}-{number}"
        return {"group": list(wanted.nodes), "step": wanted.step, "began": time.time(), "run": run}


def _note(args: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
    """Note what the nodes of a group measured."""
    records = {name: _record(variables["hostvars"][name]) for name in args["group"]}
    rates, why = _rates(records)
    some = next((record for record in records.values() if record), {})
    with state.changing(Path(args["file"])) as acceptance:
        measured = state.Measured(
            step=args["step"],
            nodes=args["group"],
            rate=rates[0] if rates else None,
            lowest=rates[1] if rates else None,
            highest=rates[2] if rates else None,
            why=why,
            transport=_short(f"{some.get('backend', 'nothing')} over {some.get('interface', 'nothing')}"),
            at=_now(),
            seconds=round(time.time() - args["began"], 1),
        )
        acceptance.results.append(measured)
        acceptance.pending = 0.0
    told = f"{rates[0]:g} GB/s" if rates else why
    return {"line": f"{measured.step}: {', '.join(measured.nodes)}: {told}"}


def _end(args: dict[str, Any], _variables: dict[str, Any]) -> dict[str, Any]:
    """Write the certificate, its signature and its page, and return what they say."""
    path = Path(args["file"])
    with state.changing(path) as acceptance:
        wanted, verdicts = state.standing(acceptance, args["minutes_most"] * 60, MEETING + args["minutes_each"] * 60)
        if wanted is not None:
            return {"lines": [f"acceptance {acceptance.run} was cut off; the same command goes on"], "accepted": False}
        acceptance.ended = _now()
        boards = next((one.boards for one in acceptance.nodes.values() if not one.untested), "")
        last = certificate.last(path.parents[1], boards, {*acceptance.nodes}, _signers(args))
        made = certificate.make(acceptance, verdicts, version=version(), last=last)
    data = certificate.canonical(made)
    document = path.with_name(certificate.FILE)
    document.write_bytes(data)
    key = Path(args["key"])
    try:
        signatures.make_key(key, certificate.PURPOSE)
        signatures.sign(document, key, certificate.PURPOSE)
        signed = f"signed with {key.name}"
    except (signatures.NotSigned, OSError) as error:
        signed = f"NOT signed: {error}"
    shown = place(str(path.with_name(certificate.PAGE)), page.page(made, certificate.digest(data), signed))
    detail = first(list(certificate.faults(made)), 4, "; ")
    refusal = refuse("F148", detail=detail or "nothing was measured", page=path.with_name(certificate.PAGE))
    told = [*certificate.lines(made), f"  certificate: {document}, {signed}", f"  {shown}"]
    return {"lines": told, "accepted": made["accepted"], "refused": None if made["accepted"] else asdict(refusal)}


def _verify(args: dict[str, Any], _variables: dict[str, Any]) -> dict[str, Any]:
    """Return what a certificate says that somebody trusted has signed. Raises Refusal F145."""
    path = Path(args["certificate"])
    found = certificate.verified(path, _signers(args))
    last = found["last"]
    before = path.parents[1] / last["run"] / certificate.FILE if last else None
    if last and before and before.is_file() and certificate.digest(before.read_bytes()) != last["sha256"]:
        raise refuse("F145", path=before, detail=f"{path} names another one as the certificate before it")
    return {"lines": [f"{path}: signed, of {found['ended']}", *certificate.lines(found)], "accepted": found["accepted"]}


def _refuse_open(key: Path) -> None:
    """Raise Refusal F143 where others may read the private key; KEY.pub stands for one that an agent has."""
    if key.suffix != ".pub" and key.exists() and key.stat().st_mode & READABLE_BY_OTHERS:
        raise refuse("F143", path=key)


def _signers(args: Mapping[str, Any]) -> str:
    return files.read(Path(args["signers"] or Path(args["key"]).with_name(signatures.SIGNERS)))


def _facts(known: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what was read of a node in this run."""
    reading = known.get("__acceptance_reading") or {}
    facts = (known.get("ansible_facts") or {}).get("gpulab")
    if not facts or reading.get("unreachable") or reading.get("failed") or not reading:
        return None
    plain: dict[str, Any] = json.loads(json.dumps(facts, default=str))
    return plain


def _measured_facts(known: Mapping[str, Any]) -> dict[str, Any]:
    facts = known["ansible_facts"]
    return {key: facts[key] for key in FACTS if key in facts} if not last_words(known).get("unreachable") else {}


def _node(known: Mapping[str, Any], facts: dict[str, Any] | None) -> state.Node:
    label = known.get("acceptance_domain")
    domain = str(label) if label else None
    if facts is None:
        return state.Node(domain, "unknown", "unknown", [], "", {}, untested=UNREACHABLE)
    serial = _short((known.get("__acceptance_serial") or {}).get("stdout") or "unknown")
    boot = _short(facts["system"]["boot_id"])
    return state.Node(domain, node.boards(facts), serial, node.serials(facts), boot, node.compared(facts))


def _backend(facts: Mapping[str, Any]) -> str:
    """Return by what nodes will be measured: NCCL where one of them has a GPU that is no simulated one."""
    real = any(of["nvml"]["gpus"] and not of.get("simulated") for of in facts.values())
    return floors.NCCL if real else floors.GLOO


def _record(known: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a node says of the group's all_reduce; nothing where it gave no answer."""
    for task in ("__acceptance_ended", "__acceptance_started"):
        facts = (known.get(task) or {}).get("ansible_facts") or {}
        if facts.get("gpulab_nodes_all_reduce"):
            found: dict[str, Any] = json.loads(json.dumps(facts["gpulab_nodes_all_reduce"], default=str))
            return found
    return {}


def _rates(records: Mapping[str, dict[str, Any]]) -> tuple[tuple[float, float, float] | None, str]:
    """Return rate, lowest and highest of the slowest node; or None, and why there is no number."""
    numbers: list[tuple[float, float, float]] = []
    for name, record in records.items():
        rate = [float(value) for key in RATES if (value := record.get(key)) is not None and _is_rate(value)]
        if record.get("state") != "done" or len(rate) < len(RATES):
            return None, _short("; ".join(_why(name, record) for name, record in records.items()))
        if record.get("wrong") != 0:
            return None, _short(f"{name}: {record.get('wrong')} elements of the sum are wrong")
        numbers.append((rate[0], rate[1], rate[2]))
    return min(numbers), ""


def _is_rate(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def _why(name: str, record: dict[str, Any]) -> str:
    said = {
        "done": "done",
        "late": f"not at its end after {record.get('seconds')} s",
        "missing": "; ".join(f"{other}: {why}" for other, why in dict(record.get("missing") or {}).items()),
        "failed": str((record.get("error") or {}).get("name")),
    }
    return f"{name}: {said.get(str(record.get('state')), str(record.get('reason') or 'no answer'))}"


def _short(text: Any) -> str:
    return for_people(" ".join(str(text).split()))[:MOST]


def _now() -> str:
    return time.strftime(TIME, time.gmtime())
