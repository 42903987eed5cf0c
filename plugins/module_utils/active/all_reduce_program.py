# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure an all_reduce over GPUs by torch.distributed. A node's own Python interpreter runs this file, once per GPU.

    python all_reduce_program.py STORE RANK COUNT    # STORE: a file that is not there yet

Rank 0 prints one line of JSON. It needs nothing but PyTorch with NCCL, and knows nothing of gpulab.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from statistics import median
from typing import Any

BYTES = 1 << 30
ELEMENT = 4
WARM_UP, RUNS = 5, 20
PATIENCE = timedelta(minutes=3)


def measure(torch: Any, rank: int, count: int) -> dict[str, Any]:
    """Return algorithm and bus bandwidth in GB/s, and how many elements of a sum are wrong.

    Bus bandwidth is what the links carry, whatever the number of GPUs (nccl-tests, doc/PERFORMANCE.md).
    """
    distributed = torch.distributed
    data = torch.full((BYTES // ELEMENT,), float(rank + 1), device="cuda")
    distributed.all_reduce(data)
    wrong = int((data != count * (count + 1) / 2).sum().item())
    data.zero_()
    for _run in range(WARM_UP):
        distributed.all_reduce(data)
    events = [[torch.cuda.Event(enable_timing=True) for _edge in range(2)] for _run in range(RUNS)]
    for begin, finish in events:
        begin.record()
        distributed.all_reduce(data)
        finish.record()
    torch.cuda.synchronize()
    rate = BYTES / median(begin.elapsed_time(finish) for begin, finish in events) / 1e6
    return {
        "bytes": BYTES,
        "algorithm_gbs": round(rate, 1),
        "all_reduce_gbs": round(rate * 2 * (count - 1) / count, 1),
        "wrong": wrong,
    }


def main() -> None:
    """Join the others, measure, and print what rank 0 found."""
    import torch  # noqa: PLC0415 - only the interpreter that runs this program has it

    store, rank, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group(
        "nccl", init_method=f"file://{store}", rank=rank, world_size=count, timeout=PATIENCE
    )
    found = measure(torch, rank, count)
    if rank == 0:
        said = {"by": f"torch.distributed, PyTorch {torch.__version__}", **found}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
