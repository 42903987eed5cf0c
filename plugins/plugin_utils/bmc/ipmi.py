# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A BMC that is asked by IPMI 2.0 over the network, with the program ipmitool.

It has no certificate; but a BMC that does not know the password cannot answer for it (RAKP), so that nobody else is
believed, and the password is not sent. ipmitool gets it by a pipe: it is in no argument, environment or file.

What only reads is asked as USER: an ipmitool that finds no sensors would clear the BMC's list of them if it might.
What ipmitool says of a change is no proof (it says "Set Boot Device" of one that failed): it is read back.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import struct
import subprocess
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.facts.fence import TIME
from ansible_collections.gpulab.node.plugins.plugin_utils.bmc.base import (
    ALWAYS,
    DISABLED,
    HARD,
    MOST_BYTES,
    MOST_ENTRIES,
    OFF,
    ON,
    ONCE,
    SOFT,
    START,
    Bmc,
    Boot,
    Component,
    Event,
    Log,
    NotRead,
    PartError,
    Reading,
    cut_after,
    note,
    refuse_long,
    said,
)

if TYPE_CHECKING:
    from typing_extensions import Self

PROGRAM = "ipmitool"
USER, OPERATOR = "USER", "OPERATOR"
# HMAC-SHA256 first, then HMAC-SHA1; never 0, which asks for no password. Without a number each command takes 10 s more.
SUITES = ("17", "3")
_PORT = 623
_OTHER_SUITE = ("invalid authentication algorithm", "no matching", "invalid integrity algorithm")
_NOT_TAKEN = (
    "RAKP 2 HMAC is invalid",
    "unauthorized name",
    "unauthorized role",
    "invalid role",
    "invalid integrity check",
)
_NO_RIGHT = ("unauthorized role", "invalid role", "Set Session Privilege Level")
_SILENT = ("Unable to establish", "Address lookup", "Could not open socket")
_LOG = "SEL (IPMI)"
_ASKED = {SOFT: "soft", HARD: "off", START: "on"}
# From where it may boot once: byte 1 and 2 of the boot flags (IPMI 2.0, table 28-14), without the bits of validity.
_EFI = 0x20
TARGETS = {
    "Pxe": (_EFI, 0x04),
    "Cd": (_EFI, 0x14),
    "Hdd": (_EFI, 0x08),
    "LegacyPxe": (0, 0x04),
    "LegacyCd": (0, 0x14),
}
_VALID, _PERSISTENT, _DEVICE = 0x80, 0x40, 0x3C
_FAULTS = ("Power Overload", "Main Power Fault", "Power Control Fault", "Drive Fault", "Cooling/Fan Fault")
_STATES = {"nc": "Warning", "cr": "Critical", "nr": "Critical"}
# Records that belong to the ordinary life of a machine, by the beginning of the sensor's type. IPMI has no severity.
_ORDINARY = (
    "Button",
    "Event Logging",
    "OS Boot",
    "Session Audit",
    "Slot",
    "System ACPI",
    "System Boot",
    "System Event",
    "System Firmware Progress",
    "Version Change",
)
_OF_ITS_START = 0x20000000  # a smaller time counts from the BMC's own start


class Ipmi(Bmc):
    """A BMC that is asked by IPMI; each command is a session of its own, which ipmitool ends."""

    def __enter__(self) -> Self:
        """Find the program and the cipher suite, and log in once. Raises Refusal F100, F102, F107, F123."""
        if not shutil.which(PROGRAM):
            raise self.refusal("F123")
        said_last = ""
        for self._suite in SUITES:
            code, said_last = self._run(USER, "-v", "mc", "info")
            if code == 0:
                return self
            if any(word in said_last for word in _NOT_TAKEN):
                raise self.refusal("F102", user=self._address.user)
            if not any(word in said_last for word in _OTHER_SUITE):
                break
        if any(word in said_last for word in _SILENT):
            raise self.refusal("F100", detail=_last(said_last))
        raise self.refusal("F107", detail=_last(said_last))

    def __exit__(self, *_error: object) -> None:
        """Do nothing: no session is open."""

    def read(self, serial: str) -> Reading:
        """Read the machine with this serial number. Raises Refusal F100, F102, F103."""
        found = Reading("", serial)
        try:
            product = self._product()
        except PartError as error:
            raise self.refusal("F103", serial=serial, seen=f"its FRU 0 is not read: {error}") from error
        if _serial(product) != serial:
            raise self.refusal("F103", serial=serial, seen=_serial(product) or "one without a number")
        found.manufacturer = product.get("Product Manufacturer", "")
        found.model = product.get("Product Name", "")
        found.part_number = product.get("Product Part Number", "")
        found.resets = [SOFT, HARD, START]  # which IPMI offers everywhere; whether it is done is read back
        note(found, "power", lambda: self._chassis(found))
        note(found, "sensors", lambda: self._sensors(found))
        note(found, "next boot", lambda: self._next_boot(found))
        note(found, "firmware", lambda: self._firmware(found))
        note(found, "clock of the BMC", lambda: self._clock(found))
        note(found, "log of the BMC", lambda: self._log(found))
        found.not_read.append(NotRead("chassis", "IPMI does not say who else is in it"))
        return found

    def power(self, reading: Reading) -> str:
        """Return its power now, after its serial number. Raises PartError, Refusal."""
        self._same(reading)
        return _power(self._table(USER, "chassis", "status"))

    def boot(self, reading: Reading) -> Boot:
        """Return from where it boots next, after its serial number. Raises PartError, Refusal."""
        self._same(reading)
        return self._boot()

    def reset(self, _reading: Reading, kind: str) -> None:
        """Ask once. Raises PartError where it is not taken, Refusal."""
        self._ask(OPERATOR, "chassis", "power", _ASKED[kind])

    def set_boot(self, _reading: Reading, enabled: str, target: str, mode: str) -> None:  # noqa: ARG002 - targets have it
        """Ask for another next boot. Raises PartError, Refusal."""
        first, second = TARGETS.get(target, (0, 0))
        first |= _VALID | (_PERSISTENT if enabled == ALWAYS else 0)
        flags = (0x05, first, second, 0, 0, 0)
        self._ask(OPERATOR, "raw", "0x00", "0x08", *(f"{byte:#04x}" for byte in flags))

    def _same(self, reading: Reading) -> None:
        """Raise PartError where it is another machine."""
        number = _serial(self._product())
        if number != reading.serial:
            message = f"it has the serial number {number or 'of nobody'} now"
            raise PartError(message)

    def _product(self) -> dict[str, str]:
        """Return what FRU 0 says of the machine."""
        return self._table(USER, "fru", "print", "0")

    def _chassis(self, found: Reading) -> None:
        told = self._table(USER, "chassis", "status")
        found.power = _power(told)
        found.faults += [name for name in _FAULTS if told.get(name) == "true"]
        found.health = "Critical" if found.faults else "OK"

    def _sensors(self, found: Reading) -> None:
        """Read the sensors; none are asked for where there are none, see above."""
        if not int(self._table(USER, "sdr", "info").get("Record Count", "0")):
            message = "the BMC lists none"
            raise PartError(message)
        worst = [found.health]
        for row in csv.reader(self._ask(USER, "-c", "sdr", "list").splitlines()):
            if len(row) == 4 and row[3] in _STATES:  # noqa: PLR2004 - name, value, unit, state
                worst.append(_STATES[row[3]])
                found.faults.append(said(f"{row[0]} {row[1]} {row[2]} ({row[3]})"))
        found.health = next((one for one in ("Critical", "Warning") if one in worst), found.health)

    def _next_boot(self, found: Reading) -> None:
        found.boot = self._boot()

    def _boot(self) -> Boot:
        """Return the next boot. Raises PartError, Refusal."""
        told = _bytes(self._ask(OPERATOR, "raw", "0x00", "0x09", "0x05", "0x00", "0x00"), 7)
        first, second = told[2], told[3] & _DEVICE
        enabled = DISABLED
        if first & _VALID and second:
            enabled = ALWAYS if first & _PERSISTENT else ONCE
        names = {flags: name for name, flags in TARGETS.items()}
        target = names.get((first & _EFI, second), "Hdd" if second == TARGETS["Hdd"][1] else f"device {second >> 2}")
        return Boot(enabled, "" if enabled == DISABLED else target, "", tuple(TARGETS))

    def _firmware(self, found: Reading) -> None:
        version = self._table(USER, "mc", "info").get("Firmware Revision", "")
        found.firmware.append(Component("BMC (IPMI)", version))

    def _clock(self, found: Reading) -> None:
        begun = time.time()
        (at,) = struct.unpack("<I", bytes(_bytes(self._ask(USER, "raw", "0x0a", "0x48"), 4)))
        if at < _OF_ITS_START:
            message = "it has no time: it counts from its own start"
            raise PartError(message)
        found.clock_seconds = round(at - (begun + time.time()) / 2, 1)

    def _log(self, found: Reading) -> None:
        told = self._table(USER, "sel", "info")
        records = int(told.get("Entries", "0"))
        if records > MOST_ENTRIES:
            message = f"{_LOG} has more than {MOST_ENTRIES} records"
            raise PartError(message)
        full = told.get("Overflow") == "true" or told.get("Free Space", "").startswith("0 ")
        events = [one for one in map(event, self._ask(USER, "-c", "sel", "list").splitlines()) if one]
        found.logs.append(Log(_LOG, records, full))
        found.events += events

    def _table(self, level: str, *words: str) -> dict[str, str]:
        """Return the lines "name : value" of an answer. Raises PartError, Refusal."""
        parts = (line.partition(":") for line in self._ask(level, *words).splitlines())
        return {name.strip(): said(value) for name, separator, value in parts if separator}

    def _ask(self, level: str, *words: str) -> str:
        """Return an answer. Raises PartError where the BMC does not give it, Refusal F100, F102."""
        code, text = self._run(level, *words)
        if code == 0:
            return text
        if any(word in text for word in _NO_RIGHT):
            message = f"the account may not do what needs {level}"
            raise PartError(message)
        if any(word in text for word in _SILENT):
            raise self.refusal("F100", detail=_last(text))
        raise PartError(_last(text))

    def _run(self, level: str, *words: str) -> tuple[int, str]:
        """Run ipmitool; return its exit status and all that it says. Raises PartError, Refusal F100."""
        left = self._until - time.monotonic()
        if left <= 0:
            message = f"the BMC takes more than {self._limits.whole:.0f} s"
            raise PartError(message)
        host, port = self._address.place(_PORT)
        given, secret = os.pipe()
        with os.fdopen(secret, "wb") as writing:
            writing.write(self._address.password.encode())
        argv = [PROGRAM, "-I", "lanplus", "-H", host, "-p", str(port), "-U", self._address.user, "-L", level]
        argv += ["-f", f"/dev/fd/{given}", "-C", self._suite, "-N", "2", "-R", "2"]
        argv += ["-v"] if level == OPERATOR else []  # without it, it does not say why a right is not given
        argv += words
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC0"}
        try:
            with (
                subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    pass_fds=(given,),
                ) as running,
                cut_after(min(left, self._limits.request), running.kill) as late,
            ):
                try:
                    data = running.stdout.read(MOST_BYTES + 1) if running.stdout else b""
                    if len(data) > MOST_BYTES:
                        running.kill()
                finally:
                    running.wait()
        finally:
            os.close(given)
        if late.is_set():
            raise self.refusal("F100", detail=f"no whole answer within {self._limits.request:.0f} s")
        refuse_long(data)
        return running.returncode, self._cleaned(data.decode("utf-8", "replace"))


def _last(text: str) -> str:
    """Return what ipmitool says last of why, without what it says each time."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and "HPM.x" not in line]
    return said("; ".join(lines[-2:])) or "it says nothing"


def _serial(product: dict[str, str]) -> str:
    """Return the number of the machine; that of its board where it has none. A chassis may hold several machines."""
    return product.get("Product Serial") or product.get("Board Serial") or ""


def _power(told: dict[str, str]) -> str:
    return {"on": ON, "off": OFF}.get(told.get("System Power", ""), told.get("System Power", ""))


def _bytes(text: str, count: int) -> list[int]:
    """Return the bytes of an answer to a raw command, the last line; -v shows the command, too. Raises PartError."""
    told = [line for line in text.splitlines() if re.fullmatch(r"( [0-9a-f]{2})+", line.rstrip())]
    values = [int(one, 16) for line in told[-1:] for one in line.split()]
    if len(values) < count:
        message = "its answer is too short"
        raise PartError(message)
    return values[:count]


def event(line: str) -> Event | None:
    """Return a record of the log; None for another line."""
    row = next(csv.reader([line]), [])
    if len(row) < 4 or not re.fullmatch(r"[0-9a-f]+", row[0].strip()):  # noqa: PLR2004 - number, date, time, what
        return None
    words = [said(word) for word in row[3:]]
    return Event(_LOG, row[0].strip(), _created(row[1].strip(), row[2].strip()), _severity(words), " ".join(words))


def _created(date: str, clock: str) -> str:
    """Return the BMC's time in ISO 8601; where it has counted from its own start, that many seconds after 1970."""
    if date == "Pre-Init" and clock.isdigit():
        return datetime.fromtimestamp(int(clock), timezone.utc).strftime(TIME)
    for form in ("%m/%d/%y %H:%M:%S", "%m/%d/%Y %H:%M:%S"):
        try:
            at = datetime.strptime(f"{date} {clock.removesuffix(' UTC')}", form).replace(tzinfo=timezone.utc)
            return at.strftime(TIME)
        except ValueError:  # noqa: PERF203 - ipmitool 1.8.18 writes a year of four digits
            continue
    return ""


def _severity(words: list[str]) -> str:
    """Return how bad a record is, as Redfish names it: one that is not known to be ordinary is worth a look."""
    text = " ".join(words)
    if words[-1] == "Deasserted" or text.startswith(_ORDINARY):
        return "OK"
    bad = re.search("(?<!non-)critical|non-recoverable", text.lower())
    return "Critical" if bad else "Warning"
