# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions to Docker's daemon over its socket; its command line need not be there. Nothing is changed.

See https://docs.docker.com/reference/api/engine/.
"""

from __future__ import annotations

import http
import http.client
import json
import socket
import time
import urllib.parse
from typing import Any

SOCKET = "/run/docker.sock"
SECONDS = 20


class NoAnswerError(Exception):
    """The daemon does not answer, or not as it should."""

    def __init__(self, question: str, detail: object) -> None:
        """Say what was asked, and what came of it."""
        super().__init__(f"{question}: {detail}")


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__("docker", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ask(question: str, path: str = SOCKET, seconds: float = SECONDS) -> Any:
    """Return the daemon's answer to a question such as "/info"; None for what is not there. Raises NoAnswerError."""
    text = _answer(question, path, seconds)
    try:
        return None if text is None else json.loads(text)
    except ValueError as error:
        raise NoAnswerError(question, error) from error


def _answer(question: str, path: str, seconds: float) -> str | None:
    connection = _Connection(path, seconds)
    try:
        connection.request("GET", question)
        response = connection.getresponse()
        if response.status == http.HTTPStatus.NOT_FOUND:
            return None
        if response.status != http.HTTPStatus.OK:
            raise NoAnswerError(question, f"status {response.status}")
        return response.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswerError(question, error) from error
    finally:
        connection.close()


def has_reloaded(since: float, path: str = SOCKET) -> bool:
    """Tell whether the daemon has reloaded since a time, and did not refuse to. Raises NoAnswerError."""
    filters = urllib.parse.quote(json.dumps({"type": ["daemon"], "event": ["reload"]}))
    question = f"/events?since={since:.9f}&until={time.time():.9f}&filters={filters}"
    return bool((_answer(question, path, SECONDS) or "").strip())


def running_containers(path: str = SOCKET) -> list[dict[str, Any]]:
    """Return what the daemon knows of each running container, as docker inspect shows it. Raises NoAnswerError."""
    found = [ask(f"/containers/{one['Id']}/json", path) for one in ask("/containers/json", path)]
    return [container for container in found if container]  # one may have ended meanwhile
