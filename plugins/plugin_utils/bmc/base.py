# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a BMC says, and what each protocol by which it is asked can do: a class of its own below Bmc."""

from __future__ import annotations

import contextlib
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.secret_texts import HIDDEN
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import one_line
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self

Type = TypeVar("Type")
SILENT = "F100"  # the code of a BMC that does not answer
MOST_BYTES = 4 << 20  # of one answer
MOST_TEXT = 200  # characters of a text that is shown
MOST_ENTRIES = 2000  # of one log
ONCE, DISABLED, ALWAYS = "Once", "Disabled", "Continuous"
SOFT, HARD, START = "GracefulShutdown", "ForceOff", "On"  # what a machine is asked
ON, OFF = "On", "Off"  # its power


class PartError(Exception):
    """A part cannot be read; the text says why, such as "it answers 503". That says nothing of whether it is there."""


@dataclass(frozen=True)
class Address:
    """Where the BMC of a host is, and as whom it is asked; fingerprint is a SHA-256 in hex, or empty."""

    host: str
    address: str
    user: str
    password: str = field(repr=False)
    fingerprint: str = ""

    def place(self, port: int) -> tuple[str, int]:
        """Return host and port; this port where the address names none."""
        split = urlsplit(f"//{self.address}")
        return split.hostname or "", split.port or port


@dataclass(frozen=True)
class Limits:
    """Seconds that one request, and all of them, may take."""

    request: float = 30.0
    whole: float = 180.0


USUAL = Limits()


@dataclass(frozen=True)
class Component:
    """A part with firmware; version is empty where the BMC does not tell it."""

    name: str
    version: str


@dataclass(frozen=True)
class Event:
    """A record of a log. created is the BMC's time in ISO 8601, empty where it has none."""

    log: str
    number: str
    created: str
    severity: str
    message: str

    @property
    def key(self) -> str:
        """Return what no other record of any time has: numbers start again when somebody clears a log."""
        return f"{self.log} {self.number} {self.created}"


@dataclass(frozen=True)
class Log:
    """A log, and whether the next record is lost because it is full."""

    name: str
    records: int
    full: bool


@dataclass(frozen=True)
class NotRead:
    """A part that was not read, and why."""

    part: str
    why: str


@dataclass(frozen=True)
class Boot:
    """From where a machine boots next: enabled is Once, Continuous or Disabled; targets are what the BMC names."""

    enabled: str = ""
    target: str = ""
    mode: str = ""
    targets: tuple[str, ...] = ()

    @property
    def elsewhere(self) -> str:
        """Say from where it boots next, if that is not from its disk as ever."""
        usual = self.enabled in {"", DISABLED} or (self.enabled != ONCE and self.target in {"", "None", "Hdd"})
        return "" if usual else f"{self.enabled} {self.target}"


@dataclass
class Reading:
    """What a BMC says. clock_seconds: how far its clock is ahead of the controller's, None where it was not read.

    chassis_systems: how many systems share a chassis with this one, it included; None where that was not read. resets:
    what the machine can be asked, None where that was not read. path and target are Redfish's, of the system and of its
    reset. faults: what makes the health bad, in words, where the BMC says so.
    """

    path: str
    serial: str
    target: str = ""
    resets: list[str] | None = None
    redfish: str = ""
    uuid: str = ""
    manufacturer: str = ""
    model: str = ""
    part_number: str = ""
    power: str = ""
    health: str = ""
    boot: Boot = field(default_factory=Boot)
    chassis_systems: int | None = None
    clock_seconds: float | None = None
    faults: list[str] = field(default_factory=list)
    firmware: list[Component] = field(default_factory=list)
    logs: list[Log] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    not_read: list[NotRead] = field(default_factory=list)


class Bmc(ABC):
    """A connection to one BMC. Enter it; when it is left, its session has ended.

    A BMC is not trusted: its answers are bounded in size and time, and a text that repeats the password loses it.
    """

    def __init__(self, address: Address, limits: Limits = USUAL) -> None:
        """Take where the BMC is; nothing is asked yet."""
        self._address, self._limits = address, limits
        self._until = time.monotonic() + limits.whole
        self.left: list[str] = []  # what could not be cleaned up

    @abstractmethod
    def __enter__(self) -> Self:
        """Connect and log in. Raises Refusal."""

    @abstractmethod
    def __exit__(self, *_error: object) -> None:
        """Log out."""

    @abstractmethod
    def read(self, serial: str) -> Reading:
        """Read the machine with this serial number. Raises Refusal."""

    @abstractmethod
    def power(self, reading: Reading) -> str:
        """Return the power now, such as On, after the serial number. Raises PartError, Refusal."""

    @abstractmethod
    def boot(self, reading: Reading) -> Boot:
        """Return from where the machine boots next, after the serial number. Raises PartError, Refusal."""

    @abstractmethod
    def reset(self, reading: Reading, kind: str) -> None:
        """Ask for SOFT, HARD or START once. Raises PartError where it is not taken, Refusal."""

    @abstractmethod
    def set_boot(self, reading: Reading, enabled: str, target: str, mode: str) -> None:
        """Ask for another next boot; an empty mode or target is not sent. Raises PartError, Refusal."""

    def refusal(self, code: str, **values: object) -> Exception:
        """Return a refusal about this BMC."""
        return refuse(code, host=self._address.host, address=self._address.address, **values)

    def _cleaned(self, text: str) -> str:
        """Return what a BMC said without the password, should it repeat it."""
        password = self._address.password
        return text.replace(password, HIDDEN) if password else text


@contextlib.contextmanager
def cut_after(seconds: float, cut: Callable[[], object]) -> Iterator[threading.Event]:
    """Call cut where what is done meanwhile takes longer; the event that is yielded tells whether it was called."""
    late = threading.Event()

    def end() -> None:
        late.set()
        cut()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()


def refuse_long(data: bytes) -> None:
    """Raise PartError for an answer of more than MOST_BYTES."""
    if len(data) > MOST_BYTES:
        message = f"it has more than {MOST_BYTES >> 20} MiB"
        raise PartError(message)


def said(text: str | None) -> str:
    """Return a text of the BMC's in one line that may be shown."""
    return one_line((text or "").strip()[: MOST_TEXT * 2])[:MOST_TEXT]


def note(found: Reading, part: str, read_part: Callable[[], None]) -> None:
    """Read a part; note it where it cannot be read."""
    try:
        read_part()
    except PartError as error:
        found.not_read.append(NotRead(part, str(error)))


def looked(read: Callable[[], Type]) -> tuple[Type | None, str]:
    """Return what is read; or None, and why: a BMC may be silent for a while during a change. Raises Refusal."""
    try:
        return read(), ""
    except PartError as error:
        return None, f"not read: {error}"
    except Refusal as refusal:
        if refusal.code != SILENT:
            raise
        return None, "not read: the BMC does not answer"
