# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How what the active tests measured is judged: what kept a test from its end, and a rate by its floor.

A rate is held against the board's floor, and against the other GPUs of the node. On a simulated GPU rates mean nothing:
there they are not judged, unless the simulator declares them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Callable

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    OUT_OF_MEMORY,
    Facts,
    Node,
    Result,
    fail,
    inapplicable,
    ok,
    skipped,
    unknown,
)
from ansible_collections.gpulab.node.plugins.module_utils.core.child import KILLED, was_killed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Find = Callable[[Node], Iterator[Result]]

# cuda.h: what a failed call says of a GPU on which nobody else works, and the remedy.
CUDA_FAILURES = {
    2: ("memory is held on a GPU that shows no process", "reset_gpu"),
    46: ("its compute mode forbids this, or another process uses it exclusively", "stop_app"),
    100: ("NVML lists the GPU, but CUDA sees none", "reinstall_driver"),
    101: ("NVML lists the GPU, but CUDA does not", "reboot"),
    214: ("the GPU had an uncorrectable memory error", "reset_gpu"),
    218: ("the driver cannot compile for this GPU", "upgrade_driver"),
    220: ("the GPU had an uncorrectable NVLink error", "reset_gpu"),
    222: ("the driver is too old for this GPU", "upgrade_driver"),
    802: ("the GPU waits for the Fabric Manager", "start_fabricmanager"),
    803: ("the driver's library and its module differ", "reboot"),
    804: ("a compatibility library of another CUDA version is used", "reinstall_driver"),
}
# A known-good kernel does none of this: assertion, illegal address, illegal instruction, misaligned address, failure.
CUDA_MISBEHAVIOUR = {700, 710, 715, 716, 719}
# What PyTorch, NCCL and Docker print, and the remedy.
PROGRAM_FAILURES = (
    ("No module named", "install_software"),
    ("sees no GPU", "upgrade_software"),
    ("no kernel image", "upgrade_software"),
    ("out of memory", "reset_gpu"),
    ("device-side assert", "contact_support"),
    ("not installed", "install_software"),
    ("No such image", "install_software"),
    ("No such file", "install_software"),
    ("could not select device driver", "configure"),
    ("nvidia-container-cli", "configure"),
    ("unresolvable CDI devices", "configure"),
)


@dataclass(frozen=True)
class Rate:
    """A rate that a test measures: where it lies in the test's record, and how a finding speaks of it."""

    test: str
    key: str
    unit: str
    label: str
    remedy: str


def measured(find: Find) -> Find:
    """Let a check speak only where tests ran."""

    @wraps(find)
    def found(node: Node) -> Iterator[Result]:
        if node.facts.get("measurements.gpus"):
            yield from find(node)
        elif node.facts.get("measurements.gpus") is not None:
            yield node.without("NVML lists no GPU (see driver-responsive)")
        elif node.declared.get("level", "quick") == "quick":
            yield inapplicable("level quick does not load the GPUs; level standard does (verify_level)")
        else:
            yield unknown("no measurements were made")

    return found


SIMULATED = skipped("the GPU is simulated, so its rates mean nothing")


def rates_mean_something(facts: Facts) -> bool:
    """Tell whether rates were measured that may be judged."""
    real = not facts.get("measurements.simulated") or facts.get("measurements.rates_declared")
    return bool(facts.get("measurements.gpus") and real)


def of_each(node: Node, test: str, judge: Callable[[Facts, Facts], Iterable[Result]]) -> Iterator[Result]:
    """Yield what judge(gpu, record) says of each GPU on which the test came to its end, else what kept it."""
    for gpu in node.facts["measurements.gpus"]:
        record = gpu[f"tests.{test}"]
        kept = what_kept(node, record, f"the test {test}")
        if kept and kept.remediation == "start_fabricmanager" and node.fabric_manager(gpu) == "rack":
            kept = replace(kept, remediation="check_rack")
        for result in [kept] if kept else judge(gpu, record):
            yield replace(result, gpu=gpu.identity())


def left_out(node: Node, record: Facts) -> Result:
    """Answer a test that was left out: it is not for a machine that needs none, or where no PyTorch shall be."""
    environments = node.facts.get("environments", [])
    pytorch = any(
        one.get("expected") is None or (one.get("expected.framework") == "pytorch" and one.get("expected.cuda"))
        for one in environments
    )
    applies = pytorch if record.get("lacks_pytorch") else record.get("applies", True)
    return skipped(record["reason"]) if applies else inapplicable(record["reason"])


def what_kept(node: Node, record: Facts, what: str, otherwise: str = "restart_app") -> Result | None:
    """Return what kept a test from its end; None where it came to it."""
    state = record["state"]
    if state == "done":
        return None
    if state == "skipped":
        return left_out(node, record)
    if state == "late":
        return fail(
            f"{what} did not end within {record['seconds']:g} s",
            "reboot",
            reason="the driver does not answer, or the GPU hangs",
        )
    if was_killed(record.get("reason") or "") or record.get("error.code") in KILLED:
        return unknown(f"{what} was killed: {OUT_OF_MEMORY}")
    if state == "died":
        return fail(f"{what} died", "reinstall_driver", reason=record["reason"])
    return _failed(record["error"], what, otherwise)


def _failed(error: Facts, what: str, otherwise: str) -> Result:
    code, name = error.get("code"), error["name"]
    if error.get("call") is None:  # a program, not a call
        remedy = next((remedy for text, remedy in PROGRAM_FAILURES if text in name), otherwise)
        return fail(f"{what} failed", remedy, reason=name)
    if code is None:
        return fail(f"{what} failed: {error['call']}", "install_driver", reason=name)
    if code in CUDA_MISBEHAVIOUR:
        reason, remedy = "a correct kernel does not cause this", "contact_support"
    else:
        reason, remedy = CUDA_FAILURES.get(code, ("the driver gives no reason", "reboot"))
    return fail(f"{what} failed: {error['call']}: {name} ({code})", remedy, reason=reason, observed=code, expected=0)


def correct(record: Facts) -> Result:
    """Return ok where no result is wrong; a GPU that computes wrong is not fit for any work."""
    wrong = record["wrong"]
    if wrong:
        return fail(f"{wrong} results are wrong", "contact_support", observed=wrong, expected=0)
    return ok("all results are correct", 0)


def against_floor(rate: Rate, value: float, floor: float | None) -> Result:
    """Judge a rate by the least that is expected, None where nothing is."""
    summary = f"{rate.label} {value:g} {rate.unit}"
    if floor is None:
        return ok(summary, value, unit=rate.unit, reason="no floor is known for this board")
    if value < floor:
        return fail(
            f"{summary}, below the floor of {floor:g}", rate.remedy, observed=value, expected=floor, unit=rate.unit
        )
    return ok(summary, value, expected=floor, unit=rate.unit)
