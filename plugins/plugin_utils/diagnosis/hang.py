# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a program hangs: a rank that died or was stopped, a lock, a dead file system, a peer that does not answer."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.ending import ask
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import (
    HALF,
    HANG,
    MOST,
    SOME,
    STOPS,
    Finding,
    Rank,
    named,
    rule,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.shapes import ExaminedProcess
    from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import Case

PROC = "https://man7.org/linux/man-pages/man5/proc.5.html"
TORCHRUN = "https://docs.pytorch.org/docs/stable/elastic/run.html"
DISTRIBUTED = "https://docs.pytorch.org/docs/stable/distributed.html"
LOCKS = "https://man7.org/linux/man-pages/man5/proc_locks.5.html"
EXTENSIONS = "https://docs.pytorch.org/docs/stable/cpp_extension.html"
SPINS_PERCENT = 95  # what NCCL's waiting kernels show as utilisation
SPINS_POWER = 0.35  # the share of its power limit below which a GPU that is busy only waits
RUNS_CORES = 0.05
_REMOTE_WAITS = re.compile(r"nfs|rpc_|cifs|smb2|ceph|lustre|fuse_|request_wait")
_GPU_WAITS = re.compile(r"nv_|os_acquire|rm_|uvm_|nvidia")
# Where a program stands, by what its stack shows: words, what it means, what to do.
_STACKS = (
    (
        re.compile(r"\b(?:all_reduce|all_gather|reduce_scatter|broadcast|barrier|_wait_for_work|monitored_barrier)\b"),
        "waits in a collective operation for the other ranks",
        "py-spy dump --pid {pid}, on every rank: the one whose stack differs is the cause",
    ),
    (
        re.compile(r"\b(?:_try_get_data|_get_data|_next_data|rebuild_storage)\b"),
        "waits for a batch of its DataLoader's workers",
        "Run once with num_workers=0 to see the worker's error; set timeout=120 on the DataLoader",
    ),
    (
        re.compile(r"\b(?:_create_c10d_store|TCPStore|rendezvous|init_process_group|next_rendezvous)\b"),
        "waits for the other ranks to come to the rendezvous",
        "Start all ranks with the same --nnodes, --master-addr and --master-port; check that the port is open",
    ),
)


def ranks(case: Case) -> dict[tuple[str, str], dict[int, list[ExaminedProcess]]]:
    """Return the jobs on this node by (MASTER_ADDR, MASTER_PORT): each local rank with its processes, the first first.

    The workers of a DataLoader have the variables of their rank: they stand behind it.
    """
    jobs: dict[tuple[str, str], dict[int, list[ExaminedProcess]]] = {}
    for record in sorted(case.processes, key=lambda one: one.pid):
        told = record.environment
        if told.get("LOCAL_RANK", "").isdigit():
            job = jobs.setdefault((told.get("MASTER_ADDR", ""), told.get("MASTER_PORT", "")), {})
            job.setdefault(int(told["LOCAL_RANK"]), []).append(record)
    return jobs


def told(case: Case) -> list[Rank]:
    """Return each rank on this node with what it does or awaits."""
    found: list[Rank] = []
    for (address, port), job in ranks(case).items():
        for group in job.values():
            numbers = [group[0].environment.get(name, "") for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")]
            if all(number.isdigit() for number in numbers):
                rank, world, local = map(int, numbers)
                first, job_at = group[0], f"{address}:{port}"
                found.append(Rank(job_at, rank, world, local, first.pid, first.command, stands(first)))
    return found


def stands(record: ExaminedProcess) -> str:
    """Say what a rank does or awaits: by its state, then its stack, then where it waits in the kernel."""
    if _gone(record):
        return "has died"
    if record.state in ("T", "t"):
        return "is stopped"
    text = "\n".join(record.stack)
    meaning = next((meaning for words, meaning, _remedy in _STACKS if words.search(text)), None)
    if meaning:
        return meaning
    if record.stack:
        return f"is in {record.stack[0].strip()}"
    return f"waits in the kernel ({record.waits})" if record.state == "D" else "runs, or waits for its GPU"


def _gone(record: ExaminedProcess) -> bool:
    return record.state in ("Z", "X") or record.ended


@rule("hang-dead-rank", HANG, TORCHRUN)
def dead_rank(case: Case) -> Iterator[Finding]:
    """Find a rank that has died while the others wait for it."""
    for (address, port), job in ranks(case).items():
        alive = {rank: group[0] for rank, group in job.items() if not _gone(group[0])}
        sizes = [one.environment.get("LOCAL_WORLD_SIZE", "") for group in job.values() for one in group[:1]]
        size = max((int(text) for text in sizes if text.isdigit()), default=len(job))
        dead = [rank for rank in range(size) if rank not in alive]
        if alive and dead:
            yield Finding(
                f"rank {', '.join(map(str, dead))} of {size} on this node has died; the other ranks of the job at "
                f"{address}:{port} wait for it",
                f"End the job where it was started; then read the first error in the log of rank {dead[0]} "
                f"(torchrun --log-dir logs -r 3). {ask(case, [next(iter(alive.values())).pid])}",
                STOPS,
                tuple(f"rank {rank}: {named(record)}, {_waits(record)}" for rank, record in alive.items()),
            )


def _waits(record: ExaminedProcess) -> str:
    return f"state {record.state}" + (f", waits in {record.waits}" if record.waits else "")


@rule("hang-stopped", HANG, PROC)
def stopped(case: Case) -> Iterator[Finding]:
    """Find processes that a signal, a debugger or the terminal has stopped."""
    for record in case.processes:
        if record.state in ("T", "t"):
            yield Finding(
                f"{named(record)} is stopped"
                + (
                    " by a debugger"
                    if record.state == "t"
                    else ": by Ctrl-Z, SIGSTOP, or reading from a terminal in the background"
                ),
                f"kill -CONT {record.pid}",
                STOPS,
                (f"state {record.state}",),
            )


@rule("hang-storage", HANG, "https://man7.org/linux/man-pages/man5/nfs.5.html")
def storage(case: Case) -> Iterator[Finding]:
    """Find mounts that do not answer, and the processes that wait for them."""
    waiting = [one for one in case.processes if one.state == "D" and _REMOTE_WAITS.search(one.waits or "")]
    dead = [mount for mount in case.evidence.mounts if mount.milliseconds is None]
    for mount in dead:
        using = [one for one in case.processes if mount.mount in one.remote]
        who = ", ".join(named(record) for record in using or waiting)
        yield Finding(
            f"{mount.mount} ({mount.type} from {mount.source}) does not answer"
            + (f", and {who} waits for it" if who else ""),
            "Bring its server back: all that waits goes on then. If it never comes back, and "
            f"{who or 'everybody'} can lose what is not yet written there: umount -l {mount.mount}",
            STOPS,
            ("statvfs had no answer in time",),
        )
    for record in waiting if not dead else ():
        yield Finding(
            f"{named(record)} waits in the kernel for a network file system",
            f"ls -l /proc/{record.pid}/fd names its files; check the server of "
            f"{', '.join(record.remote) or 'their mount'}",
            MOST,
            (_waits(record),),
        )


@rule("hang-driver", HANG, "https://docs.nvidia.com/deploy/xid-errors/")
def driver(case: Case) -> Iterator[Finding]:
    """Find processes that wait in NVIDIA's driver and cannot be ended."""
    for record in case.processes:
        if record.state == "D" and _GPU_WAITS.search(record.waits or ""):
            yield Finding(
                f"{named(record)} waits in NVIDIA's driver, where no signal reaches it",
                "journalctl -k -b | grep -i xid; then, once all others have ended their work there, reboot the node",
                STOPS,
                (_waits(record),),
            )
    stuck = case.evidence.stuck
    if stuck:
        yield Finding(
            f"process {stuck} is stuck in the kernel: even its arguments cannot be read",
            f"cat /proc/{stuck}/stack tells where; if it is in nfs, bring the server back; if it is in nv, reboot the "
            "node once all others have ended their work there",
            STOPS,
            ("reading /proc had no answer in time",),
        )


@rule("hang-lock", HANG, LOCKS)
def lock(case: Case) -> Iterator[Finding]:
    """Find processes that wait for a file's lock, and who holds it."""
    for pid, holder in case.evidence.waiting:
        record = case.process(pid)
        if not record or not case.is_asked(record):
            continue
        keeper = case.process(holder)
        who = named(keeper) if keeper else f"process {holder}" if holder else "a process in another PID namespace"
        yield Finding(
            f"{named(record)} waits for a file's lock that {who} holds",
            ask(case, [holder]) if holder else "lslocks names it on the host",
            MOST,
            (_waits(record),),
        )


@rule("hang-extension-lock", HANG, EXTENSIONS)
def extension_lock(case: Case) -> Iterator[Finding]:
    """Find the lock that a compilation of a PyTorch extension left when it was killed: all later ones wait for it."""
    for found in case.evidence.locks:
        if not found.held_by:
            yield Finding(
                f"{found.path} was left by a compilation that was killed; later imports of this extension wait",
                ("Once no other node compiles it: " if found.shared else "") + f"rm -f {shlex.quote(found.path)}",
                STOPS,
                (f"no process has it open; {found.age_seconds} s old",),
            )


@rule("hang-connecting", HANG, "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html")
def connecting(case: Case) -> Iterator[Finding]:
    """Find connections of the job that nobody answers: a firewall drops them, or the address is wrong."""
    inodes = {one.inode: one for one in case.evidence.connecting}
    for record in case.processes:
        for inode in record.sockets:
            if inode in inodes:
                peer, port = inodes[inode].peer, inodes[inode].peer_port
                yield Finding(
                    f"{named(record)} tries to reach {peer}:{port}, and nobody answers: a firewall drops it, or no node"
                    " has this address",
                    f"On {peer}: ss -ltn 'sport = {port}' and firewall-cmd --list-all or ufw status; between nodes of "
                    "gpulab: network_state: present opens it",
                    STOPS,
                    ("TCP state SYN-SENT",),
                )


@rule("hang-waits-for-ranks", HANG, DISTRIBUTED)
def waits_for_ranks(case: Case) -> Iterator[Finding]:
    """Find GPUs that look busy and draw little: NCCL's kernels wait on them for a rank that does not come."""
    spinning = [
        (gpu, draws, limit)
        for gpu in case.evidence.gpus
        if (gpu.utilization or 0) >= SPINS_PERCENT
        and (draws := gpu.power_mw or 0)
        and (limit := gpu.limit_mw or 0)
        and draws < SPINS_POWER * limit
        and any(holding == gpu and case.is_asked(record) for holding, _entry, record in case.holders())
    ]
    if len(spinning) > 1 or (spinning and any(ranks(case).values())):
        names = ", ".join(str(gpu.index) for gpu, _draws, _limit in spinning)
        yield Finding(
            f"GPU {names} shows full load at little power: a collective operation waits there for another rank",
            "py-spy dump --pid PID on each rank; the one whose stack differs is the cause. Next time: export "
            "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 NCCL_DEBUG=WARN "
            "NCCL_DEBUG_FILE=/tmp/nccl.%h.%p, which this diagnosis reads",
            MOST,
            tuple(
                f"GPU {gpu.index}: {gpu.utilization} %, {draws // 1000} of {limit // 1000} W"
                for gpu, draws, limit in spinning
            ),
        )


@rule("hang-different-jobs", HANG, TORCHRUN)
def different_jobs(case: Case) -> Iterator[Finding]:
    """Find ranks of one job that disagree about its size: each waits for ranks that the other does not start."""
    for (address, port), job in ranks(case).items():
        sizes = {rank: group[0].environment.get("WORLD_SIZE") for rank, group in job.items()}
        if len(set(sizes.values())) > 1:
            yield Finding(
                f"the ranks of the job at {address}:{port} disagree about WORLD_SIZE",
                "Start every rank by one launcher: torchrun --nnodes=N --nproc-per-node=GPUS",
                STOPS,
                tuple(f"rank {rank}: WORLD_SIZE={size}" for rank, size in sizes.items()),
            )


@rule("hang-stack", HANG, "https://github.com/benfred/py-spy")
def stack(case: Case) -> Iterator[Finding]:
    """Read from the stacks where the program stands, where py-spy is there."""
    for record in case.processes:
        text = "\n".join(record.stack)
        if record.cores > HALF:  # it works
            continue
        for words, meaning, remedy in _STACKS:
            if words.search(text):
                yield Finding(
                    f"{named(record)} {meaning}", remedy.format(pid=record.pid), SOME, tuple(record.stack[:3])
                )
                break


@rule("hang-terminal", HANG, PROC)
def terminal(case: Case) -> Iterator[Finding]:
    """Find a program that waits for an answer at its terminal."""
    for record in case.processes:
        if case.asked.pid == record.pid and re.search(r"n_tty_read|wait_woken", record.waits or ""):
            yield Finding(
                f"{named(record)} waits for somebody to type an answer",
                f"Answer it at {record.terminal or 'its terminal'}, or start it with </dev/null and no questions"
                " (trust_remote_code=True, --yes)",
                MOST,
                (_waits(record),),
            )
