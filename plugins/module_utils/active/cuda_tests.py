# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is tried on one GPU with the driver alone; each test ends in a child process with a deadline.

A test is a function of a Gpu that returns its measurements: counts, bytes, GB/s (10^9 bytes), seconds.
"""

from __future__ import annotations

import ctypes
import os
import struct
import time
from array import array
from statistics import median
from typing import TYPE_CHECKING, Any, Callable

from ansible_collections.gpulab.node.plugins.module_utils.active import cuda_driver
from ansible_collections.gpulab.node.plugins.module_utils.active.cuda_driver import Cuda, CudaError, Gpu
from ansible_collections.gpulab.node.plugins.module_utils.core.child import DONE, LATE, Child, Emit

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.active.shapes import NvmlGpu, TestedGpu, Tried

Test = Callable[[Gpu], "Tried"]

ELEMENTS = 1 << 20
COPY_BYTES = 128 << 20
COPIES = 8
L2_MULTIPLE = 16  # an array this much larger than the cache leaves nothing of the last run in it
UNKNOWN_L2 = 128 << 20  # larger than any so far
RUNS = 20
WARM_UP_SECONDS = 1.0  # clocks rise late
FLOAT = 4


def smoke(gpu: Gpu) -> Tried:
    """Compute a million sums and compare each with the processor's; whole numbers, so they are exact."""
    a = array("f", (index % 4093 for index in range(ELEMENTS)))
    b = array("f", (index % 8191 for index in range(ELEMENTS)))
    expected = array("f", (one + 2 * other for one, other in zip(a, b)))
    size = FLOAT * ELEMENTS
    out = array("f", bytes(size))
    sums, ones, others = (gpu.allocate(size) for _array in range(3))
    gpu.to_device(ones, ctypes.c_void_p(a.buffer_info()[0]), size)
    gpu.to_device(others, ctypes.c_void_p(b.buffer_info()[0]), size)
    gpu.triad(sums, ones, others, 2.0, ELEMENTS)
    gpu.synchronize()
    gpu.to_host(ctypes.c_void_p(out.buffer_info()[0]), sums, size)
    gpu.synchronize()
    wrong = 0 if out == expected else sum(one != other for one, other in zip(out, expected))
    return {"elements": ELEMENTS, "wrong": wrong}


def copies(gpu: Gpu) -> Tried:
    """Copy pinned memory to the GPU, within it and back: best rates, a byte counted once, and if it came back."""
    size = COPY_BYTES
    source, target = gpu.allocate_pinned(size), gpu.allocate_pinned(size)
    one, other = gpu.allocate(size), gpu.allocate(size)
    block = os.urandom(1 << 20)
    for offset in range(0, size, len(block)):
        ctypes.memmove(source.value + offset, block, min(len(block), size - offset))

    def rate(start: Callable[[Any, Any, int], None], to: Any, origin: Any) -> float:
        return round(size / min(gpu.milliseconds(lambda: start(to, origin, size)) for _copy in range(COPIES)) / 1e6, 2)

    tried: Tried = {
        "bytes": size,
        "to_device_gbs": rate(gpu.to_device, one, source),
        "on_device_gbs": rate(gpu.on_device, other, one),
        "to_host_gbs": rate(gpu.to_host, target, other),
    }
    differ = ctypes.CDLL(None).memcmp(source, target, ctypes.c_size_t(size))
    return {**tried, "intact": not differ}


class Triad:
    """Three arrays on a GPU, well above its cache, and the sum over them that moves each once: 1 + 3 * 2 = 7."""

    ONE, TWO, SEVEN = (struct.unpack("=I", struct.pack("=f", value))[0] for value in (1.0, 2.0, 7.0))

    def __init__(self, gpu: Gpu) -> None:
        """Allocate and fill the arrays; together they never take more than three quarters of what is free."""
        size = min(L2_MULTIPLE * (gpu.l2_bytes() or UNKNOWN_L2), gpu.free_bytes() // 4)
        self._gpu = gpu
        self._count = size // FLOAT // 4 * 4
        self._out, self._a, self._b = (gpu.allocate(size) for _array in range(3))
        gpu.fill(self._a, self.ONE, self._count)
        gpu.fill(self._b, self.TWO, self._count)
        self.moved = 3 * FLOAT * self._count

    def run(self) -> None:
        """Start it once."""
        self._gpu.triad(self._out, self._a, self._b, 3.0, self._count)

    def run_for(self, seconds: float) -> int:
        """Repeat it for so long, and return how often it ran."""
        end, runs = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            for _run in range(RUNS):
                self.run()
            self._gpu.synchronize()
            runs += RUNS
        return runs

    def wrong(self) -> int:
        """Count the results of the last run that are wrong."""
        return self._gpu.differing(self._out, self.SEVEN, self._count)


def memory(gpu: Gpu) -> Tried:
    """Measure the bandwidth of the GPU's memory by a triad: the median of several runs."""
    triad = Triad(gpu)
    triad.run_for(WARM_UP_SECONDS)
    milliseconds = median(gpu.milliseconds(triad.run) for _run in range(RUNS))
    return {
        "bytes": triad.moved,
        "memory_gbs": round(triad.moved / milliseconds / 1e6, 1),
        "wrong": triad.wrong(),
    }


def burn(gpu: Gpu, seconds: float) -> Tried:
    """Keep the memory at work for so long, and count wrong results every few seconds."""
    triad = Triad(gpu)
    end, runs, wrong = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        runs += triad.run_for(min(5.0, seconds))
        wrong += triad.wrong()
    return {"load": "triad", "runs": runs, "wrong": wrong}


class CudaTest:
    """A test that runs in a child process, on the one GPU at bus_id with this uuid."""

    def __init__(
        self, test: Test, gpu: TestedGpu | NvmlGpu, seconds: float, library: str = cuda_driver.LIBRARY
    ) -> None:
        """Start it; it has this many seconds."""
        self._seconds = seconds
        self._child = Child(lambda emit: _serve(emit, test, gpu, library), seconds)

    def finish(self) -> Tried:
        """Wait for its end or its deadline and return its record.

        ``state`` is done (with the measurements), failed (``error``: call, code, name), late (``seconds``) or died
        (``reason``). ``simulation`` is the simulator's line where the GPU is simulated.
        """
        outcome = self._child.wait()
        record: Tried = {"simulation": None}
        for message in self._child.messages:
            record.update(message)
        if outcome == LATE:
            return {**record, "state": "late", "seconds": self._seconds}
        if outcome != DONE:
            return {**record, "state": "died", "reason": self._child.reason}
        return {**record, "state": "failed" if "error" in record else "done"}


def _serve(emit: Emit, test: Test, gpu: TestedGpu | NvmlGpu, library: str) -> None:
    # The other GPUs stay out of it: one of them may hang, or be at work.
    os.environ["CUDA_VISIBLE_DEVICES"] = gpu["uuid"]
    os.environ["CUDA_CACHE_DISABLE"] = "1"  # or the driver leaves compiled kernels in ~/.nv
    try:
        cuda = Cuda(library)
        emit({"simulation": cuda.simulation()})
        emit(test(Gpu(cuda, gpu["bus_id"])))
    except CudaError as error:
        emit({"error": {"call": error.function, "code": error.code, "name": error.name}})
    except OSError as error:
        emit({"error": {"call": "dlopen", "code": None, "name": str(error)}})
