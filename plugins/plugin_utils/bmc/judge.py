# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machine a BMC is to be of, what is kept of a reading, and what to look at. No I/O happens here."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import counted, first
from ansible_collections.gpulab.node.plugins.plugin_utils.bmc import siblings
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ansible_collections.gpulab.node.plugins.plugin_utils.bmc.base import Event, Reading

CLOCK_SECONDS = 60.0
LOST = "gpulab does not know which machine the BMC is to be of, and what its logs said before."
_TOLD = 5  # events in a line
_MOST_SEEN = 20000
_BAD = ("Warning", "Critical")
# Some boards have a text of their maker's in place of a number: of such no two machines differ.
_SERIAL = re.compile(r"(?=.*\d)(?!0?123456789?\Z)(?!(.)\1*\Z)[A-Za-z0-9][A-Za-z0-9._/-]{3,63}")


@dataclass
class Cycle:
    """A power cycle of this node: when, by whom, how far it came (begun, off, on, failed), and behind whose fence."""

    at: str
    by: str
    state: str
    run: str = field(default="", metadata=records.LATER)


@dataclass
class Record:
    """What the controller keeps of a node's BMC. seen: the keys of the records of its logs at the last reading."""

    host: str
    serial: str
    at: str
    seen: list[str] = field(default_factory=list)
    document: dict[str, Any] = field(default_factory=dict)
    cycles: list[Cycle] = field(default_factory=list)


class Wanted(TypedDict):
    """Versions of a component that machines of a kind shall have, and why: bmc_firmware_wanted."""

    kind: str
    component: str
    versions: list[str]
    why: str | None


@dataclass(frozen=True)
class Finding:
    """What somebody should look at."""

    id: str
    text: str


def serial(host: str, given: str | None, inside: str | None, before: Record | None, path: str) -> str:
    """Return the serial number that the BMC's system has to have. Raises Refusal F105, F106.

    given is the inventory's word, which counts alone. inside is what the node says, None where it could not be asked;
    before and path are the record of the last reading.
    """
    if given:
        return given
    if inside is None:
        if before is None:
            raise refuse("F105", host=host, detail="it cannot be asked, and its BMC was never read")
        return before.serial
    if not _SERIAL.fullmatch(inside):
        raise refuse("F105", host=host, detail=f"it says {inside[:64]!r}, which names no machine")
    if before and before.serial != inside:
        raise refuse("F106", host=host, serial=inside, before=before.serial, path=path)
    return inside


def refuse_again(host: str, cycles: Mapping[str, list[Cycle]], run: str, after: str, most: int) -> None:
    """Raise Refusal F124, F111 where a run that has lost a node may not turn it off and on by itself.

    cycles are those of all hosts. Of a run, those count that began after a time, UTC in ISO 8601.
    """
    of_run = {name: [one for one in done if one.run == run and one.at >= after] for name, done in cycles.items()}
    if of_run.get(host):
        raise refuse("F124", host=host, at=of_run[host][-1].at)
    count = sum(bool(done) for done in of_run.values()) + 1
    if count > most:
        raise refuse("F111", count=count, most=most)


def new_events(reading: Reading, before: Record | None) -> list[Event]:
    """Return the records of the logs that were not there at the last reading."""
    seen = set(before.seen if before else ())
    return [event for event in reading.events if event.key not in seen]


def findings(reading: Reading, new: list[Event]) -> list[Finding]:
    """Return what somebody should look at."""
    found = []
    if reading.health and reading.health != "OK":
        why = f": {first(reading.faults, _TOLD)}" if reading.faults else ""
        found.append(Finding("bmc-health", f"the BMC calls the health of the machine {reading.health}{why}"))
    bad = [event for event in new if event.severity in _BAD]
    if bad:
        latest = sorted(bad, key=lambda event: event.created, reverse=True)
        told = first(
            [f"{event.created or 'no time'} {event.severity}: {event.message}" for event in latest], _TOLD, "; "
        )
        found.append(Finding("bmc-events", f"{counted(len(bad), 'new record')} of its logs: {told}"))
    if reading.boot.elsewhere:
        found.append(Finding("bmc-boot", f"it does not boot from its disk next: {reading.boot.elsewhere}"))
    off = reading.clock_seconds
    if off is not None and abs(off) > CLOCK_SECONDS:
        words = "ahead of" if off > 0 else "behind"
        text = f"its clock is {abs(off):.0f} s {words} the controller's: times of its logs are wrong by that"
        found.append(Finding("bmc-clock", text))
    found += [
        Finding("bmc-log-full", f"the log {log.name} is full with {log.records} records: new ones are lost")
        for log in reading.logs
        if log.full
    ]
    return found


def unwanted(reading: Reading, wanted: Iterable[Wanted]) -> list[Finding]:
    """Return the firmware that is not as wanted.

    What nobody wants, and a version that the BMC does not tell, have no verdict. Versions are compared for equality
    alone: makers count in ways of their own, so nobody can say here which is newer.
    """
    told = asdict(reading)
    kind, versions = siblings.kind_of(told), siblings.versions_of(told["firmware"])
    found = []
    for one in wanted:
        version = versions.get(one["component"]) if one["kind"] == kind else None
        if version and version not in one["versions"]:
            why = f": {one['why']}" if one["why"] else ""
            text = f"{one['component']} of {kind} is {version}, wanted is {' or '.join(one['versions'])}{why}"
            found.append(Finding("bmc-firmware", text))
    return found


def document(host: str, at: str, reading: Reading, new: list[Event], found: list[Finding]) -> dict[str, Any]:
    """Return a reading for programs."""
    kept = {name: value for name, value in asdict(reading).items() if name not in {"events", "path", "target"}}
    return {
        "host": host,
        "at": at,
        **kept,
        "new_events": [asdict(one) for one in new],
        "findings": [asdict(one) for one in found],
    }


def kept(reading: Reading, before: Record | None, shown: dict[str, Any]) -> Record:
    """Return what the controller keeps. Of a log that was not read this time, what was seen before stays."""
    read = {log.name for log in reading.logs}
    seen = [key for key in (before.seen if before else []) if not any(key.startswith(f"{name} ") for name in read)]
    seen += [event.key for event in reading.events]
    cycles = before.cycles if before else []
    return Record(shown["host"], reading.serial, shown["at"], seen[-_MOST_SEEN:], shown, cycles)


def lines(reading: Reading, new: list[Event], found: list[Finding]) -> list[str]:
    """Return a reading for people."""
    machine = " ".join(filter(None, (reading.manufacturer, reading.model))) or "a machine"
    power = reading.power or "not told"
    named = [f"{one.name} {one.version or '(no version)'}" for one in reading.firmware]
    logs = ", ".join(f"{log.name}: {counted(log.records, 'record')}" for log in reading.logs) or "not read"
    told = [
        f"{machine}, serial number {reading.serial}, power {power}, health {reading.health or 'not told'}",
        f"firmware: {first(named, 12) or 'not read'}",
        f"logs: {logs}; {counted(len(new), 'new record')}",
        *(f"{one.id}: {one.text}" for one in found),
    ]
    silent = [f"{one.part} ({one.why})" for one in reading.not_read]
    return [*told, f"not read, which does not mean absent: {first(silent, 8, '; ')}"] if silent else told
