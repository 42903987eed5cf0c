# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn a machine off and on by its BMC. Each step is read back: an answer of success is no proof that it was done.

It is always off, then on, with the power read between: some BMCs have no power cycle, and others report one as done
that they have not begun.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.slurm import control
from ansible_collections.gpulab.node.plugins.plugin_utils.bmc.base import (
    HARD,
    OFF,
    ON,
    SILENT,
    SOFT,
    START,
    Limits,
    PartError,
    looked,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ansible_collections.gpulab.node.plugins.module_utils.facts.fence import Record as Fence
    from ansible_collections.gpulab.node.plugins.plugin_utils.bmc.base import Bmc, Reading

LIMITS = Limits(request=30.0, whole=1500.0)


@dataclass(frozen=True)
class Waits:
    """Seconds: for the system to shut down, for power to go, with power off, for power to come, between two looks."""

    soft: float = 180.0
    hard: float = 60.0
    pause: float = 10.0
    start: float = 120.0
    look: float = 3.0


@dataclass(frozen=True)
class Evidence:
    """What is known of a node's work. reached: the node answered, and fence and users are what it said.

    Of one that did not: ssh says whether its SSH greets, slurm is what Slurm says of its nodes (None without Slurm,
    empty where it does not answer), names are those of the node, named says whether the admin named it as dead. run is
    the name of this run. lost: this run has rebooted the node and waited for it in vain; fence is the one that it had.
    """

    run: str
    reached: bool
    fence: Fence | None = None
    users: str = ""
    ssh: bool = False
    slurm: str | None = None
    names: Collection[str] = ()
    named: bool = False
    lost: bool = False


def obstacle(known: Evidence) -> str:
    """Say why a node may not be cut: it is neither free nor proven dead. Empty where it may."""
    return _of_living(known) if known.reached else _of_silent(known)


def _of_living(known: Evidence) -> str:
    if known.lost:
        return "it answers again"
    if known.fence is None:
        return "no fence keeps new work from it"
    if known.fence["run"] != known.run:
        return f"its fence is that of {known.fence['run']}"
    return f"it is in use: {known.users}" if known.users else ""


def _of_silent(known: Evidence) -> str:
    if known.ssh:
        return "its SSH answers, although gpulab could not log in"
    if known.slurm == "":
        return "Slurm does not say what it knows of it"
    found = control.nodes(known.slurm or "")
    here = next((one for one in (control.own(found, name) for name in known.names) if one), None)
    if here and "DOWN" not in here.states:
        return f"Slurm says that it is {'+'.join(here.states)}"
    if known.lost:
        held = known.fence and known.fence["run"] == known.run
        return "" if held else "it was not behind the fence of this run when it was rebooted"
    if not known.named:
        return "it does not answer, which does not prove that its work is over; bmc_dead does not name it"
    return ""


def refuse_unsafe(bmc: Bmc, reading: Reading, known: Evidence, *, alone: bool = False) -> None:
    """Raise Refusal F112 to F115 and F120 where this machine may not be cut. One that is off has nothing to lose.

    alone is the admin's word that nothing else is in its chassis, for a BMC that does not tell.
    """
    systems = reading.chassis_systems or (1 if alone else None)
    if systems != 1:
        why = f"{systems} systems share its chassis" if systems else "it is not known whether others share its chassis"
        raise bmc.refusal("F112", detail=why)
    if any(one not in (reading.resets or ()) for one in (HARD, START)):
        taken = ", ".join(reading.resets or ()) or "nothing that it names"
        raise bmc.refusal("F114", detail=f"it takes {taken}")
    if reading.boot.elsewhere:
        raise bmc.refusal("F120", boot=reading.boot.elsewhere)
    if reading.power not in {ON, OFF}:
        raise bmc.refusal("F115", state=reading.power or "not told")
    why = obstacle(known) if reading.power == ON else ""
    if why:
        raise bmc.refusal("F113", detail=why)


def steps(reading: Reading) -> list[str]:
    """Return what a cycle asks of the BMC, in order, for people."""
    soft = [SOFT] if SOFT in (reading.resets or ()) else []
    off = [*soft, f"{HARD} where it is still on"] if soft else [HARD]
    return [*(off if reading.power == ON else []), START]


def cycle(
    bmc: Bmc,
    reading: Reading,
    note: Callable[[str], None],
    waits: Waits = Waits(),
    before_on: Callable[[], None] = lambda: None,
) -> list[str]:
    """Turn the machine off and on; return what was seen. note writes down each state before what follows is asked.

    before_on is called while the machine is off, before it is turned on; what it raises leaves the machine off.
    reading passed refuse_unsafe() just now. Raises Refusal F116 where the power does not become what was asked.
    """
    told = []
    note("begun")
    if reading.power == ON:
        if SOFT in (reading.resets or ()):
            _send(bmc, reading, SOFT)
            told.append(_seen(bmc, reading, OFF, SOFT, waits.soft, waits.look))
        if not told or not told[-1]:
            _send(bmc, reading, HARD, needed=True)
            told.append(_seen(bmc, reading, OFF, HARD, waits.hard, waits.look))
            if not told[-1]:
                note("failed")
                raise bmc.refusal("F116", asked=HARD, seconds=round(waits.hard), state=_state(bmc, reading))
    note("off")
    time.sleep(waits.pause)
    before_on()
    _send(bmc, reading, START, needed=True)
    told.append(_seen(bmc, reading, ON, START, waits.start, waits.look))
    if not told[-1]:
        note("failed")
        raise bmc.refusal("F116", asked=START, seconds=round(waits.start), state=_state(bmc, reading))
    note("on")
    return [line for line in told if line]


def _send(bmc: Bmc, reading: Reading, kind: str, *, needed: bool = False) -> None:
    """Ask once. Whether it was done is read back, so an answer that is lost counts for nothing.

    Raises Refusal F114 where the BMC does not take what is needed.
    """
    try:
        bmc.reset(reading, kind)
    except PartError as error:
        if needed:
            raise bmc.refusal("F114", detail=f"to {kind} {error}") from error
    except Refusal as refusal:
        if refusal.code != SILENT:
            raise


def _seen(bmc: Bmc, reading: Reading, wanted: str, asked: str, most: float, look: float) -> str:  # noqa: PLR0913, PLR0917
    """Wait until the power is as wanted; return a line that says so, empty where it does not become so in time."""
    begun = time.monotonic()
    while True:
        state, passed = _state(bmc, reading), time.monotonic() - begun
        if state == wanted:
            return f"{asked}: power read {wanted} after {passed:.0f} s"
        if passed >= most:
            return ""
        time.sleep(look)


def _state(bmc: Bmc, reading: Reading) -> str:
    """Return the power state, or why it was not read."""
    state, why = looked(lambda: bmc.power(reading))
    return why or state or "not told"
