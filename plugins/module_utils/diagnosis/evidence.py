# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All evidence that a diagnosis needs beside the facts, gathered once. Nothing is changed, and nothing hangs.

Whatever may wait is read by a child with a deadline; a part that is late is named, and the others stand.
"""

from __future__ import annotations

import posixpath
import pwd
import socket
import time
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from ansible_collections.gpulab.node.plugins.module_utils.core.child import DONE, Child
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Job, Node
from ansible_collections.gpulab.node.plugins.module_utils.core.records import typed
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import for_people
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis import asked as pasted
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis import (
    keepers,
    libraries,
    machine,
    processes,
    reach,
    recorder,
)
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.shapes import (
    Busy,
    DiagnosisQuestion,
    Dump,
    Evidence,
    ExaminedProcess,
    ExtensionLock,
    GpuAtWork,
    Holding,
    Linked,
    Listener,
    MachineNow,
    Name,
    NcclLog,
    Proxy,
    PythonEnvironment,
    SearchedDirectory,
    Setting,
    Socket,
    Toolkit,
    TriedServer,
)
from ansible_collections.gpulab.node.plugins.module_utils.facts import pci, users
from ansible_collections.gpulab.node.plugins.module_utils.facts.processes import owner
from ansible_collections.gpulab.node.plugins.module_utils.nvml import library as nvml
from ansible_collections.gpulab.node.plugins.module_utils.nvml.query import NvmlQuery

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.module_utils.core.child import Emit

Kind = TypeVar("Kind")
PART_SECONDS = 15.0  # what one part may take
RENDEZVOUS_PORT = 29500  # PyTorch's own
_PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
_STACKS = 16  # processes whose stacks are read
_STACK_LINES = 12
_BUSY = 8  # processes that are named for their load


def gather(node: Node, asked: DiagnosisQuestion, own: int, timeout: float, library: str = nvml.LIBRARY) -> Evidence:
    """Return the evidence.

    own is the process that asks: what it started is left out. timeout is what the driver may take, in seconds.
    """
    started = time.monotonic()
    first = NvmlQuery(timeout, library)
    mounts = machine.MountsQuery(node, timeout)
    before = processes.table(node)
    parts = _Parts()
    parts.start("machine", lambda emit: emit({"machine": [asdict(machine.read(node))]}))
    gpus = first.facts()["gpus"]
    parts.start("processes", partial(processes.read, node, asked, _holders(node, own, gpus), own))
    parts.wait("processes")
    stuck = next((message["reading"] for message in reversed(parts.messages) if "reading" in message), None)
    records = {record["pid"]: typed(record, ExaminedProcess) for record in parts.named("process")}
    proxies = _start_for(parts, node, asked, list(records.values()))
    stacks = _stacks(asked, records)
    for part in ("libraries", "network", "flight recorder", "machine"):
        parts.wait(part)
    measured = mounts.evidence()

    time.sleep(max(0.0, asked.seconds - (time.monotonic() - started)))
    seconds = time.monotonic() - started
    later = {gpu["index"]: gpu for gpu in (NvmlQuery(timeout, library).facts()["gpus"] if gpus else [])}
    after = processes.table(node)
    return Evidence(
        seconds=round(seconds, 1),
        late=parts.late,
        stuck=stuck if "processes" in parts.late else None,
        gpus=[_gpu(gpu, later.get(gpu["index"], {})) for gpu in gpus],
        processes=[
            replace(_later(node, record, before, after, seconds), stack=stacks.get(pid, []))
            for pid, record in records.items()
        ],
        busy=_busy(node, before, after, seconds, own),
        waiting=parts.all("waiting", list[int]),
        locks=parts.all("locks", ExtensionLock),
        machine=next(iter(parts.all("machine", MachineNow)), MachineNow()),
        mounts=measured,
        settings=parts.all("settings", Setting),
        toolkits=parts.all("toolkits", Toolkit),
        directories=parts.all("directories", SearchedDirectory),
        linker=parts.all("linker", Linked),
        environments=parts.all("environments", PythonEnvironment),
        hostname=next(iter(parts.all("hostname", Name)), None),
        names=parts.all("names", Name),
        servers=parts.all("servers", TriedServer),
        listeners=parts.all("listeners", Listener),
        connecting=parts.all("connecting", Socket),
        dumps=parts.all("dumps", Dump),
        nccl_logs=parts.all("nccl_logs", NcclLog),
        proxies=proxies,
    )


class _Parts:
    """The parts that children read at one time; late are those that did not come to their end."""

    def __init__(self) -> None:
        self.late: list[str] = []
        self.messages: list[Any] = []
        self._children: dict[str, Child] = {}

    def start(self, part: str, work: Callable[[Emit], None]) -> None:
        self._children[part] = Child(work, PART_SECONDS)

    def wait(self, part: str) -> None:
        child = self._children[part]
        if child.wait() != DONE:
            self.late.append(part)
        self.messages += child.messages

    def named(self, name: str) -> list[Any]:
        return [message[name] for message in self.messages if name in message]

    def all(self, name: str, kind: type[Kind]) -> list[Kind]:
        """Return what all messages of this name list."""
        return [typed(item, kind) for items in self.named(name) for item in items]


def _holders(node: Node, own: int, gpus: list[dict[str, Any]]) -> list[int]:
    """Return the processes that have a GPU open or hold memory of one."""
    held = users.holders(node, own, pci.vfio_files(node))[0]
    return sorted({*held, *(entry["pid"] for gpu in gpus for entry in _processes(gpu))})


def _start_for(parts: _Parts, node: Node, asked: DiagnosisQuestion, records: list[ExaminedProcess]) -> list[Proxy]:
    """Start to read what depends on the processes; return the proxies that they are told of."""
    home = _home(asked.user)
    searched = [part for one in records for part in libraries.directories(one.environment.get("LD_LIBRARY_PATH", ""))]
    prefixes = _prefixes(node, asked.environment, records)
    parts.start("libraries", partial(libraries.read, node, prefixes, home[0], searched))
    names, servers, ports = network_of(asked, records)
    proxies = _proxies(node, records)
    servers += [(one.host, one.port) for one in proxies]
    parts.start("network", partial(reach.read, node, names, servers, ports))
    parts.start("flight recorder", partial(_recorded, node, asked, records, home))
    return proxies


def _processes(gpu: dict[str, Any]) -> list[dict[str, Any]]:
    found = gpu.get("processes")
    return found if isinstance(found, list) else []


def _number(reading: Any) -> Any:
    """Return a reading of NVML that is a number; None for one that it refused."""
    return None if isinstance(reading, dict) else reading


def _gpu(gpu: dict[str, Any], later: dict[str, Any]) -> GpuAtWork:
    """Return one GPU's memory and load, and who holds how much of it, at both readings."""
    memory, later_memory = gpu.get("memory_mib") or {}, later.get("memory_mib") or {}
    grown = {entry["pid"]: entry["memory_mib"] for entry in _processes(later)}
    utilization = later.get("utilization") or gpu.get("utilization") or {}
    power = later.get("power_mw") or gpu.get("power_mw") or {}
    return GpuAtWork(
        index=gpu["index"],
        bus_id=gpu.get("bus_id"),
        total_mib=_number(memory.get("total")),
        used_mib=_number(memory.get("used")),
        later_mib=_number(later_memory.get("used")),
        utilization=_number(utilization.get("gpu")),
        power_mw=_number(power.get("usage")),
        limit_mw=_number(power.get("enforced_limit")),
        holders=[Holding(one["pid"], one["memory_mib"], grown.get(one["pid"])) for one in _processes(gpu)],
    )


def _home(user: str | None) -> tuple[str | None, int | None]:
    """Return the home and the number of a user."""
    try:
        account = pwd.getpwnam(user) if user else None
    except KeyError:
        account = None
    return (account.pw_dir, account.pw_uid) if account else (None, None)


def _recorded(
    node: Node,
    asked: DiagnosisQuestion,
    records: list[ExaminedProcess],
    home: tuple[str | None, int | None],
    emit: Emit,
) -> None:
    """Read the dumps of the flight recorder and the logs of NCCL that these processes or this user may have written."""
    owned = [(record, owner(node, record.pid)) for record in records]
    directory, uid = home
    hostname = socket.gethostname().partition(".")[0]
    logs = [(record.pid, path, uid) for record, uid in owned if (path := recorder.log_file(record, hostname))]
    of_user = (directory, uid) if directory is not None and uid is not None else None
    recorder.read(node, recorder.places(owned, of_user, asked.dumps), logs, emit)


def _prefixes(node: Node, named: str | None, records: Iterable[ExaminedProcess]) -> list[str]:
    """Return the Python environments to look at: the one named (its directory or its interpreter), and processes'."""
    found = []
    if named:
        found.append(posixpath.dirname(posixpath.dirname(named)) if "/bin/" in named else named.rstrip("/"))
    found += [prefix for record in records if (prefix := prefix_of(node, record))]
    return list(dict.fromkeys(found))


def prefix_of(node: Node, record: ExaminedProcess) -> str | None:
    """Return the Python environment of a process; None for another program."""
    program = record.arguments.partition(" ")[0]
    name = posixpath.basename(record.executable or "")
    if not name.startswith("python") and not record.sites:
        return None
    if program.startswith("/") and posixpath.basename(program).startswith("python"):
        return posixpath.dirname(posixpath.dirname(program))
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        prefix = record.environment.get(variable)
        if prefix and node.is_dir(f"{prefix}/bin"):
            return prefix
    return posixpath.dirname(posixpath.dirname(record.executable)) if record.executable else None


def network_of(
    asked: DiagnosisQuestion, records: Iterable[ExaminedProcess]
) -> tuple[list[str], list[tuple[str, int]], list[int]]:
    """Return the names, servers and ports to look at: those of the error, the one asked for, and those of the job."""
    error = asked.error or ""
    names, servers, ports = pasted.names(error), pasted.addresses(error), pasted.taken_ports(error)
    if asked.address:
        host, _colon, port = asked.address.rpartition(":")
        servers.insert(0, (host, int(port)))
    for record in records:
        host, port = (record.environment.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT"))
        if host and port.isdigit():
            names.append(host)
            servers.append((host, int(port)))
            ports.append(int(port))
    names += [host for host, _port in servers]
    if pasted.taken_ports(error) == [] and pasted.is_taken(error):
        ports.append(RENDEZVOUS_PORT)
    return list(dict.fromkeys(names)), list(dict.fromkeys(servers)), list(dict.fromkeys(ports))


def _proxies(node: Node, records: Iterable[ExaminedProcess]) -> list[Proxy]:
    """Return the proxies that sessions and processes are told of."""
    variables = {}
    for line in node.text("/etc/environment").splitlines():
        name, equals, value = line.partition("=")
        if equals and name in _PROXIES:
            variables[name] = value.strip("\"'")
    for record in records:
        variables.update({name: value for name, value in record.environment.items() if name in _PROXIES})
    places = {name: reach.proxy(value) for name, value in variables.items() if value}
    return [Proxy(name, *place) for name, place in places.items() if place]


def _stacks(asked: DiagnosisQuestion, records: dict[int, ExaminedProcess]) -> dict[int, list[str]]:
    """Return the stacks of the processes asked for, as py-spy shows them, where it is there; it stops none of them."""
    if not (asked.pid or asked.user):
        return {}
    pids = [pid for pid, record in records.items() if record.sites][:_STACKS]
    jobs = {pid: Job(["py-spy", "dump", "--nonblocking", "--pid", str(pid)]) for pid in pids}
    texts = {pid: job.output() or "" for pid, job in jobs.items()}
    return {pid: _frames(text) for pid, text in texts.items()}


def _frames(text: str) -> list[str]:
    frames = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    return [for_people(frame) for frame in frames[:_STACK_LINES]]


def _cores(before: processes.Stat | None, after: processes.Stat | None, seconds: float) -> float:
    """Return how many processors a process kept busy between the readings."""
    if not before or not after or before.start != after.start:
        return 0.0
    return round((after.ticks - before.ticks) / processes.TICKS / seconds, 2)


def _later(
    node: Node,
    record: ExaminedProcess,
    before: dict[int, processes.Stat],
    after: dict[int, processes.Stat],
    seconds: float,
) -> ExaminedProcess:
    """Add what the last reading says of a process."""
    pid = record.pid
    return replace(
        record,
        cores=_cores(before.get(pid), after.get(pid), seconds),
        later_mib=processes.resident(node.text(f"/proc/{pid}/status")) if record.state != "Z" else 0,
        ended=pid not in after,
    )


def _busy(
    node: Node, before: dict[int, processes.Stat], after: dict[int, processes.Stat], seconds: float, own: int
) -> list[Busy]:
    """Name the processes that kept most processors busy, but for the system's first, gpulab's and this one's."""
    mine = {1, *processes.tree(own, after), *keepers.of_gpulab(node, own, after)}
    loads = {pid: _cores(before.get(pid), stat, seconds) for pid, stat in after.items() if pid not in mine}
    most = sorted(loads, key=lambda pid: -loads[pid])[:_BUSY]
    return [
        Busy(
            pid=pid,
            user=processes.owner(node, pid),
            command=after[pid].command,
            cores=loads[pid],
            keeper=keepers.keeper(node, pid, after[pid].parent, {}),
        )
        for pid in most
        if loads[pid]
    ]
