# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node's part of RDMA between pairs of nodes: meet the others, run perftest with one after the other, report.

All meet at the first node. The nodes of a pair then talk to each other by TCP, at the same port of one of them: each
step's server is there before its client is, and both know when it ended. Servers listen at the node's own address, at
an ephemeral port, for the time of one step.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.active import programs, roll_call

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.active.shapes import Ended, OnRail, Over, WithPeer

WRITE, SEND = "ib_write_bw", "ib_send_lat"
BINDS = "--bind_source_ip"
QP_TIMEOUT = "--qp-timeout=20"  # 4 s until a packet is sent again, as NCCL waits (NCCL_IB_TIMEOUT); perftest's is 67 ms
# Each step's program, and whether the node that the other comes to is its server: writes go both ways.
STEPS = ((WRITE, True), (WRITE, False), (SEND, True))
HELP_SECONDS = 10.0
START_SECONDS = 10.0  # for a server to listen
PATIENCE = 5.0  # longer than a program may take, for the other node to say how it ended
PAUSE = 0.5
LINE = 65536
_ROW = re.compile(r"^ *\d+ +\d+ +[\d.]+.*$", re.MULTILINE)
_MTU = re.compile(r"Mtu +: (\d+)\[B\]")
_AVERAGE, _TYPICAL = 3, 4  # columns of perftest: Gb/s of ib_write_bw, microseconds of ib_send_lat
NOT_YET = "Couldn't connect"  # what a client says whose server does not listen yet


@dataclass(frozen=True)
class Rail:
    """A port of an adapter, and the index of its address; None where the fabric needs none."""

    device: str
    port: int
    gid: int | None


@dataclass(frozen=True)
class Round:
    """With whom, at which address, who of the two is come to, and how many rails they have in common."""

    peer: str
    address: str
    host: bool
    rails: int


@dataclass(frozen=True)
class Part:
    """What this node does: nodes in order, the first has address; rounds are those of all, None where it has a rest.

    seconds is how long nodes wait for each other, step_seconds what one program may take.
    """

    nodes: tuple[str, ...]
    name: str
    address: str
    port: int
    run: str
    own_address: str
    rails: tuple[Rail, ...]
    rounds: tuple[Round | None, ...]
    seconds: float = 60.0
    step_seconds: float = 30.0


@dataclass(frozen=True)
class Step:
    """A program over a rail, and whether this node is its server."""

    rail: Rail
    tool: str
    serves: bool


class GoneError(Exception):
    """The other node of a pair is not there, or not any more."""


def measure(part: Part) -> Over:
    """Return the record: ``state`` is done (``pairs``), failed (``error``) or unreachable (``reason``: the first node).

    Where perftest keeps this node from it, ``state`` is not_installed or too_old (``reason``).
    Of each pair, ``state`` is done (``rails``), missing (``reason``) or lost (``reason``). Of each rail and step,
    ``state`` is done, failed or late, with ``write_gbps`` (10^9 bits a second) or ``latency_us``, and ``mtu`` in bytes.
    """
    lacks = _lacks()
    why = lacks.get("reason")
    call = roll_call.RollCall(part.nodes, part.name, part.address, part.port, f"{part.run} rdma", part.seconds, why)
    about: Over = {"name": part.name, "nodes": list(part.nodes), "meeting_point": call.meeting_point}
    try:
        met = roll_call.attend(call)
    except OSError as error:
        return {**about, **call.failed(error)}
    if lacks:
        return {**about, **lacks}
    if "unreachable" in met:
        return {**about, "state": "unreachable", "reason": met["unreachable"]}
    began = time.monotonic()
    longest = len(STEPS) * (part.step_seconds + PATIENCE) * max((one.rails for one in part.rounds if one), default=0)
    pairs: list[WithPeer] = []
    for number, one in enumerate(part.rounds, start=1):
        if one and one.peer in met["missing"]:
            pairs.append({"peer": one.peer, "state": "missing", "reason": met["missing"][one.peer]})
        elif one:
            pairs.append(_with_peer(part, one, began + number * (longest + PATIENCE)))
    return {**about, "state": "done", "pairs": pairs}


def _lacks() -> Over:
    """Return the state and the reason where this node's perftest does not do; nothing where it does."""
    lacking = [tool for tool in (WRITE, SEND) if not shutil.which(tool)]
    if lacking:
        return {"state": "not_installed", "reason": f"{lacking[0]} is not installed (package perftest)"}
    told = programs.Program([WRITE, "--help"], HELP_SECONDS).finish()
    if BINDS in told["output"]:
        return {}
    # Without it, a server would listen at all addresses.
    return {"state": "too_old", "reason": f"its perftest is too old: {WRITE} does not know {BINDS}"}


def _with_peer(part: Part, one: Round, end: float) -> WithPeer:
    """Run all steps with one other node, over each rail that both have."""
    rails: list[OnRail] = []
    try:
        with contextlib.closing(_meet(part, one, end)) as talk:
            for rail in part.rails[: one.rails]:
                for tool, hosts in STEPS:
                    record = _step(part, one, Step(rail, tool, serves=hosts == one.host), talk)
                    rails.append({"device": rail.device, "port": rail.port, "test": tool, **record})
    except (GoneError, OSError) as error:
        return {"peer": one.peer, "state": "lost", "reason": str(error), "rails": rails}
    return {"peer": one.peer, "state": "done", "rails": rails}


class Talk:
    """Lines of JSON between the nodes of a pair."""

    def __init__(self, other: socket.socket) -> None:
        """Talk over a connection."""
        self._other = other
        self._lines = other.makefile("rb")

    def close(self) -> None:
        """End the connection."""
        self._lines.close()
        self._other.close()

    def tell(self, **said: Any) -> None:
        """Say something. Raises GoneError."""
        try:
            self._other.sendall(json.dumps(said).encode() + b"\n")
        except OSError as error:
            raise GoneError(error.strerror or str(error)) from error

    def hear(self, seconds: float) -> dict[str, Any]:
        """Return what the other node says within seconds. Raises GoneError."""
        self._other.settimeout(seconds)
        try:
            said = json.loads(self._lines.readline(LINE))
        except (OSError, ValueError) as error:
            raise GoneError(getattr(error, "strerror", None) or "the connection ended") from error
        return said if isinstance(said, dict) else {}


def _meet(part: Part, one: Round, end: float) -> Talk:
    """Connect the nodes of a pair until end, in seconds of the monotonic clock. Raises GoneError, OSError."""
    why = f"did not come to {part.own_address} port {part.port}"
    hello = {"run": part.run, "name": part.name}
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server((part.own_address, part.port))) if one.host else None
        while (left := end - time.monotonic()) > 0:
            try:
                talk = _accepted(server, left) if server else _connected(one.address, part.port, left)
                talk.tell(**hello)
                said = talk.hear(roll_call.ATTEMPT)
            except (OSError, GoneError) as error:  # nobody came; or the first node still calls the roll at that port
                why = why if server else f"{one.address} port {part.port}: {getattr(error, 'strerror', None) or error}"
                time.sleep(PAUSE)
                continue
            if said == {**hello, "name": one.peer}:
                return talk
            talk.close()
    raise GoneError(why)


def _accepted(server: socket.socket, seconds: float) -> Talk:
    server.settimeout(seconds)
    return Talk(server.accept()[0])


def _connected(address: str, port: int, seconds: float) -> Talk:
    return Talk(socket.create_connection((address, port), timeout=min(roll_call.ATTEMPT, seconds)))


def _step(part: Part, one: Round, step: Step, talk: Talk) -> OnRail:
    """Run one program of perftest, as its server or as its client."""
    rail, tool = step.rail, step.tool
    argv = [tool, f"--ib-dev={rail.device}", f"--ib-port={rail.port}", "-F", BINDS, part.own_address, QP_TIMEOUT]
    argv += [f"--gid-index={rail.gid}"] if rail.gid is not None else []
    argv += ["--report_gbits", "--duration=2"] if tool == WRITE else ["--iters=100"]
    if step.serves:
        port = _free_port(part.own_address)
        program = programs.Program([*argv, f"--port={port}"], part.step_seconds)
        try:
            talk.tell(port=port)
            if talk.hear(part.step_seconds + PATIENCE).get("state") != "done":
                program.stop()
            return _measured(tool, program.finish())
        finally:
            program.stop()  # whatever happens, nothing of this node listens on
    named = talk.hear(part.step_seconds + PATIENCE).get("port")
    ended: Ended = {"state": "failed", "error": {"code": None, "name": "the other node named no port"}, "output": ""}
    if isinstance(named, int):
        ended = _client([*argv, f"--port={named}", one.address], part.step_seconds)
    talk.tell(state=ended["state"])
    return _measured(tool, ended)


def _client(argv: list[str], seconds: float) -> Ended:
    """Run a client, again as long as its server does not listen yet."""
    end = time.monotonic() + min(START_SECONDS, seconds)
    while True:
        ended = programs.Program(argv, seconds).finish()
        if NOT_YET not in ended.get("error", {}).get("name", "") or time.monotonic() > end:
            return ended
        time.sleep(PAUSE)


def _free_port(address: str) -> int:
    with socket.create_server((address, 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _measured(tool: str, ended: Ended) -> OnRail:
    """Put what perftest printed into the record of a step."""
    output = ended.pop("output", "")
    mtu, rows = _MTU.search(output), _ROW.findall(output)
    record: Any = dict(ended)
    if mtu:
        record["mtu"] = int(mtu[1])
    fields = rows[-1].split() if rows else []
    name, column = ("write_gbps", _AVERAGE) if tool == WRITE else ("latency_us", _TYPICAL)
    if ended["state"] == "done" and len(fields) > column:
        record[name] = float(fields[column])
    elif ended["state"] == "done":
        record.update(state="failed", error={"code": None, "name": f"{tool} printed no result"})
    plain: OnRail = record
    return plain
