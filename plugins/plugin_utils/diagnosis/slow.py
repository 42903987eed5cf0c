# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a program is slow: who else works there, what it waits for, what holds processors or disks back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.ending import show
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import (
    HALF,
    LITTLE,
    MOST,
    SLOW,
    SOME,
    Finding,
    named,
    rule,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import Case

GOVERNORS = "https://docs.kernel.org/admin-guide/pm/cpufreq.html"
PRESSURE = "https://docs.kernel.org/accounting/psi.html"
CGROUPS = "https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu"
CUDA_VARIABLES = "https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables"
NCCL_VARIABLES = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
SLOW_MS = 50.0  # a file system that needs as long for a question is bad, 1 ms is good
STARVED_PERCENT = 30
BUSY_SHARE = 0.25  # of the node's processors, that another user keeps busy
SWAPPED_MIB = 512
THROTTLED = 0.1  # of the periods
PRESSED_PERCENT = 20.0
# Variable, what it means when it is set: the values that do not, the share it costs, where that is told
SLOWING = (
    ("CUDA_LAUNCH_BLOCKING", ("", "0"), "the program waits for each kernel", HALF, CUDA_VARIABLES),
    ("NCCL_P2P_DISABLE", ("", "0"), "GPUs exchange data through the host's memory", SOME, NCCL_VARIABLES),
    ("NCCL_SHM_DISABLE", ("", "0"), "GPUs of this node exchange data over the network", SOME, NCCL_VARIABLES),
    ("NCCL_IB_DISABLE", ("", "0"), "nodes exchange data over TCP in place of InfiniBand", HALF, NCCL_VARIABLES),
    (
        "TORCH_DISTRIBUTED_DEBUG",
        ("", "OFF", "INFO"),
        "each collective operation is checked",
        SOME,
        "https://docs.pytorch.org/docs/stable/distributed.html#torch-distributed-debug",
    ),
    (
        "TF_CUDNN_DETERMINISTIC",
        ("", "0", "false"),
        "cuDNN may not take its fastest algorithms",
        SOME,
        "https://docs.nvidia.com/deeplearning/cudnn/",
    ),
    ("NCCL_DEBUG", ("", "VERSION", "WARN", "INFO"), "NCCL writes a line for each call", LITTLE, NCCL_VARIABLES),
)


@rule("slow-variable", SLOW, CUDA_VARIABLES)
def variable(case: Case) -> Iterator[Finding]:
    """Find aids for debugging that were left on."""
    told = set()
    for record in case.processes:
        for name, harmless, meaning, cost, source in SLOWING:
            value = record.environment.get(name, "")
            if value not in harmless and name not in told:
                told.add(name)
                yield Finding(
                    f"{named(record)} runs with {name}={value}: {meaning}",
                    f"unset {name}",
                    cost,
                    (f"{name}={value}",),
                    source=source,
                )


@rule("slow-shared-gpu", SLOW, "https://docs.nvidia.com/deploy/mps/")
def shared_gpu(case: Case) -> Iterator[Finding]:
    """Find a GPU on which programs of several users compute."""
    for gpu in case.evidence.gpus:
        records = [record for one in gpu.holders if (record := case.process(one.pid))]
        working = [record for record in records if record.cores > LITTLE]
        if len({record.user for record in working}) > 1:
            yield Finding(
                f"GPU {gpu.index} is shared by {' and '.join(named(record) for record in working)}",
                "Run on a GPU of your own: export CUDA_VISIBLE_DEVICES=N (nvidia-smi shows which is idle)",
                HALF,
                (f"GPU {gpu.index}: {gpu.utilization} % busy",),
            )


@rule("slow-other-load", SLOW, "https://man7.org/linux/man-pages/man5/proc.5.html")
def other_load(case: Case) -> Iterator[Finding]:
    """Find another user's programs that keep the processors busy."""
    cores = case.facts.get("system.cpu_cores", 0)
    mine = {record.user for record in case.processes} if case.asked.pid or case.asked.user else set()
    loads: dict[str, float] = {}
    for one in case.evidence.busy:
        if one.user not in mine and one.user is not None:
            loads[one.user] = loads.get(one.user, 0.0) + one.cores
    for user, load in loads.items():
        if cores and load > BUSY_SHARE * cores:
            programs = [one for one in case.evidence.busy if one.user == user]
            shown = {show(one.pid, one.keeper) for one in programs}
            yield Finding(
                f"{user} keeps {load:.0f} of {cores} processors busy",
                f"Ask {user} to let it give way; {' and '.join(sorted(shown))} shows it",
                min(load / cores, MOST),
                tuple(f"{one.command} (PID {one.pid}): {one.cores:.1f} processors" for one in programs),
            )


@rule("slow-few-cores", SLOW, "https://man7.org/linux/man-pages/man2/sched_setaffinity.2.html")
def few_cores(case: Case) -> Iterator[Finding]:
    """Find a program that may use only a few of the node's processors."""
    cores = case.facts.get("system.cpu_cores", 0)
    for record in case.processes:
        gpus = [gpu for gpu in case.evidence.gpus if any(one.pid == record.pid for one in gpu.holders)]
        if (gpus or record.pid == case.asked.pid) and record.cpus == 1 < cores:
            yield Finding(
                f"{named(record)} may use 1 of {cores} processors: its DataLoader's workers share it",
                f"taskset -a -p -c 0-{cores - 1} {record.pid}; under Slurm: srun --cpus-per-task=N",
                MOST,
                ("Cpus_allowed_list has one processor",),
            )


@rule("slow-throttled", SLOW, CGROUPS)
def throttled(case: Case) -> Iterator[Finding]:
    """Find a program whose container has used up the processors that it was given."""
    told = set()
    for record in case.processes:
        share = record.throttled
        if share and share > THROTTLED and record.group not in told:
            told.add(record.group)
            yield Finding(
                f"{named(record)} is held back by the limit of processors of its container",
                f"docker update --cpus 0 {record.container}"
                if record.container
                else "systemctl set-property --runtime UNIT CPUQuota=",
                min(share, MOST),
                (f"in {share:.0%} of the periods it had used up its processors (cpu.stat of {record.group})",),
            )


@rule("slow-storage", SLOW, "https://man7.org/linux/man-pages/man5/nfs.5.html")
def storage(case: Case) -> Iterator[Finding]:
    """Find network file systems that take long to answer."""
    for mount in case.evidence.mounts:
        milliseconds = mount.milliseconds
        if milliseconds is not None and milliseconds > SLOW_MS:
            using = [record for record in case.processes if mount.mount in record.remote]
            who = f"; {named(using[0])} reads there" if using else ""
            yield Finding(
                f"{mount.mount} ({mount.type}, {mount.source}) needs {milliseconds:.0f} ms for each question{who}",
                f"Copy the data to a local disk: rsync -a {mount.mount}/DATASET /var/tmp/; pack many small files "
                "into one archive (tar, WebDataset, LMDB)",
                MOST if using else SOME,
                (f"{milliseconds:.0f} ms; good is 1 ms, bad is {SLOW_MS:.0f} ms",),
            )


@rule("slow-starved-gpu", SLOW, "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html")
def starved(case: Case) -> Iterator[Finding]:
    """Find a GPU that waits for a program whose processors are busy: it prepares data too slowly."""
    for gpu, _entry, record in case.holders():
        busy = 100 if gpu.utilization is None else gpu.utilization
        if busy > STARVED_PERCENT or not case.is_asked(record) or record.cores < MOST:
            continue
        workers = [other for other in case.by_pid.values() if other.parent == record.pid]
        yield Finding(
            f"GPU {gpu.index} is idle {100 - busy} % of the time while {named(record)} prepares "
            f"data with {len(workers)} workers",
            "DataLoader(num_workers=N, pin_memory=True, persistent_workers=True): raise N until the GPU is busy",
            1 - busy / 100,
            (f"GPU {busy} % busy, its process {record.cores:.1f} processors",),
        )


@rule("slow-governor", SLOW, GOVERNORS)
def governor(case: Case) -> Iterator[Finding]:
    """Find processors that are told to save power."""
    governors = case.evidence.machine.governors
    saving = governors.get("powersave", 0)
    # intel_pstate and amd-pstate call their dynamic governor powersave, too: there performance stands beside it
    if saving and governors.get("schedutil", 0) == 0 and case.facts.get("tuning.values.cpu_governor") == "powersave":
        yield Finding(
            f"{saving} processors save power (governor powersave)",
            "cpupower frequency-set -g performance; with gpulab: tuning_state: present",
            LITTLE,
            tuple(f"{name}: {count}" for name, count in governors.items()),
        )


@rule("slow-swapping", SLOW, "https://docs.kernel.org/admin-guide/sysctl/vm.html")
def swapping(case: Case) -> Iterator[Finding]:
    """Find a program of which a part lies in swap."""
    for record in case.processes:
        if record.swap_mib > SWAPPED_MIB:
            yield Finding(
                f"{record.swap_mib} MiB of {named(record)} are in swap",
                "Give the DataLoader fewer workers, or end who else holds memory: ps aux --sort=-rss | head",
                MOST,
                (f"VmSwap {record.swap_mib} MiB, in memory {record.rss_mib} MiB",),
            )


@rule("slow-pressure", SLOW, PRESSURE)
def pressure(case: Case) -> Iterator[Finding]:
    """Take the kernel's own measure of how long tasks wait for memory or disks."""
    told = case.evidence.machine.pressure
    ways = {
        "io": ("disks", "iostat -x 5 names the disk; iotop -o who uses it"),
        "memory": ("memory", "ps aux --sort=-rss | head names who holds it"),
    }
    for part, (what, remedy) in ways.items():
        share = told.get(part)
        if share is not None and share > PRESSED_PERCENT:
            yield Finding(
                f"in {share:.0f} % of the last ten seconds some program waited for {what}",
                remedy,
                min(share / 100, MOST),
                (f"/proc/pressure/{part}: some avg10={share}",),
            )
