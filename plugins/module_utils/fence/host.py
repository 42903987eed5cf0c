# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take a node out of service, see when nobody uses it any more, and bring it back. Nothing is ever killed.

The record on the node says whose fence it is. Only what it says was done is taken back, so a drain or a lock of
somebody else's stays as it is.
"""

from __future__ import annotations

import calendar
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.came_by import came_by
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.fleet import refuse
from ansible_collections.gpulab.node.plugins.module_utils.facts import fence as facts
from ansible_collections.gpulab.node.plugins.module_utils.facts import users
from ansible_collections.gpulab.node.plugins.module_utils.fence import login
from ansible_collections.gpulab.node.plugins.module_utils.slurm import control, reservations

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

Call = Callable[[list[str]], tuple[int, str, str]]  # exit status, output, errors
AUTO, NONE, SLURM, KUBERNETES = "auto", "none", "slurm", "kubernetes"
SLURMD = ("/lib/systemd/system/slurmd.service", "/etc/systemd/system/slurmd.service")
KUBELET = (
    "/var/lib/kubelet/pki",
    "/var/lib/rancher/k3s/agent",
)  # where a node that has joined a cluster keeps its keys
_NOT_SET_UP = "Could not establish a configuration source"  # scontrol, where Slurm is installed and has no slurm.conf
_NOT_BELIEVED = "Protocol authentication error"
MINUTE = 60.0


@dataclass(frozen=True)
class FenceRequest:
    """Whose fence it is to be: run (its name), by (a person), and why; until is UTC in ISO 8601, or None.

    before is what Kubernetes said of the node, which only the controller can ask. reserve: under Slurm, the node is
    reserved until then, and comes back by itself, in place of a drain.
    """

    run: str
    by: str
    reason: str = ""
    until: str | None = None
    held: bool = False
    engine: str = AUTO
    passing: tuple[str, ...] = ()
    before: facts.Before | None = None
    reserve: bool = False


class NodeFence:
    """The fence of one node; host is its name in refusals, call runs a command there, module an AnsibleModule."""

    def __init__(self, node: Node, call: Call, module: Any, host: str) -> None:
        """Take the node, and its name there."""
        self._node, self._call, self._module, self._host = node, call, module, host
        self._hostname = socket.gethostname()

    def has_kubelet(self) -> bool:
        """Tell whether the node has joined a cluster of Kubernetes."""
        return any(map(self._node.exists, KUBELET))

    def record(self) -> facts.Record | None:
        """Return the fence of this node, None where there is none. Raises Refusal H220."""
        return facts.record(self._node)

    def users(self, own: int, name: str | None = None) -> str:
        """Say who would lose work if the node stopped now, jobs of Slurm first; nothing where nobody would.

        own is this process, whose connection does not count; name is the node's in Slurm, where no fence says it.
        Raises Refusal F008.
        """
        found = self.record()
        name = found["before"].get("name") if found and found["engine"] == SLURM else name
        jobs = control.jobs(self._ask(control.show_jobs(name))) if name else []
        return ", ".join(filter(None, [*(job.told() for job in jobs), users.in_use(users.read(self._node, [], own))]))

    def reserved(self, engine: str) -> tuple[str | None, list[dict[str, str]]]:
        """Return the node's name in Slurm, and its reservations there, each {"name", "start", "end"}, times in UTC.

        Without Slurm, neither. Raises Refusal F008, F009.
        """
        here = self._member(engine)
        found = sorted(self._bookings(here.name), key=lambda one: one.start) if here else []
        told = [{"name": one.name, "start": _utc(one.start), "end": _utc(one.end)} for one in found]
        return here.name if here else None, told

    def drain(self, wish: FenceRequest) -> list[str]:
        """Fence the node, or correct why it is fenced; return what changed. Raises Refusal F004, F007 to F010, F016.

        Under Slurm, logins stay open until the last job has ended: its user may look after it.
        """
        before = self.record()
        if before and before["run"] != wish.run:
            raise refuse("F007", host=self._host, **before)
        if not login.services(self._node):
            raise refuse("F010", host=self._host, services=", ".join(login.SERVICES))
        here = self._member(before["engine"] if before else wish.engine)
        record = _record(wish, before, here)
        booking = self._booking(record, here) if here else []
        changed = [facts.RECORD] if record != before else []
        if changed and not self._module.check_mode:
            records.write(self._node.path(facts.RECORD), record)
        why = control.reason(wish.run, wish.reason)
        if here and record["before"].get("reservation"):
            changed += [f"Slurm: reserve {here.name} until {wish.until}"] if booking else []
            self._book(booking, record)
        elif here and not record["before"]["drained"] and not (here.drained and here.reason == why):
            changed.append(f"Slurm: drain {here.name}")
            self._do(control.drain(here.name, why))
        if record["engine"] != SLURM or self._node.exists(login.MESSAGE):
            changed += self.close(record, wish.passing)
        if before is None and not self._module.check_mode:
            self._call(["wall", message(record)])
        return changed

    def close(self, record: facts.Record, passing: Iterable[str]) -> list[str]:
        """Keep people from logging in; return what changed. The user that this came by, and these, still may."""
        return login.write(self._node, self._module, message(record), {*passing, *came_by(self._node)})

    def resume(self, run: str, *, force: bool = False) -> tuple[list[str], str]:
        """Bring the node back into service; return what changed, and why Slurm still has it drained, if it has.

        Only this run's fence is lifted, unless forced; a node without one is left alone. Raises Refusal F007, F008.
        """
        record = self.record()
        if record is None:
            return [], ""
        if record["run"] != run and not force:
            raise refuse("F007", host=self._host, **record)
        changed, left = [], ""
        if record["engine"] == SLURM:
            here = self._member(SLURM)
            name = record["before"].get("reservation")
            if here and name in {one.name for one in self._bookings(here.name)}:
                changed.append(f"Slurm: delete the reservation {name}")
                self._do(reservations.give_up(str(name)))
            if here and control.is_ours(here, record["run"]):
                changed.append(f"Slurm: resume {here.name}")
                self._do(control.resume(here.name))
            elif here and here.drained:
                left = here.reason
        changed += [*login.write(self._node, self._module, ""), facts.RECORD]
        if not self._module.check_mode:
            records.remove(self._node.path(facts.RECORD))
        return changed, left

    def _member(self, engine: str) -> control.NodeState | None:
        """Return what Slurm says of this node; None where the engine is another. Raises Refusal F008, F009."""
        if engine in (NONE, KUBERNETES) or (engine == AUTO and not any(map(self._node.exists, SLURMD))):
            return None
        rc, output, errors = self._call(list(control.SHOW_NODES))
        if engine == AUTO and rc != 0 and _NOT_SET_UP in errors:
            return None
        if rc != 0:
            raise refuse("F008", detail=_last(errors or output))
        here = control.own(control.nodes(output), self._hostname)
        if here is None and engine == SLURM:
            raise refuse("F009", host=self._host)
        return here

    def _bookings(self, name: str) -> list[reservations.Booking]:
        """Return who has a node reserved. Raises Refusal F008."""
        return [one for one in reservations.bookings(self._ask(list(reservations.SHOW))) if name in one.nodes]

    def _booking(self, record: facts.Record, here: control.NodeState) -> list[str]:
        """Return the command that reserves the node as its record says; none where it is so, or is to be drained.

        Raises Refusal F004, F008, F016.
        """
        name = record["before"].get("reservation")
        if not name:
            return []
        end = _end(record["until"])
        there = self._bookings(here.name)
        others = [one for one in there if one.name != name and one.start < end]
        if others:
            detail = f"the reservation {others[0].name} begins at {_utc(others[0].start)}"
            raise refuse("F016", host=self._host, until=record["until"], detail=detail)
        mine = next((one for one in there if one.name == name), None)
        if mine and abs(mine.end - end) < MINUTE:
            return []
        return reservations.book(name, here.name, end, again=mine is not None)

    def _book(self, command: list[str], record: facts.Record) -> None:
        if command and not self._module.check_mode:
            rc, output, errors = self._call(command)
            if rc != 0:
                detail = _last(errors or output)
                raise refuse("F016", host=self._host, until=record["until"], detail=detail)

    def _ask(self, argv: list[str]) -> str:
        rc, output, errors = self._call(argv)
        if rc != 0:
            raise refuse("F008", detail=_last(errors or output))
        return output

    def _do(self, argv: list[str]) -> None:
        if not self._module.check_mode:
            self._ask(argv)


def _record(wish: FenceRequest, before: facts.Record | None, here: control.NodeState | None) -> facts.Record:
    """Return what the fence is to say; since when it stands, and what was before it, stay as they were noted first."""
    others = KUBERNETES if KUBERNETES in (wish.engine, before and before["engine"]) else NONE
    seen: facts.Before = {}
    if here:
        ours = control.is_ours(here, wish.run)
        seen = {"name": here.name, "drained": here.drained and not ours, "reason": here.reason}
        if wish.reserve:
            seen["reservation"] = reservations.of_run(wish.run, here.name)
    return {
        "run": wish.run,
        "since": before["since"] if before else time.strftime(facts.TIME, time.gmtime()),
        "by": wish.by,
        "reason": wish.reason,
        "until": wish.until,
        "engine": SLURM if here else others,
        "held": wish.held,
        "before": before["before"] if before else wish.before or seen,
    }


def _end(until: str | None) -> float:
    """Return when a fence ends, in seconds since 1970. Raises Refusal F004."""
    try:
        end = calendar.timegm(time.strptime(until or "", facts.TIME))
    except ValueError:
        end = 0
    if end < time.time() + MINUTE:
        detail = "a reservation ends at a time to come, such as 2026-12-01T06:00:00Z"
        raise refuse("F004", option="fence_until", value=until, detail=detail)
    return end


def _utc(seconds: float) -> str:
    return time.strftime(facts.TIME, time.gmtime(seconds))


def message(record: facts.Record) -> str:
    """Return what people read who log in, or who are logged in when the fence comes."""
    run = "" if record["run"] == record["by"] else f", run {record['run']}"
    back = f" It should be back by {record['until']}." if record["until"] else ""
    return (
        f"gpulab: this node is out of service since {record['since']} ({record['by']}{run}):"
        f" {record['reason'].rstrip('.')}.{back} What runs goes on; please end your work and start it elsewhere."
    )


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = lines[-1] if lines else "it gave no answer"
    return f"{said}: the MUNGE keys or the clocks of the two differ" if said.endswith(_NOT_BELIEVED) else said
