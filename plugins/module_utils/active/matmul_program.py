# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure matrix products by PyTorch. This file is the program that a node's own Python interpreter runs.

    python matmul_program.py [SECONDS]

It works on the first GPU it sees and prints lines of JSON: for each precision {"bf16_tflops": ...}, or, with SECONDS,
one line after so long under load. It needs nothing but PyTorch, and knows nothing of gpulab.
"""

from __future__ import annotations

import json
import sys
import time
from statistics import median
from typing import Any

SIZE = 8192
ALIGNMENT = 256
RUNS = 20
WARM_UP_SECONDS = 1.0
LARGEST_ELEMENT = 4  # bytes
MATRICES = 4
UNSETTLED = "fp8"  # each PyTorch release offers this product in another form, or on other GPUs
TENSOR_BF16, TENSOR_FP8 = (8, 0), (8, 9)  # the compute capabilities that brought them


def fitting_size(free: int) -> int:
    """Return how wide square matrices may be, so that those of a test take half of the free memory at most."""
    widest = int((free / 2 / MATRICES / LARGEST_ELEMENT) ** 0.5)
    return min(SIZE, widest // ALIGNMENT * ALIGNMENT)


def products(torch: Any, size: int) -> dict[str, Any]:
    """Return, for each precision this GPU has, a function that computes one product; the same one each time."""
    capability = torch.cuda.get_device_capability()
    a, b = (torch.randn(size, size, device="cuda") for _matrix in range(2))

    def product(kind: Any, *, tf32: bool = False) -> Any:
        one, other = a.to(kind), b.to(kind)

        def multiply() -> Any:
            torch.backends.cuda.matmul.allow_tf32 = tf32
            return one @ other

        return multiply

    found = {"fp16": product(torch.float16), "fp32": product(torch.float32)}
    if capability >= TENSOR_BF16:
        found["bf16"] = product(torch.bfloat16)
        found["tf32"] = product(torch.float32, tf32=True)
    if capability >= TENSOR_FP8 and hasattr(torch, "float8_e4m3fn"):
        one, other = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).t().contiguous().t()
        scale = torch.ones((), device="cuda")
        multiply = torch._scaled_mm  # noqa: SLF001 - what PyTorch itself offers of fp8
        found["fp8"] = lambda: multiply(one, other, scale, scale, out_dtype=torch.bfloat16)
    return found


def differing(torch: Any, one: Any, other: Any) -> int:
    """Count the elements that differ between two results of the same product; what is no number differs as well."""
    return int((~torch.isfinite(one) | (one != other)).sum().item())


def rate(torch: Any, multiply: Any, size: int) -> tuple[float, int]:
    """Return the TFLOPS of a product, by the median of several runs, and how many elements of the last are wrong."""
    first = multiply()
    end = time.monotonic() + WARM_UP_SECONDS
    while time.monotonic() < end:
        multiply()
        torch.cuda.synchronize()
    events = [[torch.cuda.Event(enable_timing=True) for _edge in range(2)] for _run in range(RUNS)]
    for begin, finish in events:
        begin.record()
        last = multiply()
        finish.record()
    torch.cuda.synchronize()
    milliseconds = median(begin.elapsed_time(finish) for begin, finish in events)
    return 2 * size**3 / milliseconds / 1e9, differing(torch, first, last)


def measure(torch: Any) -> None:
    """Print each precision's rate, and the elements that came out wrong."""
    size, wrong = fitting_size(torch.cuda.mem_get_info()[0]), 0
    say(size=size, torch=torch.__version__, cuda=torch.version.cuda)
    for name, multiply in products(torch, size).items():
        try:
            tflops, errors = rate(torch, multiply, size)
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            if name != UNSETTLED:
                raise
            say(**{f"{name}_unsupported": str(error)})
            continue
        wrong += errors
        say(**{f"{name}_tflops": round(tflops, 1)}, wrong=wrong)


def burn(torch: Any, seconds: float) -> None:
    """Multiply for so long, and print how often, and how many elements came out wrong."""
    size = fitting_size(torch.cuda.mem_get_info()[0])
    found = products(torch, size)
    name = "bf16" if "bf16" in found else "fp16"
    first, runs, wrong = found[name](), 0, 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _run in range(RUNS):
            last = found[name]()
        wrong += differing(torch, first, last)
        runs += RUNS
    say(load=f"{name} matmul", size=size, runs=runs, wrong=wrong)


def say(**values: Any) -> None:
    """Print one line of results."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Measure, or burn for the seconds given."""
    import torch  # noqa: PLC0415 - only the interpreter that runs this program has it

    if not torch.cuda.is_available():
        sys.stderr.write(f"PyTorch {torch.__version__} (CUDA {torch.version.cuda}) sees no GPU\n")
        raise SystemExit(1)
    torch.manual_seed(0)
    if len(sys.argv) > 1:
        burn(torch, float(sys.argv[1]))
    else:
        measure(torch)


if __name__ == "__main__":
    main()
