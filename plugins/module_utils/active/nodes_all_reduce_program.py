# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure an all_reduce over the processes that torchrun started, on whatever nodes they are.

    torchrun ... nodes_all_reduce_program.py BACKEND SECONDS    # nccl: a GPU each; gloo: processors and sockets

Each process prints lines of JSON. It needs nothing but PyTorch, and knows nothing of gpulab.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import time
from datetime import timedelta
from statistics import median
from typing import Any

BYTES = {"nccl": 1 << 30, "gloo": 32 << 20}
ELEMENT = 4
PERIOD = 1021  # a prime: no two neighbouring elements are alike, and no piece of the data is like another
WARM_UP, RUNS = 2, 10
PR_SET_PDEATHSIG = 1


def say(**values: Any) -> None:
    """Print one line, whole: other processes write to the same output."""
    os.write(sys.stdout.fileno(), (json.dumps(values) + "\n").encode())


def measure(torch: Any, device: str, size: int) -> dict[str, Any]:
    """Return algorithm and bus bandwidth in GB/s (its median, lowest, highest), and how many elements are wrong.

    Bus bandwidth is 2 (n - 1) / n of it: what the links carry, whatever the number (nccl-tests, doc/PERFORMANCE.md).
    """
    distributed = torch.distributed
    rank, count = distributed.get_rank(), distributed.get_world_size()
    pattern = torch.arange(size // ELEMENT, dtype=torch.int32, device=device) % PERIOD
    data = pattern * (rank + 1)
    distributed.all_reduce(data)
    wrong = int((data != pattern * (count * (count + 1) // 2)).sum().item())
    say(phase="reduced")
    data.zero_()
    times = []
    for run in range(WARM_UP + RUNS):
        distributed.barrier()
        begin = time.perf_counter()
        distributed.all_reduce(data)
        if device == "cuda":
            torch.cuda.synchronize()
        if run >= WARM_UP:
            times.append(time.perf_counter() - begin)
    bus = 2 * (count - 1) / count
    rate = size / median(times) / 1e9
    return {
        "bytes": size,
        "processes": count,
        "algorithm_gbs": round(rate, 3),
        "all_reduce_gbs": round(rate * bus, 3),
        "lowest_gbs": round(size / max(times) / 1e9 * bus, 3),
        "highest_gbs": round(size / min(times) / 1e9 * bus, 3),
        "wrong": wrong,
    }


def main() -> None:
    """Join the others and measure. Nothing outlives torchrun or the deadline."""
    backend, seconds = sys.argv[1], int(sys.argv[2])
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.alarm(seconds)
    say(phase="started")
    import torch  # noqa: PLC0415 - only the interpreter that runs this program has it

    device = "cuda" if backend == "nccl" else "cpu"
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    try:
        torch.ones(1, device=device).sum().item()
        say(phase="computes")
        torch.distributed.init_process_group(backend, timeout=timedelta(seconds=seconds))
        say(phase="joined")
        found = measure(torch, device, BYTES[backend])
    except Exception as error:
        say(failure=f"{type(error).__name__}: {error}".splitlines()[0])
        raise
    say(by=f"torch.distributed, PyTorch {torch.__version__}", phase="measured", **found)
    with contextlib.suppress(Exception):  # another one may have left already
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
