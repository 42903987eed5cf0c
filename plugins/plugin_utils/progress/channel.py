# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How an action plugin, in a worker process, tells the progress callback, in the main process, where a host stands.

The callback binds a datagram socket before the workers are forked and leaves its path in the environment, which they
inherit. A datagram is one JSON object: {"host": ..., "step": ..., "seconds": ..., "line": ...}.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

VARIABLE = "GPULAB_PROGRESS_SOCKET"
LINE_LENGTH = 300


@dataclass(frozen=True)
class Progress:
    """Where a host stands in a long step: seconds since its start, and the last line of its log."""

    host: str
    step: str
    seconds: float
    line: str


def send(progress: Progress) -> None:
    """Tell the callback, if there is one that listens; never wait for it and never fail."""
    path = os.environ.get(VARIABLE)
    if path is None:
        return
    text = json.dumps({**asdict(progress), "line": progress.line[:LINE_LENGTH]})
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.settimeout(0)
        try:
            sender.sendto(text.encode(), path)
        except OSError:  # the callback is gone or busy: the next message makes up for this one
            return


class Receiver:
    """The callback's end of the channel."""

    def __init__(self) -> None:
        """Bind a socket in a directory of our own and announce it to the workers to come."""
        self._directory = tempfile.TemporaryDirectory(prefix="gpulab-")
        path = str(Path(self._directory.name) / "progress")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(path)
        os.environ[VARIABLE] = path

    def receive(self, seconds: float) -> Progress | None:
        """Return the next message, or None when none came within the given seconds.

        Raises OSError once the receiver is closed.
        """
        self._socket.settimeout(seconds)
        try:
            return Progress(**json.loads(self._socket.recv(65536)))
        except TimeoutError:
            return None

    def close(self) -> None:
        """Stop listening, and stop announcing it."""
        os.environ.pop(VARIABLE, None)
        self._socket.close()
        self._directory.cleanup()
