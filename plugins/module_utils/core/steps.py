# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Long steps: commands that run on the node as transient systemd units and outlive the connection.

A step NAME is the unit gpulab-NAME.service and the directory /var/lib/gpulab/steps/NAME:

    run         the shell script that the unit executes
    state.json  what was started, when, in which boot, and whether its end was handed to a controller
    log         its standard output and error (log.old: those of the run before)
    result      {"rc": 0, "ended": 1700000000}, written by run when the command has ended

The end is read from ``result`` and never from systemd: it is still there after a reboot. The unit is asked
only while there is no result. It is not started with --collect, which would discard a failed unit's state.
"""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import re
import shlex
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals import node
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.runs import refuse
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import plain

if TYPE_CHECKING:
    from typing import Callable, Optional

    Call = Callable[[list[str]], tuple[int, str, str]]
    # state, rc, time of the end, systemd's word
    Standing = tuple[str, Optional[int], Optional[float], str]

ROOT = Path("/var/lib/gpulab/steps")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
TAIL_LINES = 30
_TAIL_BYTES = 16384
_LOST = "Without it, gpulab does not know how this step ended, and runs it again."
# systemd's words for the end of a step that left no result: run itself only fails where it cannot write.
_ENDS = {
    "": "it was killed",
    "success": "it was killed",
    "exit-code": "its end could not be written: is the file system of /var/lib/gpulab full (df -h) or read-only?",
}
_ALIVE = ("active", "activating", "deactivating", "reloading")


class State(TypedDict):
    """What is recorded of a step when it is started; started is its time in seconds since 1970."""

    fingerprint: str
    argv: list[str]
    started: float
    boot_id: str
    acknowledged: bool


class StepResult(TypedDict):
    """What a step leaves at its end; ended is the time in seconds since 1970."""

    rc: int
    ended: int


@dataclass(frozen=True)
class Command:
    """What a step runs. Two commands are the same step when their fingerprints are equal."""

    argv: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    chdir: str = "/"

    @property
    def fingerprint(self) -> str:
        """Return a digest of everything that decides what the command does."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Status:
    """How a step stands.

    state: absent, running, finished (rc is known), timeout, or interrupted (it ended without a result: a reboot,
    a kill). seconds: from its start to its end or now. detail: systemd's word for an end without a result.
    """

    state: str
    log: str
    rc: int | None = None
    seconds: float = 0.0
    line: str = ""
    tail: tuple[str, ...] = ()
    detail: str = ""


def script(command: Command, directory: Path) -> str:
    """Return the shell script that runs the command and records its end; nothing in it is left to expansion."""
    exports = [f"export {name}={shlex.quote(value)}" for name, value in sorted(command.environment.items())]
    argv = " ".join(shlex.quote(word) for word in command.argv)
    here = shlex.quote(str(directory))
    return "\n".join(
        [
            "#!/bin/sh",
            f"exec >>{here}/log 2>&1 </dev/null",
            *exports,
            f"cd {shlex.quote(command.chdir)} && {argv}",
            "rc=$?",
            f'printf \'{{"rc": %d, "ended": %d}}\\n\' "$rc" "$(date +%s)" >{here}/result.new &&',
            f"    sync {here}/result.new &&",
            f"    mv {here}/result.new {here}/result || exit 1",
            'exit "$rc"',
            "",
        ]
    )


def clean_lines(text: str) -> list[str]:
    """Return the lines of a log as a terminal would have left them: no escapes, no overwritten text, none empty."""
    lines = (plain(line.rstrip("\r").rsplit("\r", 1)[-1]).rstrip() for line in text.split("\n"))
    return [line for line in lines if line.strip()]


def last_lines(log: Path) -> list[str]:
    """Return the last lines of a log, at most TAIL_LINES."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = stream.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return []
    return clean_lines(text)[-TAIL_LINES:]


def running_boot(booted: Path = Path("/run/systemd/system"), proc: Path = Path("/proc")) -> str:
    """Return the name of the running boot, on a node that can run steps.

    Raises Refusal H011 for another user than root, S002 where systemd is not the first process.
    """
    if os.geteuid() != 0:
        raise node.refuse("H011", user=pwd.getpwuid(os.geteuid()).pw_name)
    if not booted.is_dir():
        raise refuse("S002")
    return (proc / "sys/kernel/random/boot_id").read_text().strip()


def unit_of(name: str) -> str:
    """Return the unit of systemd that a step of this name, or pattern of names, runs as."""
    return f"gpulab-{name}.service"


class Step:
    """One long step on this node.

    call runs an argument list and returns (rc, standard output, standard error); boot_id names the running boot.
    """

    def __init__(self, name: str, call: Call, boot_id: str, root: Path = ROOT) -> None:
        """Name a step; nothing is read or written yet. Raises Refusal S001 for a name systemd would not take."""
        if not NAME.fullmatch(name):
            raise refuse("S001", name=name)
        self.name = name
        self.unit = unit_of(name)
        self.directory = root / name
        self.log = self.directory / "log"
        self._call = call
        self._boot_id = boot_id

    def start(self, command: Command, timeout: int, *, pick_up: bool = False) -> str:
        """Start the command, or find it running or ended; return started, attached or picked_up.

        An end that no run has heard counts only with pick_up. Raises Refusal S003 when the step runs another command,
        S004 when systemd does not start it.
        """
        record, status = self._read(), self.status()
        same = record is not None and record["fingerprint"] == command.fingerprint
        if status.state == "running":
            if record and not same:
                raise refuse("S003", name=self.name, command=shlex.join(record["argv"]), log=status.log)
            return "attached"
        if pick_up and status.state == "finished" and same and not self.acknowledged():
            return "picked_up"
        self._launch(command, timeout)
        return "started"

    def status(self) -> Status:
        """Return how the step stands now."""
        record = self._read()
        if not record:
            return Status("absent", str(self.log))
        state, rc, ended, detail = self._end() or self._alive(record) or self._end() or ("interrupted", None, None, "")
        if state == "interrupted":
            killed = "the node was restarted" if record["boot_id"] != self._boot_id else self._show("Result")
            detail = _ENDS.get(killed, killed)
        tail = last_lines(self.log)
        seconds = max(0.0, (ended or time.time()) - record["started"])
        return Status(state, str(self.log), rc, round(seconds, 1), tail[-1] if tail else "", tuple(tail), detail)

    def has_result(self) -> bool:
        """Tell whether the command has ended by itself; a look that takes nothing from what the command computes."""
        return (self.directory / "result").exists()

    def acknowledged(self) -> bool:
        """Say whether the end of the step, if it has one, was handed over."""
        record = self._read()
        return record is not None and record["acknowledged"]

    def beside(self, name: str) -> Step:
        """Return another step of this node."""
        return Step(name, self._call, self._boot_id, self.directory.parent)

    def ran(self, argv: list[str]) -> bool:
        """Tell whether this command is the last one that was started."""
        record = self._read()
        return record is not None and record["argv"] == argv

    def acknowledge(self) -> None:
        """Note that the end of a step that ever ran has been handed over: the same command may run again."""
        record = self._read()
        if record:
            self._remember({**record, "acknowledged": True})
            self._call(["systemctl", "reset-failed", self.unit])

    def _end(self) -> Standing | None:
        result = records.read(self.directory / "result", StepResult, None, _LOST)
        return ("finished", result["rc"], result["ended"], "") if result else None

    def _alive(self, record: State) -> Standing | None:
        if record["boot_id"] != self._boot_id:
            return None
        if self._show("ActiveState") in _ALIVE:
            return "running", None, None, ""
        return ("timeout", None, None, "") if self._show("Result") == "timeout" else None

    def _show(self, unit_property: str) -> str:
        return self._call(["systemctl", "show", "--value", f"--property={unit_property}", self.unit])[1].strip()

    def _launch(self, command: Command, timeout: int) -> None:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.directory / "result").unlink(missing_ok=True)
        if self.log.exists():
            self.log.replace(self.directory / "log.old")
        (self.directory / "run").touch(0o600)
        (self.directory / "run").write_text(script(command, self.directory))
        record: State = {
            "fingerprint": command.fingerprint,
            "argv": list(command.argv),
            "started": time.time(),
            "boot_id": self._boot_id,
            "acknowledged": False,
        }
        self._remember(record)
        self._call(["systemctl", "reset-failed", self.unit])
        rc, _out, err = self._call(
            [
                "systemd-run",
                "--quiet",
                f"--unit={self.unit}",
                f"--description=gpulab step {self.name}",
                f"--property=RuntimeMaxSec={timeout}",
                "/bin/sh",
                str(self.directory / "run"),
            ]
        )
        if rc != 0:
            records.remove(self.directory / "state.json")
            raise refuse("S004", name=self.name, detail=" ".join(err.split()))

    def _read(self) -> State | None:
        return records.read(self.directory / "state.json", State, None, _LOST)

    def _remember(self, record: State) -> None:
        records.write(self.directory / "state.json", record, 0o600)
