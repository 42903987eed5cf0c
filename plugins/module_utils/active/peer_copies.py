# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies from each GPU to each other one: did the data arrive, and how fast.

A child process copies pair after pair. Where one hangs, its GPUs are left alone; where one fails, another
process takes the next.
"""

from __future__ import annotations

import ctypes
import os
import time
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.active.cuda_driver import Cuda, CudaError, Gpu
from ansible_collections.gpulab.node.plugins.module_utils.core.child import DONE, LATE, Child, Emit

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.active.shapes import PairCopy, TestedGpu

Pair = tuple["TestedGpu", "TestedGpu"]

BYTES = 64 << 20
BLOCK = 1 << 20
COPIES = 5
MOST_PAIRS = 56  # all of eight GPUs
BUDGET = 4  # so many times the seconds of one child; each that hangs takes two GPUs away


def order(gpus: list[TestedGpu]) -> list[Pair]:
    """Return ordered pairs of GPUs: each to the next one, then each to the one after that, until there are enough."""
    count = len(gpus)
    pairs = [(gpus[n], gpus[(n + step) % count]) for step in range(1, count) for n in range(count)]
    return pairs[:MOST_PAIRS]


def measure(gpus: list[TestedGpu], seconds: float, library: str) -> list[PairCopy]:
    """Copy between all pairs, and return a record of each.

    ``from`` and ``to`` are indexes, ``state`` is done (with ``gbs`` and ``wrong_mib`` of ``mib``), failed, late, died
    or skipped (``reason``). ``straight`` tells whether the driver lets the GPUs reach each other's memory.
    """
    records: list[PairCopy] = []
    waiting, end = order(gpus), time.monotonic() + BUDGET * seconds
    while waiting:
        left = min(seconds, end - time.monotonic())
        if left <= 0:
            return records + [_named(pair, state="skipped", reason="no time was left") for pair in waiting]
        found = _run(waiting, left, library)
        records += found
        waiting = waiting[len(found) :]
        if found[-1]["state"] == "late":
            hung = {found[-1]["from"], found[-1]["to"]}
            reason = f"the copy from GPU {found[-1]['from']} to GPU {found[-1]['to']} hangs"
            left_alone = [pair for pair in waiting if {gpu["index"] for gpu in pair} & hung]
            records += [_named(pair, state="skipped", reason=reason) for pair in left_alone]
            waiting = [pair for pair in waiting if pair not in left_alone]
    return records


def _run(pairs: list[Pair], seconds: float, library: str) -> list[PairCopy]:
    """Copy in a child process; return records up to the first pair that did not come to its end."""
    child = Child(lambda emit: _serve(emit, pairs, library), seconds)
    outcome = child.wait()
    said: list[dict[str, Any]] = [{}]
    for message in child.messages:
        said[-1].update(message)
        if "gbs" in message:
            said.append({})
    records = [_named(pair, state="done", **values) for pair, values in zip(pairs, said) if "gbs" in values]
    if outcome == DONE and len(records) == len(pairs):
        return records
    broken = {**said[-1], "state": "failed" if "error" in said[-1] else "died", "reason": child.reason}
    if outcome == LATE:
        broken = {**said[-1], "state": "late", "seconds": seconds}
    return [*records, _named(pairs[len(records)], **broken)]


def _named(pair: Pair, **values: Any) -> PairCopy:
    record: Any = {"from": pair[0]["index"], "to": pair[1]["index"], **values}
    named: PairCopy = record
    return named


def _serve(emit: Emit, pairs: list[Pair], library: str) -> None:
    """Be the child: say of each pair whether the way is straight, then what came of the copy."""
    gpus = {gpu["uuid"]: gpu for pair in pairs for gpu in pair}
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    try:
        cuda = Cuda(library)
        ends = {uuid: _End(Gpu(cuda, gpu["bus_id"])) for uuid, gpu in gpus.items()}
        sent, received = (ends[pairs[0][0]["uuid"]].gpu.allocate_pinned(BYTES) for _buffer in range(2))
        for one, other in pairs:
            source, target = ends[one["uuid"]], ends[other["uuid"]]
            straight = source.gpu.reaches(target.gpu)
            emit({"straight": straight})
            _write_pattern(sent)
            rate = source.send(target, sent, straight=straight)
            target.receive(received)
            emit({"gbs": rate, "mib": BYTES // BLOCK, "wrong_mib": _differing(sent, received)})
    except CudaError as error:
        emit({"error": {"call": error.function, "code": error.code, "name": error.name}})
    except OSError as error:
        emit({"error": {"call": "dlopen", "code": None, "name": str(error)}})


class _End:
    """A GPU as an end of copies, with a buffer for what it sends and one for what it gets."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        gpu.enter()
        self._out, self._in = gpu.allocate(BYTES), gpu.allocate(BYTES)

    def send(self, target: _End, data: Any, *, straight: bool) -> float:
        """Copy data to another GPU, and return the best rate in GB/s."""
        self.gpu.enter()
        if straight:
            self.gpu.open(target.gpu)
        self.gpu.to_device(self._out, data, BYTES)
        self.gpu.synchronize()
        milliseconds = min(
            self.gpu.milliseconds(lambda: self.gpu.to_peer(target.gpu, target._in, self._out, BYTES))
            for _copy in range(COPIES)
        )
        self.gpu.synchronize()
        if straight:
            self.gpu.close(target.gpu)
        return round(BYTES / milliseconds / 1e6, 2)

    def receive(self, data: Any) -> None:
        """Fetch what the last copy to this GPU left there."""
        self.gpu.enter()
        self.gpu.to_host(data, self._in, BYTES)
        self.gpu.synchronize()


def _write_pattern(buffer: Any) -> None:
    """Fill a buffer with what no earlier copy held, and no two blocks of it share."""
    block = bytearray(os.urandom(BLOCK))
    for number in range(BYTES // BLOCK):
        block[:4] = number.to_bytes(4, "big")
        ctypes.memmove(buffer.value + number * BLOCK, bytes(block), BLOCK)


def _differing(one: Any, other: Any) -> int:
    """Count the blocks in which two buffers differ."""
    memcmp = ctypes.CDLL(None).memcmp
    size = ctypes.c_size_t(BLOCK)
    starts = range(0, BYTES, BLOCK)
    return sum(
        memcmp(ctypes.c_void_p(one.value + start), ctypes.c_void_p(other.value + start), size) != 0 for start in starts
    )
