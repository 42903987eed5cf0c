# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.bmc: ask the node which machine it is, and its BMC, from the controller, what it says of that machine.

The password is read from the host's variables here and goes to the BMC alone: it is no argument of a task or a process.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.module_utils.bmc.arguments import ARGUMENTS, CYCLE
from ansible_collections.gpulab.node.plugins.module_utils.core import locks, records
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.facts.fence import TIME
from ansible_collections.gpulab.node.plugins.module_utils.facts.fence import Record as Fence
from ansible_collections.gpulab.node.plugins.plugin_utils.bmc import boot_once, judge, power
from ansible_collections.gpulab.node.plugins.plugin_utils.bmc.base import Address, Limits
from ansible_collections.gpulab.node.plugins.plugin_utils.bmc.ipmi import Ipmi
from ansible_collections.gpulab.node.plugins.plugin_utils.bmc.redfish import Redfish
from ansible_collections.gpulab.node.plugins.plugin_utils.core.directory import locked
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.core.host_file import file_name
from ansible_collections.gpulab.node.plugins.plugin_utils.core.this_run import this_run
from ansible_collections.gpulab.node.plugins.plugin_utils.pages.page import REPORTS
from ansible_collections.gpulab.node.plugins.plugin_utils.peers import host_names
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.plugin_utils.bmc.base import Bmc, Reading

PROTOCOLS: dict[str, type[Bmc]] = {"redfish": Redfish, "ipmi": Ipmi}
NEEDED = ("bmc_user", "bmc_password")
DAY = 24 * 3600.0  # in which a run that loses nodes may turn off and on no more of them than bmc_cycles_most
GREETING = 8.0  # seconds in which a living SSH greets


class ActionModule(ActionBase):
    """Read one BMC, or turn its machine off and on."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what the BMC says, for programs and for people, or the refusal."""
        super().run(tmp, task_vars)
        _validated, args = self.validate_argument_spec(ARGUMENTS)
        variables = task_vars or {}
        host = variables["inventory_hostname"]
        path = REPORTS / "bmc" / f"{file_name(host)}.json"
        try:
            address = self._address(host, variables)
            if args["work"] == CYCLE:
                _refuse(host, args, variables, address)
            if address is None:
                return {"changed": False, "cycled": False, "document": None, "lines": ["no bmc_address"]}
            with self._alone(path):
                return self._work(address, path, args, variables)
        except Refusal as refusal:
            return failure([refusal])

    def _alone(self, path: Path) -> AbstractContextManager[None]:
        """Hold a node's record, so that two runs cannot turn its machine off and on together. Raises Refusal S022."""
        if self._task.check_mode:
            return contextlib.nullcontext()
        path.parent.mkdir(parents=True, exist_ok=True)
        return locks.held(path.with_suffix(".lock"))

    def _work(self, address: Address, path: Path, args: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Read the BMC, and keep what it says; then turn the machine off and on, if that is the work."""
        host, changes = address.host, not self._task.check_mode
        before = records.read(path, judge.Record, None, judge.LOST)
        inside = self._inside(variables)
        serial = judge.serial(host, self._given(variables, "bmc_serial"), inside, before, str(path))
        told: list[str] = []
        kind = PROTOCOLS[args["protocol"]]
        with kind(address, power.LIMITS if args["work"] == CYCLE else Limits()) as bmc:
            reading = bmc.read(serial)
            new = judge.new_events(reading, before)
            found = [*judge.findings(reading, new), *judge.unwanted(reading, args["firmware"])]
            shown = judge.document(host, time.strftime(TIME, time.gmtime()), reading, new, found)
            record = judge.kept(reading, before, shown)
            if changes:
                records.write(path, asdict(record))
            if args["work"] == CYCLE:
                known = self.evidence(args, variables, reached=inside is not None)
                power.refuse_unsafe(bmc, reading, known, alone=args["alone"])
                note = _noting(path, record, known.run) if changes else None
                if args["lost"] and note:
                    _begin_alone(path, host, known.run, args["most"], note)
                told = cycle(bmc, reading, "" if args["lost"] else args["boot_once"] or "", note)
        lines = [*judge.lines(reading, new, found), *told, *bmc.left]
        cycled = args["work"] == CYCLE
        return {"changed": cycled, "cycled": cycled and changes, "document": shown, "lines": lines}

    def _given(self, variables: dict[str, Any], name: str) -> str:
        """Return a text of the inventory, empty where it has none."""
        return str(self._templar.template(variables.get(name)) or "")

    def _address(self, host: str, variables: dict[str, Any]) -> Address | None:
        """Return where the BMC is, None where the inventory names none. Raises Refusal F104."""
        place = self._given(variables, "bmc_address")
        if not place:
            return None
        given = {name: self._given(variables, name) for name in NEEDED}
        missing = [name for name, value in given.items() if not value]
        if missing:
            raise refuse("F104", host=host, options=" and no ".join(missing))
        user, password = given.values()
        return Address(host, place, user, password, self._given(variables, "bmc_fingerprint"))

    def _inside(self, variables: dict[str, Any]) -> str | None:
        """Return the serial number that the node says, None where it cannot be asked."""
        result: dict[str, Any] = {}
        with contextlib.suppress(AnsibleConnectionFailure):
            result = self._execute_module(module_name="gpulab.node.bmc", module_args={}, task_vars=variables)
        said = result.get("serial")
        return said if isinstance(said, str) else None

    def evidence(self, args: dict[str, Any], variables: dict[str, Any], *, reached: bool) -> power.Evidence:
        """Return what is known of the node's work: from its fence, or from outside where it does not answer."""
        host, mine = variables["inventory_hostname"], this_run(os.getppid())
        run, looked = args["run"] or f"{mine['user']} on {mine['machine']}", args["fence"] or {}
        users = looked.get("users")
        if reached or isinstance(users, str):  # of one of the two alone nobody knows who uses it: no fence, so no cut
            users = users if isinstance(users, str) else "nobody knows by whom"
            return power.Evidence(run, reached=True, fence=_fence(looked.get("fence")), users=users, lost=args["lost"])
        given = variables.get("hostvars", {}).get(host, variables)
        names = [host, *map(str, host_names.names(host, given))]
        named = args["dead"] == host
        outside: dict[str, Any] = {"ssh": self._greets(host), "slurm": args["slurm"], "names": names, "named": named}
        return power.Evidence(run, reached=False, fence=_fence(args["held"]), lost=args["lost"], **outside)

    def _greets(self, host: str) -> bool:
        """Tell whether SSH answers at the node's address: then it lives, whatever keeps gpulab from it."""
        try:
            place = (self._connection.get_option("host") or host, int(self._connection.get_option("port") or 22))
        except KeyError:
            return True  # not by SSH, so nobody can tell
        with contextlib.suppress(OSError), socket.create_connection(place, GREETING) as asked:
            asked.settimeout(GREETING)
            return asked.recv(4) == b"SSH-"
        return False


def _refuse(host: str, args: dict[str, Any], variables: dict[str, Any], address: Address | None) -> None:
    """Raise Refusal F104, F110, F111 where nothing may be turned off at all."""
    if address is None:
        raise refuse("F104", host=host, options="bmc_address")
    if not args["power"]:
        raise refuse("F110", host=host)
    count = 1 if args["lost"] else len(variables["ansible_play_hosts_all"])
    if count > args["most"]:
        raise refuse("F111", count=count, most=args["most"])


def cycle(bmc: Bmc, reading: Reading, target: str, note: Callable[[str], None] | None) -> list[str]:
    """Turn a machine off and on, once from another target if one is given; only say so where there is no note."""
    if target:
        boot_once.refuse_unknown(bmc, reading, target)
    if note is None:
        return [f"would ask: {', '.join([*([f'boot once from {target}'] if target else []), *power.steps(reading)])}"]
    if not target:
        return power.cycle(bmc, reading, note)
    boot_once.ask(bmc, reading, target)
    try:
        told = power.cycle(bmc, reading, note, before_on=lambda: boot_once.see_it_kept(bmc, reading, target))
    except Refusal:
        with contextlib.suppress(Refusal):  # which would hide why it went wrong
            boot_once.take_back(bmc, reading)
        raise
    return [*told, boot_once.see_it_gone(bmc, reading, target)]


def _fence(told: Any) -> Fence | None:
    """Return a fence as the node told it, None where it is none."""
    try:
        return records.typed(told, Fence) if told else None
    except ValueError:
        return None


def _begin_alone(path: Path, host: str, run: str, most: int, note: Callable[[str], None]) -> None:
    """Write down that a power cycle begins, unless this run may have no further one. Raises Refusal F111, F124, H220.

    Nodes of one batch come one after the other. What is written stays where the controller is killed.
    """
    with locked(path.parent):
        kept = (records.read(file, judge.Record, None, judge.LOST) for file in path.parent.glob("*.json"))
        cycles = {one.host: one.cycles for one in kept if one}
        judge.refuse_again(host, cycles, run, time.strftime(TIME, time.gmtime(time.time() - DAY)), most)
        note("begun")


def _noting(path: Path, record: judge.Record, run: str) -> Callable[[str], None]:
    """Return what writes down how far a power cycle came."""
    mine = this_run(os.getppid())
    begun = judge.Cycle(time.strftime(TIME, time.gmtime()), f"{mine['user']} on {mine['machine']}", "", run)
    record.cycles = [*record.cycles[-99:], begun]

    def note(state: str) -> None:
        begun.state = state
        records.write(path, asdict(record))

    return note
