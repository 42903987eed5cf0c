# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work that may hang (a wedged driver, a dead network mount) done in a child process with a deadline.

A process stuck in the kernel (state D) survives SIGKILL, so the parent never waits for the child's death: it reads
what the child said until the deadline, sends SIGKILL, and goes on. The child keeps none of the parent's descriptors:
otherwise a stuck child would hold Ansible's connection open, and the hang would merely move to the controller.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from typing import Any, Callable

Emit = Callable[[Any], None]

DONE = "done"  # the work came to its end
LATE = "late"  # the deadline passed
DIED = "died"  # the child ended in the middle of its work

KILLED = -signal.SIGKILL, 128 + signal.SIGKILL  # a status, as Python and as a shell count it
_CHUNK = 1 << 16
_PATIENCE = 0.1  # seconds for a killed child to die
_DIED = "the reading process died"


class Child:
    """A started child process; ``work(emit)`` runs in it, and each ``emit(value)`` arrives here as JSON data."""

    def __init__(self, work: Callable[[Emit], None], seconds: float) -> None:
        """Start the work; its time runs from now."""
        self.messages: list[Any] = []
        self.reason = ""
        self._deadline = time.monotonic() + seconds
        self._reader, writer = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _serve(work, writer)  # never returns
        os.close(writer)

    def wait(self) -> str:
        """Read what the child says until it ends or its time is over; return DONE, LATE or DIED.

        ``messages`` then holds all that arrived complete, ``reason`` one line where the child failed.
        """
        received = b""
        ended = False
        while not ended and select.select([self._reader], [], [], max(0.0, self._deadline - time.monotonic()))[0]:
            chunk = os.read(self._reader, _CHUNK)
            received += chunk
            ended = not chunk
        os.close(self._reader)
        os.kill(self._pid, signal.SIGKILL)  # at the end of the pipe there is nothing more to hear either
        status = self._reap()
        *complete, _incomplete = received.split(b"\n")
        records = [json.loads(line) for line in complete]
        self.messages = [record["message"] for record in records if "message" in record]
        if not ended:
            return LATE
        if {"end": ""} in records:
            return DONE
        failures = [record["end"] for record in records if "end" in record]
        self.reason = failures[0] if failures else f"{_DIED} ({_cause_of_death(status)})"
        return DIED

    def _reap(self) -> int | None:
        """Return the child's status; None where it does not die soon, and init will reap it one day."""
        patience = time.monotonic() + _PATIENCE
        while time.monotonic() < patience:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                return status
            time.sleep(0.002)
        return None


def was_killed(reason: str) -> bool:
    """Tell whether a child that died was killed, which the kernel does where memory runs out."""
    return reason.startswith(f"{_DIED} (signal {signal.SIGKILL:d})")


def _serve(work: Callable[[Emit], None], writer: int) -> None:
    """Be the child: run the work, report, leave without the parent's exit handlers."""
    end = "the reading process ended early"
    try:
        os.setsid()
        _drop_descriptors(keep=writer)
        work(lambda value: _write(writer, {"message": value}))
        end = ""
    except BaseException as error:  # noqa: BLE001 - whatever happens becomes a report, never a traceback
        end = f"{type(error).__name__}: {error}"
    finally:
        try:
            _write(writer, {"end": end})
            os.close(writer)
        finally:
            os._exit(0)


def _drop_descriptors(keep: int) -> None:
    """Close every inherited descriptor but one, and give 0, 1 and 2 to /dev/null."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.closerange(3, keep)
    os.closerange(keep + 1, 1024)


def _write(writer: int, record: dict[str, Any]) -> None:
    data = json.dumps(record).encode() + b"\n"
    while data:
        data = data[os.write(writer, data) :]


def _cause_of_death(status: int | None) -> str:
    if status is None:
        return "and cannot be killed"
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit status {os.WEXITSTATUS(status)}"
