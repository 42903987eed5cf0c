# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes as they look from outside: what each holds, waits for, may use and was told. Read from /proc.

Reading the memory map, the arguments or the environment of a process that is stuck in the kernel can hang its reader,
so these functions are called in a child with a deadline, and what cannot hang is read first.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import commands, mount_table
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis import keepers
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.shapes import (
    DiagnosisQuestion,
    ExaminedProcess,
    ExtensionLock,
    ProcessLimits,
    SharedMemory,
)
from ansible_collections.gpulab.node.plugins.module_utils.facts import limits as facts_limits
from ansible_collections.gpulab.node.plugins.module_utils.facts.processes import (
    boot_time,
    control_group,
    timestamp,
    user_name,
)
from ansible_collections.gpulab.node.plugins.module_utils.facts.processes import owner as uid_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.core.child import Emit
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

UNKNOWN = "somebody who could not be found out"
MIB = 1 << 20
MOST = 64  # processes that are looked into
MOST_FILES = 4096  # open files of one process that are looked at
NETWORK = ("nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "glusterfs", "beegfs", "gpfs")
_NAMES = frozenset({
    "LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_HOME", "CUDA_PATH", "PATH", "PYTHONPATH", "PYTHONNOUSERSITE", "VIRTUAL_ENV",
    "CONDA_PREFIX", "CC", "CXX", "HOME", "TMPDIR", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
    "MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE",
    "XDG_CACHE_HOME",
})  # fmt: skip
_PREFIXES = ("NCCL_", "TORCH_", "PYTORCH_", "CUDA_", "TF_", "XLA_", "GLOO_", "OMP_", "MKL_", "OPENBLAS_")
_CONTAINER = re.compile(r"(?:docker|libpod|cri-containerd|crio)[-/](?:conmon-)?([0-9a-f]{12})[0-9a-f]{0,52}")
_LIBRARY = re.compile(
    r"/lib(?:cudnn|nccl|cudart|cublas|nvJitLink|cusparse|nvrtc|cuda|tensorflow|torch_cuda)\w*\.so[.\d]*\Z"
)
_SOCKET = re.compile(r"socket:\[(\d+)\]\Z")
_EXTENSION_LOCKS = ".cache/torch_extensions"
TICKS = os.sysconf("SC_CLK_TCK")  # of processor time in a second

PF_KTHREAD = 0x00200000  # linux/sched.h; in a container, kthreadd's number 2 belongs to any program


class Stat:
    """The fields of /proc/PID/stat that matter here; parent and start are 0, state "" where it cannot be read."""

    def __init__(self, text: str) -> None:
        """Parse proc_pid_stat(5)."""
        name, _bracket, rest = text.rpartition(")")
        fields = rest.split()
        whole = len(fields) > 19  # noqa: PLR2004 - up to the start
        self.command = name.partition("(")[2]
        self.state = fields[0] if whole else ""
        self.parent = int(fields[1]) if whole else 0
        self.is_kernels = whole and bool(int(fields[6]) & PF_KTHREAD)
        self.ticks = int(fields[11]) + int(fields[12]) if whole else 0
        self.start = int(fields[19]) if whole else 0


def table(node: Node) -> dict[int, Stat]:
    """Read every process of the node; those of the kernel are left out."""
    found = {int(name): Stat(node.text(f"/proc/{name}/stat")) for name in node.names("/proc") if name.isdigit()}
    return {pid: stat for pid, stat in found.items() if stat.state and not stat.is_kernels}


def tree(pid: int, processes: dict[int, Stat]) -> list[int]:
    """Return a process and all that descend from it."""
    found = [pid] if pid in processes else []
    for one in found:
        found += [child for child, stat in processes.items() if stat.parent == one]
    return found


def chosen(node: Node, processes: dict[int, Stat], asked: DiagnosisQuestion, holders: Iterable[int]) -> list[int]:
    """Choose whom to look into: the process asked for with its job, the user's, and those that hold a GPU.

    A job is a rank's launcher and all that it started.
    """
    found: list[int] = []
    if asked.pid in processes:
        parent = processes[asked.pid].parent
        is_rank = "LOCAL_RANK" in environment(node, asked.pid)
        found += tree(parent if is_rank and parent > 1 else asked.pid, processes)
    if asked.user:
        found += [pid for pid in processes if owner(node, pid) == asked.user]
    found += [pid for pid in sorted(holders) if pid in processes]
    return list(dict.fromkeys(found))[:MOST]


def owner(node: Node, pid: int) -> str | None:
    """Name the user of a process; None where it is gone."""
    uid = uid_of(node, pid)
    return None if uid is None else user_name(uid)


def environment(node: Node, pid: int) -> dict[str, str]:
    """Return the variables of a process that matter to a deep-learning program, without secrets."""
    text = (node.data(f"/proc/{pid}/environ") or b"").decode("utf-8", "replace")
    pairs = (entry.partition("=") for entry in text.split("\0"))
    return {
        name: commands.shown_value(name, value)
        for name, equals, value in pairs
        if equals and (name in _NAMES or name.upper() in _NAMES or name.startswith(_PREFIXES))
    }


def read(node: Node, asked: DiagnosisQuestion, holders: list[int], own: int, emit: Emit) -> None:
    """Emit {"waiting"}, {"reading": pid} and {"process"} for each chosen process, {"reading": None}, {"locks"}."""
    processes = table(node)
    mounted = mount_table.mounts(node.text("/proc/self/mountinfo"))
    remote = [mount.place for mount in mounted if mount.type in NETWORK or mount.type.startswith("fuse.")]
    emit({"reading": asked.pid})
    mine = set(tree(own, processes)) | keepers.of_gpulab(node, own, processes) - {asked.pid}
    pids = [pid for pid in chosen(node, processes, asked, holders) if pid not in mine]
    emit({"waiting": [pair for pair in waiting(node.text("/proc/locks")) if set(pair) & set(pids)]})
    for pid in pids:
        emit({"reading": pid})
        record = outside(node, pid, processes)
        if record:
            emit({"process": asdict(record)})
            emit({"process": asdict(inside(node, record, remote))})
    emit({"reading": None})
    emit({"locks": [asdict(lock) for lock in extension_locks(node, pids, remote)]})


def outside(node: Node, pid: int, processes: dict[int, Stat]) -> ExaminedProcess | None:
    """Return what can be read of any process: reading it takes none of its locks. None where it is gone."""
    stat = processes[pid]
    status = dict(line.partition(":\t")[::2] for line in node.text(f"/proc/{pid}/status").splitlines())
    user = owner(node, pid)
    if user is None:
        return None
    group = control_group(node.text(f"/proc/{pid}/cgroup"))
    container = _CONTAINER.search(group)
    booted = boot_time(node.text("/proc/stat"))
    files = node.names(f"/proc/{pid}/fd")
    waits = node.text(f"/proc/{pid}/wchan")
    return ExaminedProcess(
        pid=pid,
        parent=stat.parent,
        user=user,
        command=stat.command,
        state=stat.state,
        since=timestamp(booted + stat.start / TICKS),
        waits=waits if waits not in ("", "0") else None,
        ticks=stat.ticks,
        rss_mib=_kib(status.get("VmRSS")),
        swap_mib=_kib(status.get("VmSwap")),
        cpus=_cpus(status.get("Cpus_allowed_list", "")),
        container=container[1] if container else None,
        group=group,
        throttled=throttled(node.text(f"/sys/fs/cgroup{group}/cpu.stat")),
        files=len(files),
        limits=limits(node.text(f"/proc/{pid}/limits")),
        shared_memory=shared_memory(node.path(f"/proc/{pid}/root{facts_limits.SHARED_MEMORY}")),
        executable=node.link(f"/proc/{pid}/exe"),
        keeper=UNKNOWN,
    )


def inside(node: Node, record: ExaminedProcess, remote: list[str]) -> ExaminedProcess:
    """Add what may hang with the process: arguments, environment, loaded libraries, open files, and its owner."""
    pid = record.pid
    names = node.names(f"/proc/{pid}/fd")
    opened = [node.link(f"/proc/{pid}/fd/{name}") or "" for name in names[:MOST_FILES]]
    sockets = [int(match[1]) for match in map(_SOCKET.match, opened) if match]
    variables = environment(node, pid)
    arguments = node.text(f"/proc/{pid}/cmdline").rstrip("\0").replace("\0", " ")
    paths = set(re.findall(r"(/\S.*)$", node.text(f"/proc/{pid}/maps"), re.MULTILINE))
    sites = {match[0] for match in (re.match(r".*?/(?:site|dist)-packages(?=/)", path) for path in paths) if match}
    return replace(
        record,
        arguments=commands.shown(arguments),
        environment=variables,
        keeper=keepers.keeper(node, pid, record.parent, variables),
        connected=len(names) > MOST_FILES or keepers.is_connected(node, pid, sockets),
        libraries=sorted(path for path in paths if _LIBRARY.search(path)),
        sites=sorted(sites),
        remote=sorted({place for place in remote for path in opened if path.startswith(f"{place}/")}),
        sockets=sockets,
        terminal=next((path for path in opened[:3] if path.startswith(("/dev/pts/", "/dev/tty"))), None),
    )


def _kib(text: str | None) -> int:
    match = re.search(r"\d{1,15}", text or "")
    return int(match[0]) // 1024 if match else 0


def resident(status: str) -> int:
    """Parse the memory in use, in MiB, from /proc/PID/status."""
    fields = dict(line.partition(":\t")[::2] for line in status.splitlines())
    return _kib(fields.get("VmRSS"))


def _cpus(text: str) -> int:
    """Count the processors of a list such as 0-3,8."""
    ends = [part.partition("-") for part in text.strip().split(",") if part]
    return sum(int(last or first) - int(first) + 1 for first, _dash, last in ends)


def throttled(stat: str) -> float | None:
    """Return the share of periods in which a control group had used up its processors; None without a limit."""
    fields = dict(line.partition(" ")[::2] for line in stat.splitlines())
    periods = int(fields.get("nr_periods") or 0)
    return int(fields.get("nr_throttled") or 0) / periods if periods else None


def limits(text: str) -> ProcessLimits:
    """Parse the soft limits of /proc/PID/limits."""
    matches = [re.search(rf"^{label}\s+(\S+)", text, re.MULTILINE) for label in ("Max locked memory", "Max open files")]
    memlock, nofile = [facts_limits.limit(match[1]) if match else None for match in matches]
    return ProcessLimits(memlock, nofile)


def shared_memory(path: Path) -> SharedMemory | None:
    """Measure a file system in memory."""
    try:
        size = os.statvfs(path)
    except OSError:
        return None
    return SharedMemory(size.f_blocks * size.f_frsize // MIB, size.f_bavail * size.f_frsize // MIB)


def waiting(locks: str) -> list[tuple[int, int]]:
    """Parse /proc/locks: (who waits for a file's lock, who holds it)."""
    found: list[tuple[int, int]] = []
    holders: dict[str, int] = {}
    for line in locks.splitlines():
        number, _colon, rest = line.partition(":")
        fields = rest.split()
        blocked = fields[:1] == ["->"]
        pid = int(fields[4 if blocked else 3])
        if blocked:
            found.append((pid, holders.get(number, 0)))
        else:
            holders[number] = pid
    return found


def extension_locks(node: Node, pids: list[int], remote: list[str]) -> list[ExtensionLock]:
    """Find the locks of extensions that PyTorch compiles, in the homes of these processes, and who has each open.

    Who compiles need not be one of these processes, and may be on another node where a mount of remote has the lock.
    """
    running = [int(name) for name in node.names("/proc") if name.isdigit()]
    homes = {environment(node, pid).get("HOME", "") for pid in pids} - {""}
    found = []
    for home in sorted(homes):
        top = f"{home}/{_EXTENSION_LOCKS}"
        for version in node.names(top):
            for name in node.names(f"{top}/{version}"):
                path = f"{top}/{version}/{name}/lock"
                if node.exists(path):
                    opened = [pid for pid in running if path in _links(node, pid)]
                    age = time.time() - node.path(path).stat().st_mtime
                    shared = any(path.startswith(f"{place}/") for place in remote)
                    found.append(ExtensionLock(path, opened, round(age), shared))
    return found


def _links(node: Node, pid: int) -> set[str | None]:
    return {node.link(f"/proc/{pid}/fd/{name}") for name in node.names(f"/proc/{pid}/fd")[:MOST_FILES]}
