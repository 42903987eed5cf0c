# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node reports to Slurm's controller once a minute, and how it comes there.

MUNGE signs and encrypts a report, as it signs what Slurm's daemons say: the receiver knows that root of a node of the
cluster wrote it, takes none twice, and nobody else reads it. See https://github.com/dun/munge/wiki.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import one_line
from ansible_collections.gpulab.node.plugins.module_utils.driver.errors import judged
from ansible_collections.gpulab.node.plugins.module_utils.facts import kernel_log
from ansible_collections.gpulab.node.plugins.module_utils.monitoring.metrics import seconds_of
from ansible_collections.gpulab.node.plugins.module_utils.slurm_node import judge as gpus
from ansible_collections.gpulab.node.plugins.module_utils.slurm_node import programs
from ansible_collections.gpulab.node.plugins.module_utils.watch import looks
from ansible_collections.gpulab.node.plugins.module_utils.watch.looks import Memory, RankLook

DIRECTORY = Path("/run/gpulab-watch")
PORT = 6821  # Slurm's own are 6817 to 6820
SECONDS = 10.0  # what munge, and the network, may take
DRIVER_SECONDS = 5.0
MOST_BYTES = 1 << 20  # of a credential: more than MUNGE makes
WINDOW = 1800  # seconds of the kernel log that a report tells of
MOST = 50  # of each kind; the last ones count
_LOG = [*kernel_log.JOURNAL, f"--since=-{WINDOW}s"]
# mm/oom_kill.c, dump_oom_summary. The name of the program is its user's choice, and comes last.
_KILLED = re.compile(r"oom-kill:constraint=(?P<constraint>\w+),(?P<groups>[^ ]*?)task=.*,pid=\d+,uid=\d+")
_OF_JOB = re.compile(rf"task_memcg={looks.SLURMS_GROUP}(?:/|,)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Trouble:
    """An error of the driver or a GPU in the kernel log: when (seconds since 1970), how grave, and what it means."""

    time: float
    severity: str
    remedy: str
    meaning: str


@dataclass(frozen=True)
class Killed:
    """The kernel ended a program of a job (or of none: 0) for want of memory; whole: the node itself had none left."""

    time: float
    job: int
    whole: bool


@dataclass(frozen=True)
class Report:
    """What a node says: sent by its own clock, received by the controller's.

    readable tells whether it could read its kernel log; unfit has what makes its GPUs unfit for a job, a sentence each;
    ranks is None where they could not be looked at.
    """

    node: str
    sent: float
    readable: bool
    troubles: list[Trouble]
    killed: list[Killed]
    unfit: list[str]
    received: float = 0.0
    ranks: list[RankLook] | None = field(default=None, metadata=records.LATER)


def from_log(log: str, now: float) -> tuple[list[Trouble], list[Killed]]:
    """Return what a kernel log says of GPUs and of memory in the last half hour; lines without a time do not count."""
    troubles, killed = [], []
    for event in kernel_log.events(log):
        at = seconds_of(event["time"])
        if at is not None and at > now - WINDOW:
            of = judged(event)
            where = f" (GPU {event['bus_id']})" if event["bus_id"] else ""
            troubles.append(Trouble(at, of.severity, of.remedy, one_line(of.meaning + where)))
    for line in log.splitlines():
        found, at = _KILLED.search(line), seconds_of(line.partition(" ")[0])
        if found and at is not None and at > now - WINDOW:
            job = _OF_JOB.search(found["groups"])
            killed.append(Killed(at, int(job[1]) if job else 0, found["constraint"] != "CONSTRAINT_MEMCG"))
    return troubles[-MOST:], killed[-MOST:]


def read(node: Node, name: str, expected: int) -> Report:
    """Return the report of this node; expected is how many GPUs Slurm knows here. Takes ten seconds at most."""
    jobs = [node.start(command) for command in (_LOG, kernel_log.BUFFER)]
    found = gpus.findings(programs.answers(DRIVER_SECONDS), expected)
    logs = [job.output() for job in jobs]
    now = time.time()
    troubles, killed = from_log(kernel_log.joined(*(log or "" for log in logs)), now)
    return Report(name, now, any(log is not None for log in logs), troubles, killed, found, ranks=_looked(node, now))


def _looked(node: Node, now: float) -> list[RankLook] | None:
    """Look at the ranks of jobs, and remember it for the next look; None where that took too long."""
    path = DIRECTORY / "looks" / "memory.json"
    try:
        memory = records.read(path, dict[str, Memory], {})
    except Refusal:
        memory = {}
    seen = looks.Look(node).result(memory, now)
    if seen is None:
        return None
    kept, found = seen
    records.write(path, {name: asdict(one) for name, one in kept.items()}, 0o600)
    return found


def send(report: Report, address: str) -> None:
    """Send a report to the controller. Raises OSError or subprocess.SubprocessError where it does not come there."""
    text = json.dumps(asdict(report)).encode()
    sealed = subprocess.run(
        ["munge", "--restrict-uid=0"], input=text, stdout=subprocess.PIPE, check=True, timeout=SECONDS
    )
    with socket.create_connection((address, PORT), timeout=SECONDS) as connection:
        connection.sendall(sealed.stdout)


def opened(sealed: bytes) -> Report:
    """Return the report in a credential. Raises ValueError for one that root of no node of the cluster has made."""
    asked = ["unmunge", "--keys=UID", "--metadata=/dev/stderr", "--output=/dev/stdout"]
    done = subprocess.run(asked, input=sealed, capture_output=True, check=False, timeout=SECONDS)
    if done.returncode or not re.search(rb"^UID:\s+\S+ \(0\)$", done.stderr, re.MULTILINE):
        msg = "no credential of root's: " + one_line(done.stderr.decode("utf-8", "replace").strip())[:200]
        raise ValueError(msg)
    report: Report = records.typed(json.loads(done.stdout), Report)
    if not _NAME.fullmatch(report.node):
        msg = f"no name of a node: {one_line(report.node)[:200]}"
        raise ValueError(msg)
    return report


def receive() -> None:
    """Keep the report that comes over standard input: the program of a connection to the controller."""
    sealed = sys.stdin.buffer.read(MOST_BYTES)
    if sealed:
        report = opened(sealed)
        kept = {**asdict(report), "received": time.time()}
        records.write(DIRECTORY / f"{report.node}.json", kept, 0o600)


def kept(directory: Path = DIRECTORY) -> dict[str, Report]:
    """Return the last report of each node by its name; one that cannot be read is none."""
    found = {}
    for path in sorted(directory.glob("*.json")):
        with contextlib.suppress(OSError, ValueError):
            found[path.stem] = records.typed(json.loads(path.read_text(encoding="utf-8")), Report)
    return found


def main(arguments: list[str]) -> None:
    """Report this node to the controller: its address, and the number of GPUs that Slurm knows here."""
    address, expected = arguments[0], int(arguments[1])
    send(read(Node(), _name(), expected), address)


def _name() -> str:
    """Return what Slurm calls this node: its host name, without its domain."""
    return socket.gethostname().partition(".")[0]
