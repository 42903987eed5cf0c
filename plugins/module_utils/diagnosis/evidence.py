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
from functools import partial
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.child import DONE, Child
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Job, Node
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
from ansible_collections.gpulab.node.plugins.module_utils.facts import pci, users
from ansible_collections.gpulab.node.plugins.module_utils.facts.processes import owner
from ansible_collections.gpulab.node.plugins.module_utils.nvml import library as nvml
from ansible_collections.gpulab.node.plugins.module_utils.nvml.query import NvmlQuery

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.module_utils.core.child import Emit

PART_SECONDS = 15.0  # what one part may take
RENDEZVOUS_PORT = 29500  # PyTorch's own
_PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
_STACKS = 16  # processes whose stacks are read
_STACK_LINES = 12
_BUSY = 8  # processes that are named for their load


def gather(node: Node, asked: dict[str, Any], own: int, timeout: float, library: str = nvml.LIBRARY) -> dict[str, Any]:
    """Return the evidence; plugin_utils/diagnosis/model.py tells its form.

    asked has "pid", "user", "error", "environment", "address", "dumps", each may be None, and "seconds" to measure.
    own is the process that asks: what it started is left out. timeout is what the driver may take, in seconds.
    """
    started = time.monotonic()
    first = NvmlQuery(timeout, library)
    mounts = machine.MountsQuery(node, timeout)
    before = processes.table(node)
    found_machine = Child(lambda emit: emit(machine.read(node)), PART_SECONDS)
    gpus = first.facts()["gpus"]
    held = users.holders(node, own, pci.vfio_files(node))[0]
    holders = sorted({*held, *(entry["pid"] for gpu in gpus for entry in _processes(gpu))})
    late: list[str] = []

    reader = Child(partial(processes.read, node, asked, holders, own), PART_SECONDS)
    of_processes = _messages(reader, "processes", late)
    records = {message["process"]["pid"]: message["process"] for message in of_processes if "process" in message}
    stuck = next((message["reading"] for message in reversed(of_processes) if "reading" in message), None)
    home, uid = _home(asked.get("user"))
    reading = partial(
        libraries.read,
        node,
        _prefixes(node, asked.get("environment"), records.values()),
        home,
        [
            path
            for record in records.values()
            for path in libraries.directories(record["environment"].get("LD_LIBRARY_PATH", ""))
        ],
    )
    libraries_child = Child(reading, PART_SECONDS)
    names, servers, ports = network_of(asked, records.values())
    proxies = _proxies(node, records.values())
    reach_child = Child(
        partial(reach.read, node, names, [*servers, *(proxy[1] for proxy in proxies)], ports), PART_SECONDS
    )
    recorder_child = Child(partial(_recorded, node, asked, list(records.values()), (home, uid)), PART_SECONDS)
    stacks = _stacks(asked, records)
    of_libraries = _messages(libraries_child, "libraries", late)
    of_reach = _messages(reach_child, "network", late)
    of_recorder = _messages(recorder_child, "flight recorder", late)
    of_machine = _messages(found_machine, "machine", late)
    measured = mounts.evidence()

    time.sleep(max(0.0, asked["seconds"] - (time.monotonic() - started)))
    seconds = time.monotonic() - started
    later = {gpu["index"]: gpu for gpu in (NvmlQuery(timeout, library).facts()["gpus"] if gpus else [])}
    after = processes.table(node)
    for record in records.values():
        pid = record["pid"]
        record["cores"] = _cores(before.get(pid), after.get(pid), seconds)
        record["later_mib"] = _resident(node, pid) if record["state"] != "Z" else 0
        record["stack"] = stacks.get(pid, [])
        record["ended"] = pid not in after
    return {
        "seconds": round(seconds, 1),
        "late": late,
        "stuck": stuck if "processes" in late else None,
        "gpus": [_gpu(gpu, later.get(gpu["index"], {})) for gpu in gpus],
        "processes": list(records.values()),
        "busy": _busy(node, before, after, seconds, own),
        "waiting": _all(of_processes, "waiting"),
        "locks": _all(of_processes, "locks"),
        "machine": of_machine[0] if of_machine else None,
        "mounts": measured,
        "settings": _all(of_libraries, "settings"),
        "toolkits": _all(of_libraries, "toolkits"),
        "directories": _all(of_libraries, "directories"),
        "linker": _all(of_libraries, "linker"),
        "environments": [message["environment"] for message in of_libraries if "environment" in message],
        "hostname": next((message["hostname"] for message in of_reach if "hostname" in message), None),
        "names": [message["name"] for message in of_reach if "name" in message],
        "servers": [message["server"] for message in of_reach if "server" in message],
        "listeners": _all(of_reach, "listeners"),
        "connecting": _all(of_reach, "sockets"),
        "dumps": [message["dump"] for message in of_recorder if "dump" in message],
        "nccl_logs": [message["log"] for message in of_recorder if "log" in message],
        "proxies": [{"variable": variable, "host": host, "port": port} for variable, (host, port) in proxies],
    }


def _messages(child: Child, part: str, late: list[str]) -> list[Any]:
    if child.wait() != DONE:
        late.append(part)
    return child.messages


def _all(messages: list[Any], key: str) -> list[Any]:
    return [one for message in messages if key in message for one in message[key]]


def _processes(gpu: dict[str, Any]) -> list[dict[str, Any]]:
    found = gpu.get("processes")
    return found if isinstance(found, list) else []


def _number(reading: Any) -> Any:
    """Return a reading of NVML that is a number; None for one that it refused."""
    return None if isinstance(reading, dict) else reading


def _gpu(gpu: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """Return one GPU's memory and load, and who holds how much of it, at both readings."""
    memory, later_memory = gpu.get("memory_mib") or {}, later.get("memory_mib") or {}
    grown = {entry["pid"]: entry["memory_mib"] for entry in _processes(later)}
    utilization = later.get("utilization") or gpu.get("utilization") or {}
    power = later.get("power_mw") or gpu.get("power_mw") or {}
    return {
        "index": gpu["index"],
        "bus_id": gpu.get("bus_id"),
        "total_mib": _number(memory.get("total")),
        "used_mib": _number(memory.get("used")),
        "later_mib": _number(later_memory.get("used")),
        "utilization": _number(utilization.get("gpu")),
        "power_mw": _number(power.get("usage")),
        "limit_mw": _number(power.get("enforced_limit")),
        "holders": [{**entry, "later_mib": grown.get(entry["pid"])} for entry in _processes(gpu)],
    }


def _home(user: str | None) -> tuple[str | None, int | None]:
    """Return the home and the number of a user."""
    try:
        account = pwd.getpwnam(user) if user else None
    except KeyError:
        account = None
    return (account.pw_dir, account.pw_uid) if account else (None, None)


def _recorded(
    node: Node, asked: dict[str, Any], records: list[dict[str, Any]], home: tuple[str | None, int | None], emit: Emit
) -> None:
    """Read the dumps of the flight recorder and the logs of NCCL that these processes or this user may have written."""
    owned = [(record, owner(node, record["pid"])) for record in records]
    directory, uid = home
    hostname = socket.gethostname().partition(".")[0]
    logs = [(record["pid"], path, uid) for record, uid in owned if (path := recorder.log_file(record, hostname))]
    of_user = (directory, uid) if directory is not None and uid is not None else None
    recorder.read(node, recorder.places(owned, of_user, asked.get("dumps")), logs, emit)


def _prefixes(node: Node, named: str | None, records: Iterable[dict[str, Any]]) -> list[str]:
    """Return the Python environments to look at: the one named (its directory or its interpreter), and processes'."""
    found = []
    if named:
        found.append(posixpath.dirname(posixpath.dirname(named)) if "/bin/" in named else named.rstrip("/"))
    found += [prefix for record in records if (prefix := prefix_of(node, record))]
    return list(dict.fromkeys(found))


def prefix_of(node: Node, record: dict[str, Any]) -> str | None:
    """Return the Python environment of a process; None for another program."""
    program = record["arguments"].partition(" ")[0]
    name = posixpath.basename(record["executable"] or "")
    if not name.startswith("python") and not record["sites"]:
        return None
    if program.startswith("/") and posixpath.basename(program).startswith("python"):
        return posixpath.dirname(posixpath.dirname(program))
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        prefix = record["environment"].get(variable)
        if prefix and node.is_dir(f"{prefix}/bin"):
            return str(prefix)
    return posixpath.dirname(posixpath.dirname(record["executable"])) if record["executable"] else None


def network_of(
    asked: dict[str, Any], records: Iterable[dict[str, Any]]
) -> tuple[list[str], list[tuple[str, int]], list[int]]:
    """Return the names, servers and ports to look at: those of the error, the one asked for, and those of the job."""
    error = asked.get("error") or ""
    names, servers, ports = pasted.names(error), pasted.addresses(error), pasted.taken_ports(error)
    if asked.get("address"):
        host, _colon, port = asked["address"].rpartition(":")
        servers.insert(0, (host, int(port)))
    for record in records:
        host, port = (record["environment"].get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT"))
        if host and port.isdigit():
            names.append(host)
            servers.append((host, int(port)))
            ports.append(int(port))
    names += [host for host, _port in servers]
    if pasted.taken_ports(error) == [] and pasted.is_taken(error):
        ports.append(RENDEZVOUS_PORT)
    return list(dict.fromkeys(names)), list(dict.fromkeys(servers)), list(dict.fromkeys(ports))


def _proxies(node: Node, records: Iterable[dict[str, Any]]) -> list[tuple[str, tuple[str, int]]]:
    """Return the proxies that sessions and processes are told of: (variable, (host, port))."""
    told = {}
    for line in node.text("/etc/environment").splitlines():
        name, equals, value = line.partition("=")
        if equals and name in _PROXIES:
            told[name] = value.strip("\"'")
    for record in records:
        told.update({name: value for name, value in record["environment"].items() if name in _PROXIES})
    found = {name: reach.proxy(value) for name, value in told.items() if value}
    return [(name, place) for name, place in found.items() if place]


def _stacks(asked: dict[str, Any], records: dict[int, dict[str, Any]]) -> dict[int, list[str]]:
    """Return the stacks of the processes asked for, as py-spy shows them, where it is there; it stops none of them."""
    if not (asked.get("pid") or asked.get("user")):
        return {}
    pids = [pid for pid, record in records.items() if record["sites"]][:_STACKS]
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


def _resident(node: Node, pid: int) -> int:
    return processes.resident(node.text(f"/proc/{pid}/status"))


def _busy(
    node: Node, before: dict[int, processes.Stat], after: dict[int, processes.Stat], seconds: float, own: int
) -> list[dict[str, Any]]:
    """Name the processes that kept most processors busy, but for the system's first, gpulab's and this one's."""
    mine = {1, *processes.tree(own, after), *keepers.of_gpulab(node, own, after)}
    loads = {pid: _cores(before.get(pid), stat, seconds) for pid, stat in after.items() if pid not in mine}
    most = sorted(loads, key=lambda pid: -loads[pid])[:_BUSY]
    return [
        {
            "pid": pid,
            "user": processes.owner(node, pid),
            "command": after[pid].command,
            "cores": loads[pid],
            "keeper": keepers.keeper(node, pid, after[pid].parent, {}),
        }
        for pid in most
        if loads[pid]
    ]
