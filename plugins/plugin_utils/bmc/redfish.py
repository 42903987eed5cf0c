# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a BMC says by Redfish of the one system that has a node's serial number. Nothing is changed, no log is cleared.

A part that is not answered (404, 503, another form) is "not read", which never means that it is absent. Each text is
one line of at most base.MOST_TEXT characters, without control codes.
"""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import first
from ansible_collections.gpulab.node.plugins.plugin_utils.bmc.base import (
    MOST_ENTRIES,
    Boot,
    Component,
    Event,
    Log,
    NotRead,
    PartError,
    Reading,
    note,
    said,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.bmc.connection import Connection, Link

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_SYSTEMS, MOST_FIRMWARE, MOST_LOGS = 32, 64, 8
_PAGES = 100
WRAPS = "WrapsWhenFull"


_Collection = TypedDict("_Collection", {"Members": "list[Link]", "Members@odata.nextLink": "str | None"}, total=False)


class _Status(TypedDict, total=False):
    Health: str | None
    State: str | None


class _SystemLinks(TypedDict, total=False):
    Chassis: list[Link] | None
    ManagedBy: list[Link] | None


_Reset = TypedDict(
    "_Reset",
    {"target": "str", "ResetType@Redfish.AllowableValues": "list[str] | None", "@Redfish.ActionInfo": "str | None"},
    total=False,
)
_Actions = TypedDict("_Actions", {"#ComputerSystem.Reset": "_Reset | None"}, total=False)


_Boot = TypedDict(
    "_Boot",
    {
        "BootSourceOverrideEnabled": "str | None",
        "BootSourceOverrideTarget": "str | None",
        "BootSourceOverrideMode": "str | None",
        "BootSourceOverrideTarget@Redfish.AllowableValues": "list[str] | None",
    },
    total=False,
)


class _System(TypedDict, total=False):
    SerialNumber: str | None
    UUID: str | None
    Manufacturer: str | None
    Model: str | None
    PartNumber: str | None
    BiosVersion: str | None
    PowerState: str | None
    Status: _Status | None
    Links: _SystemLinks | None
    LogServices: Link | None
    Actions: _Actions | None
    Boot: _Boot | None


class _Manager(TypedDict, total=False):
    FirmwareVersion: str | None
    DateTime: str | None
    LogServices: Link | None


class _ChassisLinks(TypedDict, total=False):
    ComputerSystems: list[Link] | None


class _Chassis(TypedDict, total=False):
    Links: _ChassisLinks | None


class _UpdateService(TypedDict, total=False):
    FirmwareInventory: Link | None


class _Firmware(TypedDict, total=False):
    Id: str | None
    Name: str | None
    Version: str | None


class _LogService(TypedDict, total=False):
    Id: str | None
    Name: str | None
    MaxNumberOfRecords: int | None
    OverWritePolicy: str | None
    Entries: Link | None


_Entry = TypedDict(
    "_Entry",
    {
        "@odata.id": "str | None",
        "Id": "str | None",
        "Created": "str | None",
        "Severity": "str | None",
        "Message": "str | None",
    },
    total=False,
)
_Entries = TypedDict(
    "_Entries",
    {"Members": "list[_Entry]", "Members@odata.count": "int | None", "Members@odata.nextLink": "str | None"},
    total=False,
)


class _Parameter(TypedDict, total=False):
    Name: str | None
    AllowableValues: list[str] | None


class _ActionInfo(TypedDict, total=False):
    Parameters: list[_Parameter] | None


def read(bmc: Connection, serial: str) -> Reading:
    """Read the system with this serial number. Raises Refusal F100 to F103, F107."""
    path, system, silent = _find(bmc, serial)
    found = Reading(path, serial, redfish=said(bmc.root.get("RedfishVersion")), not_read=silent)
    found.uuid, found.manufacturer = said(system.get("UUID")), said(system.get("Manufacturer"))
    found.model, found.part_number = said(system.get("Model")), said(system.get("PartNumber"))
    found.power, found.health = said(system.get("PowerState")), said((system.get("Status") or {}).get("Health"))
    found.boot = _boot(system)
    note(found, "BIOS", lambda: _bios(found, system))
    note(found, "power actions", lambda: _resets(bmc, found, system))
    note(found, "chassis", lambda: _chassis(bmc, found, system))
    note(found, "firmware", lambda: _firmware(bmc, found))
    places: dict[str, Link | None] = {"log of the system": system.get("LogServices")}
    for number, link in enumerate((system.get("Links") or {}).get("ManagedBy") or [], 1):
        of_manager = "BMC" if number == 1 else f"BMC {number}"

        def manager(link: Link = link, name: str = of_manager) -> None:
            places[f"log of the {name}"] = _manager(bmc, found, link, name)

        note(found, of_manager, manager)
        if number == MOST_LOGS:
            break
    for part, place in places.items():
        note(found, part, lambda place=place, part=part: _logs(bmc, found, part, place))  # type: ignore[misc]
    return found


def _boot(system: _System) -> Boot:
    told = system.get("Boot") or {}
    names = told.get("BootSourceOverrideTarget@Redfish.AllowableValues") or []
    return Boot(
        said(told.get("BootSourceOverrideEnabled")),
        said(told.get("BootSourceOverrideTarget")),
        said(told.get("BootSourceOverrideMode")),
        tuple(said(name) for name in names[:MOST_SYSTEMS]),
    )


def _same(bmc: Connection, reading: Reading) -> _System:
    """Return a system that still is the same machine. Raises PartError where it is another."""
    system = bmc.get(reading.path, _System)
    if _serial(system) != reading.serial:
        message = f"it has the serial number {_serial(system) or 'of nobody'} now"
        raise PartError(message)
    return system


def _find(bmc: Connection, serial: str) -> tuple[str, _System, list[NotRead]]:
    """Return the one system with this serial number, never merely the first, and those that do not answer."""
    try:
        paths = list(dict.fromkeys(link["@odata.id"] for link in _members(bmc, bmc.root.get("Systems"), MOST_SYSTEMS)))
    except PartError as error:
        raise bmc.refusal("F107", detail=f"its systems cannot be listed: {error}") from error
    systems: dict[str, _System] = {}
    silent: list[NotRead] = []  # such as a board of GPUs while the host is off
    for path in paths:
        try:
            systems[path] = bmc.get(path, _System)
        except PartError as error:  # noqa: PERF203 - each for itself
            silent.append(NotRead(f"system {said(path).rpartition('/')[2]}", str(error)))
    fitting = [(path, system) for path, system in systems.items() if _serial(system) == serial]
    if len(fitting) == 1:
        return (*fitting[0], silent)
    shown = [_serial(system) or "one without a number" for system in systems.values()]
    shown += [f"{one.part} ({one.why})" for one in silent]
    raise bmc.refusal("F103", serial=serial, seen=first(shown, 4) or "none at all")


def _serial(system: _System) -> str:
    return said(system.get("SerialNumber"))


def _members(bmc: Connection, link: Link | None, most: int) -> Iterator[Link]:
    """Yield the links of a collection, page by page. Raises PartError where there are more than most."""
    count = 0
    path = _there(link)
    for _page in range(_PAGES):
        page = bmc.get(path, _Collection)
        for one in page.get("Members") or []:
            count += 1
            if count > most:
                message = f"it has more than {most} members"
                raise PartError(message)
            yield one
        path = page.get("Members@odata.nextLink") or ""
        if not path:
            return
    message = f"it has more than {_PAGES} pages"
    raise PartError(message)


def _there(link: Link | None) -> str:
    if not link:
        message = "the BMC does not say where it is"
        raise PartError(message)
    return link["@odata.id"]


def _bios(found: Reading, system: _System) -> None:
    version = said(system.get("BiosVersion"))
    if not version:
        message = "the BMC does not tell its version"
        raise PartError(message)
    found.firmware.append(Component("BIOS", version))


def _resets(bmc: Connection, found: Reading, system: _System) -> None:
    """Read what the reset takes, which stands beside it or in a resource of its own."""
    reset = (system.get("Actions") or {}).get("#ComputerSystem.Reset") or {}
    values = reset.get("ResetType@Redfish.AllowableValues")
    found.target = reset.get("target") or ""
    if values is None:
        place = reset.get("@Redfish.ActionInfo")
        parameters = bmc.get(_there({"@odata.id": place} if place else None), _ActionInfo).get("Parameters") or []
        values = next((one.get("AllowableValues") for one in parameters if one.get("Name") == "ResetType"), None)
    if values is None or not found.target:
        message = "the BMC does not say what it takes"
        raise PartError(message)
    if not found.target.startswith(f"{found.path.rstrip('/')}/"):
        message = "its reset is not the system's own"
        raise PartError(message)
    found.resets = [said(value) for value in values[:MOST_SYSTEMS]]


def _chassis(bmc: Connection, found: Reading, system: _System) -> None:
    """Count the systems of all chassis that the system is in."""
    links = (system.get("Links") or {}).get("Chassis")
    if not links or len(links) > MOST_SYSTEMS:
        message = "the BMC does not say in which chassis it is"
        raise PartError(message)
    systems: set[str] = {found.path.rstrip("/")}
    for link in links:
        held = (bmc.get(link["@odata.id"], _Chassis).get("Links") or {}).get("ComputerSystems")
        if held is None:
            message = "a chassis does not say which systems it holds"
            raise PartError(message)
        systems |= {one["@odata.id"].rstrip("/") for one in held}
    found.chassis_systems = len(systems)


def _firmware(bmc: Connection, found: Reading) -> None:
    service = bmc.get(_there(bmc.root.get("UpdateService")), _UpdateService)
    for link in _members(bmc, service.get("FirmwareInventory"), MOST_FIRMWARE):
        try:
            one = bmc.get(link["@odata.id"], _Firmware)
        except PartError as error:
            found.not_read.append(NotRead(f"firmware {said(link['@odata.id']).rpartition('/')[2]}", str(error)))
            continue
        name = said(one.get("Name")) or said(one.get("Id"))
        found.firmware.append(Component(name or "without a name", said(one.get("Version"))))


def _manager(bmc: Connection, found: Reading, link: Link, name: str) -> Link | None:
    """Read the BMC's own version and clock; return where its logs are."""
    begun = time.time()
    manager = bmc.get(link["@odata.id"], _Manager)
    now = (begun + time.time()) / 2
    found.firmware.append(Component(name, said(manager.get("FirmwareVersion"))))
    at = seconds(manager.get("DateTime"))
    if at is None:
        found.not_read.append(NotRead(f"clock of the {name}", "the BMC does not tell its time"))
    elif found.clock_seconds is None:
        found.clock_seconds = round(at - now, 1)
    return manager.get("LogServices")


def seconds(time_of_bmc: str | None) -> float | None:
    """Return a BMC's time as seconds since 1970; None where it is none. One without a zone is taken as UTC."""
    try:
        at = datetime.fromisoformat(time_of_bmc or "")
        return (at if at.tzinfo else at.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, OverflowError):
        return None


def _logs(bmc: Connection, found: Reading, part: str, place: Link | None) -> None:
    for link in _members(bmc, place, MOST_LOGS):
        note(found, part, lambda link=link: _log(bmc, found, part, link))  # type: ignore[misc]


def _log(bmc: Connection, found: Reading, part: str, link: Link) -> None:
    """Read a log; events of a log that is too long to be read whole are not taken, as none could be called new."""
    service = bmc.get(link["@odata.id"], _LogService)
    name = f"{said(service.get('Id')) or said(service.get('Name')) or 'log'} ({part.rpartition(' ')[2]})"
    path, events, total = _there(service.get("Entries")), [], 0
    for _page in range(_PAGES):
        page = bmc.get(path, _Entries)
        for one in page.get("Members") or []:
            link_alone = one.get("@odata.id") if not one.get("Id") else None
            entry = bmc.get(link_alone, _Entry) if link_alone else one
            number, created = said(entry.get("Id")), said(entry.get("Created"))
            events.append(Event(name, number, created, said(entry.get("Severity")), said(entry.get("Message"))))
        total = max(total, page.get("Members@odata.count") or 0, len(events))
        path = page.get("Members@odata.nextLink") or ""
        if len(events) > MOST_ENTRIES:
            message = f"{name} has more than {MOST_ENTRIES} records"
            raise PartError(message)
        if not path:
            break
    most = service.get("MaxNumberOfRecords") or 0
    found.logs.append(Log(name, total, 0 < most <= total and service.get("OverWritePolicy") != WRAPS))
    found.events += events


class Redfish(Connection):
    """A BMC that is asked by Redfish."""

    def read(self, serial: str) -> Reading:
        """Read the system with this serial number. Raises Refusal F100 to F103, F107."""
        return read(self, serial)

    def power(self, reading: Reading) -> str:
        """Return its power now, after its serial number. Raises PartError, Refusal."""
        return said(_same(self, reading).get("PowerState"))

    def boot(self, reading: Reading) -> Boot:
        """Return from where it boots next, after its serial number. Raises PartError, Refusal."""
        return _boot(_same(self, reading))

    def reset(self, reading: Reading, kind: str) -> None:
        """Ask once. Raises PartError where it is not taken, Refusal."""
        self.send("POST", reading.target, {"ResetType": kind})

    def set_boot(self, reading: Reading, enabled: str, target: str, mode: str) -> None:
        """Ask for another next boot. Raises PartError, Refusal."""
        given = {"Enabled": enabled, "Target": target, "Mode": mode}
        boot = {f"BootSourceOverride{name}": value for name, value in given.items() if value}
        self.send("PATCH", reading.path, {"Boot": boot})
