# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All active tests of a node in one go: what is tried, in which order, and what came of it, as plain data.

Only idle GPUs are loaded. GPU after GPU, so that none shares the host's memory or the power supply with another; the
burn-in alone loads all of them together, as real work does.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.active import (
    cuda_driver,
    cuda_tests,
    idle,
    loading,
    mounts,
    peer_copies,
    programs,
)
from ansible_collections.gpulab.node.plugins.module_utils.driver.errors import judged
from ansible_collections.gpulab.node.plugins.module_utils.facts import users as facts_users
from ansible_collections.gpulab.node.plugins.module_utils.facts.kernel_log import KernelLogQuery
from ansible_collections.gpulab.node.plugins.module_utils.nvml import library as nvml
from ansible_collections.gpulab.node.plugins.module_utils.nvml.query import NvmlQuery

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.active.shapes import (
        Ended,
        Errors,
        InContainer,
        Loading,
        Measurements,
        NvmlGpu,
        PeerCopies,
        TestedGpu,
        Together,
        Tried,
    )
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.driver import UsersOfGpus
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.services import KernelEvent

SCHEMA = 1
STANDARD, BURN_IN = "standard", "burn-in"
NVML_SECONDS = 10.0
SAMPLE_SECONDS = 10.0
WITHOUT_SMOKE = "the CUDA smoke test did not pass"
WITHOUT_PYTORCH: Ended = {
    "state": "skipped",
    "reason": "no interpreter with PyTorch is set (verify_python)",
    "lacks_pytorch": True,
}
ONE_GPU: Ended = {"state": "skipped", "reason": "needs two GPUs", "applies": False}


@dataclass(frozen=True)
class Wishes:
    """What to test: python has PyTorch, container_image is on the node already, mounts are directories of data.

    seconds is what a test of the driver on one GPU may take, program_seconds what any other test may.
    """

    level: str = STANDARD
    python: str | None = None
    container_image: str | None = None
    mounts: tuple[str, ...] = ()
    burn_in_minutes: float = 60.0
    seconds: float = 60.0
    program_seconds: float = 300.0
    cuda_library: str = cuda_driver.LIBRARY
    nvml_library: str = nvml.LIBRARY


def measure(node: Node, wishes: Wishes) -> Measurements:
    """Run all tests and return the measurements."""
    before = _errors(node, wishes)
    gpus = [_gpu(node, wishes, index) for index in range(len(_look(node, wishes)[0]))]
    between = _peer_copies(node, wishes, gpus)
    all_reduce = _all_reduce(node, wishes, gpus)
    if wishes.level == BURN_IN:
        _burn_in(node, wishes, gpus)
    busy = idle.in_use(_look(node, wishes)[1])
    after = _errors(node, wishes)
    for gpu in gpus:
        gpu["errors"] = {"before": before.get(gpu["bus_id"]), "after": after.get(gpu["bus_id"])}
    simulations = [gpu.pop("simulation", None) for gpu in gpus]
    simulation = next(filter(None, simulations), None)
    return {
        "schema": SCHEMA,
        "level": wishes.level,
        "python": wishes.python,
        "simulated": simulation["line"] if simulation else None,
        "rates_declared": simulation["rates_declared"] if simulation else True,
        "gpus": gpus,
        "peer_copies": between,
        "all_reduce": all_reduce,
        "container": _container(wishes, gpus),
        "mounts": [mounts.measure(path, wishes.seconds, busy) for path in wishes.mounts],
        "data_loading": _loading(node, wishes, gpus, busy),
    }


def _look(node: Node, wishes: Wishes) -> tuple[list[NvmlGpu], UsersOfGpus]:
    """Return NVML's GPUs and who uses them, as they are now."""
    gpus = NvmlQuery(NVML_SECONDS, wishes.nvml_library).facts()["gpus"]
    return gpus, facts_users.read(node, gpus, os.getpid())


def _gpu(node: Node, wishes: Wishes, index: int) -> TestedGpu:
    """Test one GPU, if it is idle at this moment."""
    gpus, users = _look(node, wishes)
    gpu = gpus[index] if index < len(gpus) else {"index": index}
    identity: Any = {key: gpu.get(key) for key in ("index", "name", "uuid", "bus_id", "device")}
    record: TestedGpu = identity
    busy = idle.why_not(gpu, gpus, users)
    if busy:
        record["tests"] = {name: {**_skipped(busy)} for name in ("smoke", "copies", "memory", "matmul")}
        return record
    tests = record["tests"] = {}
    for name, test in (("smoke", cuda_tests.smoke), ("copies", cuda_tests.copies), ("memory", cuda_tests.memory)):
        if name == "smoke" or works(record):
            tests[name] = cuda_tests.CudaTest(test, gpu, wishes.seconds, wishes.cuda_library).finish()
            record["simulation"] = tests[name].pop("simulation") or record.get("simulation")
        else:
            tests[name] = {**_skipped(WITHOUT_SMOKE)}
    tests["matmul"] = _matmul(wishes, gpu) if works(record) else {**_skipped(WITHOUT_SMOKE)}
    return record


def works(gpu: TestedGpu) -> bool:
    """Tell whether a GPU passed the smoke test."""
    smoke = gpu["tests"]["smoke"]
    return smoke["state"] == "done" and not smoke["wrong"]


def _matmul(wishes: Wishes, gpu: NvmlGpu) -> Tried:
    if not wishes.python:
        return {**WITHOUT_PYTORCH}
    try:
        return programs.TorchTest(wishes.python, gpu, wishes.program_seconds).finish()
    except OSError as error:
        return {"state": "failed", "error": {"code": None, "name": f"{wishes.python}: {error.strerror}"}}


def _taken(node: Node, wishes: Wishes, gpus: list[TestedGpu]) -> dict[str, str]:
    """Return, by uuid, why GPUs that work may be loaded no more: their own tests are minutes old on a large node."""
    return idle.taken([gpu["uuid"] for gpu in gpus if works(gpu)], *_look(node, wishes))


def _peer_copies(node: Node, wishes: Wishes, gpus: list[TestedGpu]) -> PeerCopies:
    """Copy between all GPUs that work; the others are left alone."""
    if len(gpus) < 2:  # noqa: PLR2004 - a copy has two ends
        return {**ONE_GPU}
    taken = _taken(node, wishes, gpus)
    able = [gpu for gpu in gpus if works(gpu) and gpu["uuid"] not in taken]
    if len(able) < 2:  # noqa: PLR2004 - the same two
        return {**_skipped(_with_users("fewer than two GPUs are idle and passed the CUDA smoke test", taken))}
    pairs = peer_copies.measure(able, wishes.seconds, wishes.cuda_library)
    return {"state": "done", "pairs": pairs, "taken": taken}


def _all_reduce(node: Node, wishes: Wishes, gpus: list[TestedGpu]) -> Together:
    if len(gpus) < 2:  # noqa: PLR2004 - a collective needs two
        return {**ONE_GPU}
    taken = _taken(node, wishes, gpus)
    if taken or not all(works(gpu) for gpu in gpus):
        return {**_skipped(_with_users("not every GPU of the node is idle and passed the CUDA smoke test", taken))}
    try:
        return programs.all_reduce(wishes.python, gpus, wishes.program_seconds)
    except OSError as error:
        return {"state": "failed", "error": {"code": None, "name": str(error)}}


def _with_users(reason: str, taken: dict[str, str]) -> str:
    return ": ".join([reason, *dict.fromkeys(taken.values())])


def _container(wishes: Wishes, gpus: list[TestedGpu]) -> InContainer:
    if not wishes.container_image:
        return {**_skipped("no image is set (verify_container_image)"), "applies": False}
    return programs.container(wishes.container_image, len(gpus), wishes.program_seconds)


def _loading(node: Node, wishes: Wishes, gpus: list[TestedGpu], busy: str | None) -> list[Loading]:
    """Load data from each directory, for a GPU that is idle; while somebody works on the node, from none."""
    if not wishes.python or busy:
        return [{"path": path, **(_skipped(busy) if busy else WITHOUT_PYTORCH)} for path in wishes.mounts]
    taken = _taken(node, wishes, gpus)
    free = next((gpu["uuid"] for gpu in gpus if works(gpu) and gpu["uuid"] not in taken), "")
    numbers = loading.candidates(len(os.sched_getaffinity(0)), len(gpus))
    return [_load_from(wishes, wishes.python, path, numbers, free) for path in wishes.mounts]


def _load_from(wishes: Wishes, python: str, path: str, numbers: list[int], gpu: str) -> Loading:
    try:
        return loading.measure(python, path, numbers, gpu, wishes.program_seconds)
    except OSError as error:
        return {"path": path, "state": "failed", "error": {"code": None, "name": str(error)}}


def _burn_in(node: Node, wishes: Wishes, gpus: list[TestedGpu]) -> None:
    """Load all GPUs that work at once, watch them, and put what came of it among each GPU's tests."""
    loads = {}
    taken = _taken(node, wishes, gpus)
    for gpu in gpus:
        if not works(gpu):
            gpu["tests"]["burn_in"] = {**_skipped(WITHOUT_SMOKE)}
        elif gpu["uuid"] in taken:
            gpu["tests"]["burn_in"] = {**_skipped(taken[gpu["uuid"]])}
        else:
            loads[gpu["uuid"]] = _load(wishes, gpu)
    samples = _samples(wishes) if loads else []
    for gpu in gpus:
        if gpu["uuid"] in loads:
            record = loads[gpu["uuid"]].finish()
            record.pop("simulation", None)
            seen = [sample[gpu["uuid"]] for sample in samples if gpu["uuid"] in sample]
            gpu["tests"]["burn_in"] = {**record, "minutes": wishes.burn_in_minutes, **_summary(seen)}


def _load(wishes: Wishes, gpu: TestedGpu) -> cuda_tests.CudaTest | programs.TorchTest:
    """Start the heaviest load that this GPU can be given."""
    seconds = 60 * wishes.burn_in_minutes
    if gpu["tests"]["matmul"]["state"] == "done" and wishes.python:
        return programs.TorchTest(wishes.python, gpu, seconds + wishes.program_seconds, str(seconds))
    test = partial(cuda_tests.burn, seconds=seconds)
    return cuda_tests.CudaTest(test, gpu, seconds + wishes.seconds, wishes.cuda_library)


Sample = dict[str, "int | None"]


def _samples(wishes: Wishes) -> list[dict[str, Sample]]:
    """Read temperature, clock, power and what slows the clocks of all GPUs, every few seconds of the burn-in."""
    end, found = time.monotonic() + 60 * wishes.burn_in_minutes, []
    while time.monotonic() < end:
        time.sleep(min(SAMPLE_SECONDS, max(0.0, end - time.monotonic())))
        gpus = NvmlQuery(NVML_SECONDS, wishes.nvml_library).facts()["gpus"]
        found.append({gpu["uuid"]: _sample(gpu) for gpu in gpus if isinstance(gpu.get("uuid"), str)})
    return found


def _sample(gpu: NvmlGpu) -> Sample:
    return {
        "celsius": _number(gpu["temperature"]["gpu"]),
        "margin": _number(gpu["temperature"]["margin"]),
        "sm_mhz": _number(gpu["clocks"]["sm"]),
        "milliwatts": _number(gpu["power_mw"]["usage"]),
        "event_reasons": _number(gpu["clocks"]["event_reasons"]),
    }


def _summary(samples: list[Sample]) -> Tried:
    """Return the extremes of the samples, and every reason that slowed the clocks in any of them."""

    def known(key: str) -> list[int]:
        return [value for value in (sample[key] for sample in samples) if value is not None]

    reasons = 0
    for sample in known("event_reasons"):
        reasons |= sample
    return {
        "samples": len(samples),
        "hottest_celsius": max(known("celsius"), default=None),
        "least_margin": min(known("margin"), default=None),
        "slowest_sm_mhz": min(known("sm_mhz"), default=None),
        "highest_watts": max(known("milliwatts"), default=0) // 1000 or None,
        "event_reasons": reasons,
    }


def _errors(node: Node, wishes: Wishes) -> dict[str, Errors]:
    """Count, by bus id, the errors that a load may bring: of the memory, and in the kernel log, there by their XIDs.

    What a program causes is left out: that of a user may run meanwhile.
    """
    log = KernelLogQuery(node)
    gpus = NvmlQuery(NVML_SECONDS, wishes.nvml_library).facts()["gpus"]
    events = log.facts()["events"]
    return {
        gpu["bus_id"]: {
            "uncorrected": _number(gpu["ecc"]["volatile"]["uncorrected"]),
            "remapped_rows": _number(gpu["remapped_rows"].get("uncorrected")),
            "kernel_log": _logged([event for event in events if event["bus_id"] == gpu["bus_id"]]),
        }
        for gpu in gpus
        if isinstance(gpu.get("bus_id"), str)
    }


def _logged(events: list[KernelEvent]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for event in events:
        if judged(event).severity != "info":
            counts[str(event["xid"] or event["kind"])] += event["count"]
    return dict(counts)


def _number(reading: Any) -> int | None:
    """Return a reading that is a number; None for one that failed."""
    return reading if isinstance(reading, int) else None


def _skipped(reason: str) -> Ended:
    return {"state": "skipped", "reason": reason}
