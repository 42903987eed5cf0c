# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a GPU has no memory left: who holds it, what is left of dead programs, what grows, and what does not fit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.ending import ask, is_left
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.estimate import estimate
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import (
    HALF,
    LITTLE,
    MEMORY,
    MOST,
    SOME,
    STOPS,
    Finding,
    GpuMemory,
    Holder,
    named,
    rule,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.shapes import (
        ExaminedProcess,
        GpuAtWork,
        Holding,
    )
    from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import Case

ALLOCATOR = "https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management"
PROC = "https://man7.org/linux/man-pages/man5/proc.5.html"
TF_GPU = "https://www.tensorflow.org/guide/gpu#limiting_gpu_memory_growth"
JAX_MEMORY = "https://docs.jax.dev/en/latest/gpu_memory_allocation.html"
CGROUPS = "https://docs.kernel.org/admin-guide/cgroup-v2.html#memory"
MANY = 0.1  # a share of a GPU's memory that another program misses
NEARLY_ALL = 0.7  # a share that only a framework that takes all in advance holds
UNEXPLAINED_MIB = 1024
GROWS_MIB_S = 8.0  # a framework that works adds nothing after its first steps
FREE = 0.9  # the share of a GPU that is free where nobody works on it
_SIZES = {"KiB": 1 / 1024, "MiB": 1.0, "GiB": 1024.0, "bytes": 1 / (1 << 20)}
_SIZE = r"([\d.]+) (KiB|MiB|GiB|bytes)"
_TRIED = re.compile(rf"Tried to allocate {_SIZE}")
_TOTAL = re.compile(rf"total capac\w+ of {_SIZE}|{_SIZE} total capacity")
_UNUSED = re.compile(rf"{_SIZE} is reserved by PyTorch but unallocated")
_OTHERS = re.compile(rf"Process (\d+) has {_SIZE} memory in use")
_FREE_MEMORY = re.compile(rf"of which {_SIZE} is free|; {_SIZE} free")


def table(case: Case) -> list[GpuMemory]:
    """Return who holds the memory of each GPU."""
    return [
        GpuMemory(gpu.index, gpu.total_mib, gpu.used_mib, [_holder(case, entry) for entry in gpu.holders])
        for gpu in case.evidence.gpus
    ]


def _holder(case: Case, entry: Holding) -> Holder:
    record = case.process(entry.pid)
    before, later = entry.memory_mib, entry.later_mib
    return Holder(
        pid=entry.pid,
        user=record.user if record else None,
        command=record.command if record else None,
        container=record.container if record else None,
        job=record.environment.get("SLURM_JOB_ID") if record else None,
        since=record.since if record else None,
        memory_mib=before,
        grows_mib_s=round((later - before) / case.evidence.seconds, 1) if before and later else 0.0,
    )


def _gib(mib: float) -> str:
    return f"{mib / 1024:.1f} GiB"


@rule("memory-held", MEMORY, "https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html")
def held(case: Case) -> Iterator[Finding]:
    """Name who holds a GPU's memory, where it is not the program that the diagnosis is for."""
    asked = case.asked
    named_one = bool(asked.pid or asked.user)
    about_memory = asked.symptom == MEMORY or re.search(r"out of memory|OOM", asked.error or "", re.IGNORECASE)
    if not (named_one or about_memory):
        return  # that somebody works on a GPU is no trouble by itself
    for gpu in case.evidence.gpus:
        others = [(entry, record) for holding, entry, record in _others(case) if holding == gpu]
        total, taken = gpu.total_mib or 0, sum(entry.memory_mib or 0 for entry, _record in others)
        if total and taken >= MANY * total:
            yield Finding(
                f"{_gib(taken)} of the {_gib(total)} of GPU {gpu.index} are held by "
                + ", ".join(named(record) for _entry, record in others),
                _elsewhere(case, gpu.index) or ask(case, [record.pid for _entry, record in others]),
                min(taken / total, MOST),
                tuple(
                    f"GPU {gpu.index}: PID {record.pid} holds {entry.memory_mib} MiB, since {record.since}"
                    for entry, record in others
                ),
            )


def _others(case: Case) -> Iterator[tuple[GpuAtWork, Holding, ExaminedProcess]]:
    """Yield who holds memory beside the program that was asked for, and what dead programs left."""
    named_one = bool(case.asked.pid or case.asked.user)
    for gpu, entry, record in case.holders():
        if not (named_one and case.is_asked(record)) and not _left_over(record):
            yield gpu, entry, record


def _elsewhere(case: Case, index: int) -> str | None:
    """Return the command that takes free GPUs of the node; None where there is none."""
    free = [
        str(gpu.index)
        for gpu in case.evidence.gpus
        if gpu.index != index and gpu.total_mib and (gpu.used_mib or 0) < (1 - FREE) * gpu.total_mib
    ]
    return f"export CUDA_VISIBLE_DEVICES={','.join(free)}" if free else None


def _left_over(record: ExaminedProcess) -> bool:
    """Tell whether a process is what a dead program left: nobody has it any more, and it does nothing."""
    worker = "multiprocessing" in record.arguments or "LOCAL_RANK" in record.environment
    return is_left(record) and worker and not record.cores and record.state in ("S", "T")


@rule("memory-left-over", MEMORY, PROC)
def left_over(case: Case) -> Iterator[Finding]:
    """Find workers whose program has died: they hold memory and do nothing."""
    for gpu, entry, record in case.holders():
        if _left_over(record):
            yield Finding(
                f"{named(record)} is left over from a program that has died, and still holds "
                f"{entry.memory_mib} MiB of GPU {gpu.index}",
                f"kill {record.pid}",
                MOST,
                (
                    "its parent is gone; no unit, session, container or job has it; nothing is connected to it",
                    f"it used no processor in {case.evidence.seconds} s",
                ),
            )


@rule("memory-zombie", MEMORY, PROC)
def zombie(case: Case) -> Iterator[Finding]:
    """Find processes that have ended, or wait in the kernel for ever, and still hold a GPU."""
    for gpu, entry, record in case.holders():
        if record.state == "Z":
            yield Finding(
                f"{named(record)} has ended, but its parent, PID {record.parent}, does not take note of it; "
                f"{entry.memory_mib} MiB of GPU {gpu.index} may stay held",
                ask(case, [record.parent]),
                MOST,
                ("state Z (zombie)",),
            )


@rule("memory-unexplained", MEMORY, "https://docs.nvidia.com/deploy/nvidia-smi/")
def unexplained(case: Case) -> Iterator[Finding]:
    """Find memory that no process accounts for, where nobody works on the GPU."""
    for gpu in case.evidence.gpus:
        used, total = gpu.used_mib, gpu.total_mib
        if used and total and not gpu.utilization and not gpu.holders and used > max(UNEXPLAINED_MIB, 0.02 * total):
            yield Finding(
                f"{_gib(used)} of GPU {gpu.index} are held, but no process accounts for them: "
                "a program died without giving them back, or one in another PID namespace holds them",
                f"fuser -v /dev/nvidia*; if it names nobody: nvidia-smi --gpu-reset -i {gpu.bus_id or gpu.index}",
                used / total,
                (f"GPU {gpu.index}: {used} MiB used, no process listed",),
            )


@rule("memory-grows", MEMORY, "https://docs.pytorch.org/docs/stable/notes/faq.html")
def grows(case: Case) -> Iterator[Finding]:
    """Find processes whose memory grows between the two readings, on a GPU or on the host."""
    seconds = case.evidence.seconds
    for gpu, entry, record in case.holders():
        if not case.is_asked(record) or entry.memory_mib is None or entry.later_mib is None:
            continue
        rate = (entry.later_mib - entry.memory_mib) / seconds
        if rate > GROWS_MIB_S:
            left = max(0, (gpu.total_mib or 0) - (gpu.later_mib or 0)) / rate / 60
            yield Finding(
                f"the memory of {named(record)} on GPU {gpu.index} grows by {rate:.0f} MiB/s; "
                f"the GPU is full in {left:.0f} min",
                "Add numbers up, not tensors: total += loss.item(); keep results with .detach().cpu()."
                f" See what grows: py-spy dump --pid {record.pid}",
                HALF,
                (f"{entry.memory_mib} MiB, {seconds} s later {entry.later_mib} MiB",),
            )
    for record in case.processes:
        rate = (record.later_mib - record.rss_mib) / seconds
        if rate > GROWS_MIB_S and (case.asked.pid or case.asked.user):
            free = case.facts.get("system.memory_mib", 0)
            yield Finding(
                f"the host memory of {named(record)} grows by {rate:.0f} MiB/s",
                "Keep no graph or batch in a list (.detach(), .item()); in a Dataset, keep arrays in place of lists of "
                f"Python objects. See what grows: py-spy dump --pid {record.pid}",
                HALF,
                (f"{record.rss_mib} MiB, {seconds} s later {record.later_mib} MiB; the node has {free} MiB",),
            )


@rule("memory-fragmented", MEMORY, ALLOCATOR)
def fragmented(case: Case) -> Iterator[Finding]:
    """Take PyTorch's own figures from the error: what it has reserved would have been enough."""
    tried, unused = _size(_TRIED, case), _size(_UNUSED, case)
    if tried and unused and unused >= tried:
        yield Finding(
            f"PyTorch's memory is in pieces: {_gib(unused)} are reserved and unused, but no piece has {_gib(tried)}",
            "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
            STOPS,
            (f"tried to allocate {tried:.0f} MiB, {unused:.0f} MiB reserved but unallocated",),
        )


@rule("memory-other-process", MEMORY, ALLOCATOR)
def other_process(case: Case) -> Iterator[Finding]:
    """Take from the error who else holds memory of the GPU."""
    error = case.asked.error or ""
    total = _size(_TOTAL, case) or 0
    for pid, amount, unit in _OTHERS.findall(error):
        mib = float(amount) * _SIZES[unit]
        if not total or mib < MANY * total:
            continue
        record = case.process(int(pid))
        who = named(record) if record else f"process {pid}, which is no longer there or in another PID namespace,"
        yield Finding(
            f"{who} held {_gib(mib)} of the {_gib(total)} when the memory was exhausted",
            ask(case, [int(pid)]),
            STOPS if mib > total / 2 else MOST,
            (f"Process {pid} has {amount} {unit} memory in use",),
        )


@rule("memory-too-large", MEMORY, ALLOCATOR)
def too_large(case: Case) -> Iterator[Finding]:
    """Say that the program alone needs more than the GPU has."""
    tried, total, free = (_size(pattern, case) for pattern in (_TRIED, _TOTAL, _FREE_MEMORY))
    if tried and total and tried > total:
        yield Finding(
            f"one tensor of {_gib(tried)} was requested, and the GPU has {_gib(total)}",
            "Halve what makes it large: batch size, sequence length, or attention that is computed whole"
            ' (attn_implementation="sdpa")',
            STOPS,
            (f"free: {_gib(free)}",) if free is not None else (),
        )


def _size(pattern: re.Pattern[str], case: Case) -> float | None:
    """Return a size that PyTorch's error tells, in MiB."""
    match = pattern.search(case.asked.error or "")
    if not match:
        return None
    amount, unit = [part for part in match.groups() if part]
    return float(amount.rstrip(".")) * _SIZES[unit]


@rule("memory-preallocated", MEMORY, TF_GPU)
def preallocated(case: Case) -> Iterator[Finding]:
    """Find TensorFlow and JAX that took nearly all of a GPU in advance."""
    ways = (
        ("tensorflow", "TF_FORCE_GPU_ALLOW_GROWTH", "true", TF_GPU),
        ("xla_", "XLA_PYTHON_CLIENT_PREALLOCATE", "false", JAX_MEMORY),
    )
    for gpu, entry, record in case.holders():
        held_mib = entry.memory_mib or 0
        if not gpu.total_mib or held_mib < NEARLY_ALL * gpu.total_mib:
            continue
        for library, variable, value, source in ways:
            loaded = any(library in path for path in record.libraries)
            if loaded and record.environment.get(variable, "").lower() != value:
                yield Finding(
                    f"{named(record)} took {_gib(held_mib)} of GPU {gpu.index} in advance",
                    f"export {variable}={value}",
                    SOME,
                    (f"{variable} is {record.environment.get(variable) or 'not set'}",),
                    source=source,
                )


@rule("memory-host-killed", MEMORY, CGROUPS)
def host_killed(case: Case) -> Iterator[Finding]:
    """Find programs that the kernel ended because the node, or their container, had no memory left."""
    killed = case.evidence.machine.killed
    if killed:
        last = killed[-1]
        yield Finding(
            f"the kernel killed {last.command} (PID {last.pid}): host memory was exhausted, not the GPU's",
            "Give the DataLoader fewer workers, or its container more memory (docker update --memory); see "
            "dmesg -T | grep -i 'killed process'",
            MOST,
            tuple(f"killed: {one.command} (PID {one.pid})" for one in killed[-3:]),
        )


@rule("memory-caching-off", MEMORY, ALLOCATOR)
def caching_off(case: Case) -> Iterator[Finding]:
    """Find a debugging aid that makes each allocation go to the driver."""
    for record in case.processes:
        if record.environment.get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
            yield Finding(
                f"{named(record)} runs without PyTorch's caching allocator",
                "unset PYTORCH_NO_CUDA_MEMORY_CACHING",
                HALF,
                (f"PYTORCH_NO_CUDA_MEMORY_CACHING={record.environment['PYTORCH_NO_CUDA_MEMORY_CACHING']}",),
            )


@rule("memory-model", MEMORY, "https://arxiv.org/abs/1910.02054")
def model(case: Case) -> Iterator[Finding]:
    """Say which uses of the model asked for no GPU of the node has the memory for."""
    totals = [gpu.total_mib / 1024 for gpu in case.evidence.gpus if gpu.total_mib]
    if not case.parameters or not totals:
        return
    uses = estimate(case.parameters, case.dtype, case.optimizer)
    largest = max(totals)
    missing = [use for use in uses if use.gib > largest]
    fitting = [use.name for use in uses if use.gib <= largest]
    if missing:
        yield Finding(
            f"{', '.join(f'{use.name} ({use.gib:.0f} GiB)' for use in missing)} of {case.parameters / 1e9:g} billion "
            f"parameters do not fit a GPU with {largest:.0f} GiB, even without activations",
            f"Use {' or '.join(fitting[-2:])}, which fit, or share the model out over GPUs (FSDP, ZeRO-3)"
            if fitting
            else "Share the model out over GPUs (FSDP, ZeRO-3, tensor parallel)",
            LITTLE,
            tuple(f"{use.name}: {use.formula}" for use in missing),
        )
