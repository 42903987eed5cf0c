# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ranks of jobs on a node do: a look a minute, and since when nothing of it has changed.

Three things are looked at: the stacks (those of Python by py-spy, where it is on the node, else where the threads wait
in the kernel), the bytes of the rank's TCP connections and of the node's InfiniBand, and the bytes that it read and
wrote. How busy a GPU is says nothing: who waits for another rank may spin. Jobs of one rank are not looked at.

Everything is read from /proc, as root; no file is opened whose name a user gave.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Callable

from ansible_collections.gpulab.node.plugins.module_utils.core.child import DONE, Child
from ansible_collections.gpulab.node.plugins.module_utils.core.records import typed
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis import processes
from ansible_collections.gpulab.node.plugins.module_utils.facts.processes import owner

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.core.child import Emit
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

ALL = STACKS, NETWORK, FILES = "stacks", "network", "files"
SIGNS_OF_LIFE = 1000  # bytes a second, such as those by which PyTorch's ranks ask its store whether one has given up
SECONDS = 35.0  # what the looks of one minute may take: reading of a process that is stuck in the kernel can hang
APART = 25  # seconds that two looks have to be apart to count as two
MOST_LINES = 2000  # of one stack
BUSY = 0.02  # cores: a rank that uses more stands nowhere, as far as the kernel can tell
COLLECTIVE_WORDS, STARTING_WORDS = "a collective operation", "init_process_group"
COLLECTIVE = re.compile(
    r"\b(?:all_reduce|all_gather|reduce_scatter|all_to_all|broadcast|barrier|_wait_for_work|monitored_barrier)\w*\b"
)
STARTING = re.compile(r"\binit_process_group \(")  # where the ranks of PyTorch wait until all have come
# Control groups of Slurm's, from the root on: people may make some of the same names below their own.
SLURMS_GROUP = r"/(?:slurm[^/]*(?:/uid_\d+)?|system\.slice/[^/]*slurmstepd\.scope)/job_(\d{1,10})"
_STEP = re.compile(rf":{SLURMS_GROUP}/step_(\w+)")
_INODE, _BYTES = re.compile(r"\bino:(\d+)"), re.compile(r"\bbytes_(?:sent|acked|received):(\d+)")
_SOCKET = re.compile(r"socket:\[(\d+)\]\Z")
_MOVED = "moved"
# The user may write to what py-spy prints on, as it is his own process.
_BOUNDED = '"$@" 2>/dev/null | head -c 1000000'
PYTHON = ("python", "pt_main")  # what PyTorch calls its own
MOST_PROCESSES, MOST_RANKS = 512, 64  # of one user who has no job of Slurm's

Members = dict[tuple[int, int, int], list[int]]  # of each job, rank and size the processes
Find = Callable[["Node", "Mapping[int, processes.Stat]"], Members]
Names = tuple[str, str]


@dataclass(frozen=True)
class RankLook:
    """A rank of a job: its process and its state as in proc(5), and what it stands in, as far as its stack says.

    quiet has since when nothing changed (seconds since 1970), by what was looked at; looks is how many looks at its
    stacks were equal; longest is the longest time, in seconds, for which it has stood still and then gone on.
    """

    job: int
    rank: int
    size: int
    pid: int
    state: str
    at: str
    looks: int
    quiet: dict[str, float]
    longest: float

    @property
    def still_since(self) -> float | None:
        """Return since when it stands still, in all that is looked at."""
        return standing(self.quiet)


@dataclass(frozen=True)
class Memory:
    """What the last look at a process saw: marks by what was looked at, and since when they are so."""

    marks: dict[str, str] = field(default_factory=dict)
    since: dict[str, float] = field(default_factory=dict)
    looks: int = 0
    counted: float = 0.0
    longest: float = 0.0
    ticks: int = 0
    time: float = 0.0


@dataclass(frozen=True)
class Seen:
    """A rank as one look finds it; marks are the same as long as nothing moves, and absent where nobody can tell."""

    job: int
    rank: int
    size: int
    pid: int
    start: int
    state: str
    at: str
    ticks: int
    marks: dict[str, str]

    @property
    def key(self) -> str:
        """Return what no other process is called until the next boot."""
        return f"{self.pid}.{self.start}"


def standing(quiet: Mapping[str, float]) -> float | None:
    """Return since when all three have been quiet; None where that is not so."""
    return max(quiet.values()) if len(quiet) == len(ALL) else None


def _same(name: str, before: str, mark: str, seconds: float) -> bool:
    """Tell whether nothing has moved between two looks; a few bytes on the network are no work, but signs of life."""
    if name != NETWORK or not before:
        return before == mark
    return 0 <= int(mark) - int(before) <= SIGNS_OF_LIFE * seconds


def compare(seen: Iterable[Seen], memory: Mapping[str, Memory], now: float) -> tuple[dict[str, Memory], list[RankLook]]:
    """Return what to remember of these ranks, and what is said of them, by what was remembered so far.

    What a rank does not have now, or had not at the last look, is not quiet: a silence begins with the second look.
    """
    kept, looks = {}, []
    for one in seen:
        was = memory.get(one.key, Memory())
        marks = dict(one.marks)
        if marks.get(STACKS, "").startswith("kernel") and one.ticks - was.ticks > BUSY * processes.TICKS * (
            now - was.time
        ):
            marks[STACKS] = f"{_MOVED} {now}"
        same = {name for name in marks if _same(name, was.marks.get(name, ""), marks[name], now - was.time)}
        since = {name: was.since[name] if name in same else now for name in marks}
        quiet = {name: since[name] for name in same}
        before, after = standing({name: at for name, at in was.since.items() if at < was.time}), standing(quiet)
        ended = before is not None and (after is None or after > before)
        longest = max(was.longest, was.time - before) if ended and before is not None else was.longest
        if STACKS not in same:
            equal, counted = 1, now
        elif now - was.counted >= APART:
            equal, counted = was.looks + 1, now
        else:
            equal, counted = was.looks, was.counted
        kept[one.key] = Memory(marks, since, equal, counted, longest, one.ticks, now)
        looks.append(RankLook(one.job, one.rank, one.size, one.pid, one.state, one.at, equal, quiet, longest))
    return kept, looks


class Look:
    """A look at ranks that has begun, in a child with a deadline; find says which processes are whose."""

    def __init__(self, node: Node, seconds: float = SECONDS, find: Find | None = None) -> None:
        """Begin it."""
        self._child = Child(lambda emit: _read(node, emit, find or of_slurm), seconds)

    def result(self, memory: Mapping[str, Memory], now: float) -> tuple[dict[str, Memory], list[RankLook]] | None:
        """Return what compare does; None where not all ranks could be looked at in time: none of them is gone then."""
        if self._child.wait() != DONE:
            return None
        return compare([typed(one, Seen) for one in self._child.messages], memory, now)


def of_slurm(node: Node, table: Mapping[int, processes.Stat]) -> Members:
    """Return the ranks of Slurm's jobs."""
    members: dict[tuple[int, str], list[int]] = {}
    for pid in sorted(table, key=lambda one: table[one].start):
        place = _STEP.search(node.text(f"/proc/{pid}/cgroup"))
        if place and place[2] != "extern" and table[pid].command != "slurmstepd":
            members.setdefault((int(place[1]), place[2]), []).append(pid)
    found: dict[tuple[int, int], list[int]] = {}
    sizes: dict[tuple[int, int], int] = {}
    for (job, step), pids in members.items():
        for pid in pids:
            told = _rank(node, pid, step)
            if told:
                found.setdefault((job, told[0]), []).append(pid)
                sizes[job, told[0]] = told[1]
    return {(*key, sizes[key]): pids for key, pids in found.items()}


def of_torchrun(node: Node, table: Mapping[int, processes.Stat], uid: int) -> Members:
    """Return the ranks that torchrun has started for a user here, by their places on this node; a job is its process.

    Whose parent is another user's, or a rank itself, is none: nobody makes ranks of the job of others.
    """
    own = [pid for pid, stat in table.items() if stat.command.startswith(PYTHON) and owner(node, pid) == uid]
    told = {pid: _told(node, pid, _LOCAL) for pid in sorted(own, key=lambda one: table[one].start)[:MOST_PROCESSES]}
    found: Members = {}
    for pid, pair in told.items():
        parent = table[pid].parent
        launched = parent in table and owner(node, parent) == uid and not _told(node, parent, _LOCAL)
        if pair and launched and not _STEP.search(node.text(f"/proc/{pid}/cgroup")):
            found.setdefault((parent, *pair), []).append(pid)
    return dict([*found.items()][:MOST_RANKS])


def _read(node: Node, emit: Emit, find: Find) -> None:
    """Emit each rank: what can hang its reader is read last of each."""
    table = processes.table(node)
    found = find(node, table)
    sockets, fabric = connections(node), _fabric(node)
    for (job, rank, size), pids in found.items():
        pid = next((one for one in pids if table[one].command.startswith(PYTHON)), pids[0])
        stat = table[pid]
        stack = _python_stack(node, pid)
        marks = {
            STACKS: f"python {_digest(stack)}" if stack else f"kernel {_digest(_kernel_stack(node, pid))}",
            NETWORK: str(exchanged(node, pid, sockets) + fabric),
            FILES: _files(node, pid),
        }
        at = COLLECTIVE_WORDS if any(map(COLLECTIVE.search, stack)) else stack[0] if stack else ""
        at = STARTING_WORDS if any(map(STARTING.search, stack)) else at
        seen = Seen(job, rank, size, pid, stat.start, stat.state, at[:200], stat.ticks, marks)
        emit(asdict(replace(seen, marks={name: mark for name, mark in marks.items() if mark})))


def _rank(node: Node, pid: int, step: str) -> tuple[int, int] | None:
    """Return rank and size of what a process belongs to, by what torchrun said, or else srun; None for a single one."""
    return _told(node, pid, _TORCHRUN, _SRUN if step.isdigit() else None)


def _told(node: Node, pid: int, names: Names, otherwise: Names | None = None) -> tuple[int, int] | None:
    """Return the number and the count that the environment of a process has by these names, or by the others."""
    pairs = (one.partition("=")[::2] for one in node.text(f"/proc/{pid}/environ").split("\0"))
    told = {
        name: value
        for name, value in pairs
        if name in (*names, *(otherwise or ())) and value.isdigit() and len(value) < 8  # noqa: PLR2004
    }
    wanted = names if names[0] in told else otherwise or ()
    numbers = [int(told[name]) for name in wanted if name in told]
    return (numbers[0], numbers[1]) if len(numbers) == 2 and numbers[0] < numbers[1] > 1 else None  # noqa: PLR2004


_TORCHRUN, _SRUN = ("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")
_LOCAL = ("LOCAL_RANK", "LOCAL_WORLD_SIZE")


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "replace")).hexdigest()[:16]


def _python_stack(node: Node, pid: int) -> list[str]:
    """Return the frames of all threads, the innermost first; none where py-spy is not there. It stops no thread.

    It reads what the program may have made up, so it runs as the user, and where the kernel forbids that, nobody does.
    """
    try:
        status = node.path(f"/proc/{pid}").stat()
    except OSError:  # it has just ended
        return []
    as_user = ["setpriv", f"--reuid={status.st_uid}", f"--regid={status.st_gid}", "--clear-groups", "--no-new-privs"]
    dump = [*as_user, "py-spy", "dump", "--nonblocking", "--pid", str(pid)]
    text = node.start(["sh", "-c", _BOUNDED, "sh", *dump]).output() or ""
    return [line.strip() for line in text.splitlines()[:MOST_LINES] if line.startswith("    ")]


def _kernel_stack(node: Node, pid: int) -> list[str]:
    """Return where each thread waits in the kernel."""
    names = node.names(f"/proc/{pid}/task")
    stats = {name: processes.Stat(node.text(f"/proc/{pid}/task/{name}/stat")).state for name in names}
    return [f"{name} {stats[name]} {node.text(f'/proc/{pid}/task/{name}/wchan')}" for name in names]


def connections(node: Node) -> dict[str, int]:
    """Return the bytes of each TCP connection of the node, by its inode."""
    text = node.start(["ss", "--tcp", "--numeric", "--extended", "--info", "--oneline", "--no-header"]).output() or ""
    found = {}
    for line in text.splitlines():
        inode = _INODE.search(line)
        if inode:
            found[inode[1]] = sum(map(int, _BYTES.findall(line)))
    return found


def _fabric(node: Node) -> int:
    """Return what all ports of InfiniBand have sent and received, which no process is told of."""
    top = "/sys/class/infiniband"
    return 4 * sum(  # they count words of four bytes
        node.number(f"{top}/{device}/ports/{port}/counters/{name}") or 0
        for device in node.names(top)
        for port in node.names(f"{top}/{device}/ports")
        for name in ("port_xmit_data", "port_rcv_data")
    )


def exchanged(node: Node, pid: int, sockets: Mapping[str, int]) -> int:
    """Return the bytes of all connections that a process has open."""
    names = node.names(f"/proc/{pid}/fd")[: processes.MOST_FILES]
    held = (_SOCKET.match(node.link(f"/proc/{pid}/fd/{name}") or "") for name in names)
    return sum(sockets.get(one[1], 0) for one in held if one)


def _files(node: Node, pid: int) -> str:
    """Return what a process has read and written, by its calls and at its disks; empty where that cannot be read."""
    told: dict[str, Any] = dict(line.partition(": ")[::2] for line in node.text(f"/proc/{pid}/io").splitlines())
    return " ".join(told[name] for name in ("rchar", "wchar", "write_bytes") if name in told)
