# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let the nodes of a common run meet before it begins: who cannot come is named, and nobody waits without end.

The first node listens where the run itself will meet; each other one connects, says its name, and hears who is missing.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.active.shapes import Ended, Met

PAUSE = 0.3  # seconds between two attempts to connect
ATTEMPT = 5.0  # seconds for one of them
PATIENCE = 10.0  # seconds longer than the first node waits, for its answer
LINE = 65536


@dataclass(frozen=True)
class RollCall:
    """Who comes where: nodes in order, the first of them has address; name is this node, run tells runs apart.

    cannot is why this node comes but cannot take part; None where it can.
    """

    nodes: tuple[str, ...]
    name: str
    address: str
    port: int
    run: str
    seconds: float
    cannot: str | None = None

    @property
    def meeting_point(self) -> str:
        """Return where all come, for people."""
        return f"{self.address} port {self.port}"

    def failed(self, error: OSError) -> Ended:
        """Return the record of a node that could not take part in it."""
        why = f"{self.meeting_point}: {error.strerror or error}"
        return {"state": "failed", "error": {"code": None, "name": why}}


def attend(call: RollCall) -> Met:
    """Return {"missing": {name: why}}, empty where all came; {"unreachable": why} where the first node was not met.

    Raises OSError on the first node where it cannot listen there.
    """
    return _host(call) if call.name == call.nodes[0] else _guest(call)


def _host(call: RollCall) -> Met:
    end = time.monotonic() + call.seconds
    expected = set(call.nodes[1:])
    came: dict[str, socket.socket] = {}
    missing = {call.name: call.cannot} if call.cannot else {}
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server((call.address, call.port), backlog=len(call.nodes)))
        while expected - came.keys() and time.monotonic() < end:
            server.settimeout(max(0.01, end - time.monotonic()))
            with contextlib.suppress(OSError, ValueError):  # nobody came, or somebody who is not expected
                guest = stack.enter_context(server.accept()[0])
                guest.settimeout(ATTEMPT)
                said = _heard(guest)
                if said.get("run") == call.run and said.get("name") in expected:
                    came[said["name"]] = guest
                    missing.update({said["name"]: said["cannot"]} if said.get("cannot") else {})
        late = f"did not reach {call.address} port {call.port} within {call.seconds:g} s"
        missing.update(dict.fromkeys(sorted(expected - came.keys()), late))
        for guest in came.values():
            with contextlib.suppress(OSError):
                guest.sendall(json.dumps({"missing": missing}).encode() + b"\n")
                guest.recv(1)  # its end comes first, so that the port is free at once
    return {"missing": missing}


def _guest(call: RollCall) -> Met:
    end, why = time.monotonic() + call.seconds, "no attempt was made"
    hello = json.dumps({"run": call.run, "name": call.name, "cannot": call.cannot}).encode() + b"\n"
    while time.monotonic() < end:
        left = end - time.monotonic()
        try:
            with socket.create_connection((call.address, call.port), timeout=max(0.1, min(ATTEMPT, left))) as host:
                host.sendall(hello)
                host.settimeout(left + PATIENCE)
                return {"missing": dict(_heard(host)["missing"])}
        except (OSError, ValueError, KeyError) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        time.sleep(PAUSE)
    return {"unreachable": why}


def _heard(peer: socket.socket) -> dict[str, Any]:
    """Read one line of JSON. Raises OSError and ValueError."""
    with peer.makefile("rb") as stream:
        said = json.loads(stream.readline(LINE))
    if not isinstance(said, dict):
        message = "not a roll call message"
        raise ValueError(message)  # noqa: TRY004 - as of json.loads
    return said
