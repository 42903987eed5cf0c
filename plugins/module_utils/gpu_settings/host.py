# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give GPUs their settings through NVML, and read each back. The module gpu_settings and the unit at boot share it."""

from __future__ import annotations

import json
import time
from ctypes import byref, c_uint, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.child import DONE, LATE, Child, Emit
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.gpu_settings import refuse
from ansible_collections.gpulab.node.plugins.module_utils.gpu_settings import plan
from ansible_collections.gpulab.node.plugins.module_utils.nvml import library as nvml
from ansible_collections.gpulab.node.plugins.module_utils.nvml.gpu import GpuReader
from ansible_collections.gpulab.node.plugins.module_utils.nvml.library import NvmlError, NvmlLibrary
from ansible_collections.gpulab.node.plugins.module_utils.nvml.mig_instances import MigGpu, StrandedError
from ansible_collections.gpulab.node.plugins.module_utils.nvml.query import NvmlQuery

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.gpu_settings.plan import SettingStep
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.driver import Nvml as Answers

LIBRARY = nvml.LIBRARY
LOCKED = Path("/run/gpulab/gpu-settings.json")  # what NVML does not tell; it goes with the boot, as the clocks do
READ_SECONDS, SET_SECONDS = 15.0, 120.0  # turning MIG on resets the GPU
TRIES, PAUSE = 20, 0.1  # for clocks to come down

# Functions that take one number
SETTERS = {
    "persistence": "nvmlDeviceSetPersistenceMode",
    plan.ECC: "nvmlDeviceSetEccMode",
    plan.COMPUTE_MODE: "nvmlDeviceSetComputeMode",
    "accounting": "nvmlDeviceSetAccountingMode",
    plan.POWER: "nvmlDeviceSetPowerManagementLimit",
}
WAYS = {
    "NO_PERMISSION": "Run it as root on the host itself: a container or virtual machine cannot change this",
    "IN_USE": "Ask the users of the programs that have the GPU open (fuser -v /dev/nvidia*). Then run again",
    "NOT_SUPPORTED": "Remove the setting for this GPU from the inventory: the board or driver does not support it",
    "INVALID_ARGUMENT": "Choose another value: nvidia-smi -q shows what this GPU supports",
    "INSUFFICIENT_RESOURCES": "Choose instances that fit together: nvidia-smi mig -lgipp shows their placements",
}
OTHERWISE = "Read journalctl -k on the node. Then run again"
WAITS = "it is created with MIG itself, at the next boot"


def facts() -> Answers:
    """Read all GPUs, in a child process with a deadline: the facts ``nvml``."""
    return NvmlQuery(READ_SECONDS, LIBRARY).facts()


def locked_clocks() -> dict[str, list[int]]:
    """Return the clocks that gpulab locked since the boot, by the GPU's key."""
    try:
        found = records.read(LOCKED, dict[str, list[int]], {})
    except Refusal:  # then they are locked once more, or left as they are
        return {}
    return found


def apply(steps: list[SettingStep]) -> list[tuple[SettingStep, str]]:
    """Carry the steps out in a child process; return each with why it was not taken, "" where the GPU has it now.

    WAITS is no failure. A step that follows one at which the driver hung is not tried.
    """
    child = Child(lambda emit: _set_all(emit, steps), SET_SECONDS)
    outcome = child.wait()
    stuck = "the driver did not answer in time" if outcome == LATE else child.reason
    missing = [stuck] * (len(steps) - len(child.messages)) if outcome != DONE else []
    answers = list(zip(steps, [*child.messages, *missing]))
    locked = locked_clocks()
    for step, why in answers:
        if step.name == plan.CLOCKS and not why:
            locked.pop(step.key, None)
            locked.update({step.key: step.after} if step.after else {})
    if locked != locked_clocks():
        records.write(LOCKED, locked)
    return answers


def refusal(step: SettingStep, why: str) -> Refusal:
    """Say that a GPU did not take a setting, and what to do about it."""
    way = WAYS.get(why.partition(":")[0], OTHERWISE)
    return refuse("H125", gpu=step.gpu, name=step.name, value=json.dumps(step.after), why=why, way=way)


def at_boot(text: str) -> tuple[list[str], list[str]]:
    """Bring the GPUs to the settings of gpulab's file; return what was set, and what could not be, a line each.

    What needs an idle GPU is left alone where a program runs on it already. What is refused to one GPU keeps no other
    from its settings. Raises Refusal where the GPUs cannot be read.
    """
    settings, answers = plan.read_file(text), facts()
    if answers["state"] != "ok":
        raise refuse("H124", detail=(answers["error"] or {}).get("text") or answers["state"])
    busy = {gpu["bus_id"] for gpu in plan.usable(answers["gpus"]) if gpu["processes"]}
    steps, refused = plan.plan_each(settings, answers["gpus"], locked_clocks())
    failed = [f"GPULAB-{one.code} {one.cause}" for one in refused]  # its remedy says that nothing was changed
    done, due = [], []
    for step in steps:
        if step.name in plan.NEED_IDLE and step.gpu in busy:
            failed.append(f"{told(step)}: unchanged, because the GPU is in use")
        else:
            due.append(step)
    for step, why in apply(due):
        if why == WAITS:
            failed.append(f"{told(step)}: {why}")
        elif why:
            failed.append(str(refusal(step, why)))
        else:
            done.append(told(step))
    return done, failed


def told(step: SettingStep) -> str:
    """Say in a line what a step sets."""
    return f"GPU {step.gpu}: {step.name} {json.dumps(step.before)} -> {json.dumps(step.after)}"


def _set_all(emit: Emit, steps: list[SettingStep]) -> None:
    session = NvmlLibrary(LIBRARY)
    for step in steps:
        emit(_set_one(session, step))


def _set_one(session: NvmlLibrary, step: SettingStep) -> str:
    """Carry a step out; return why the GPU does not have the value, if it has not."""
    try:
        handle = session.handle(step.index)
        reader = GpuReader(session, handle)
        if step.name == plan.INSTANCES and step.after and not reader.mig()["mig"].get("enabled"):
            return WAITS
        _set(session, handle, step)
        return _read_back(reader, step)
    except StrandedError as error:
        return f"{error.name}: the former instances could not be restored ({error.again.name})"
    except NvmlError as error:
        again = ": the former instances are restored" if step.name == plan.INSTANCES else ""
        return f"{error.name}{again}"


def _set(session: NvmlLibrary, handle: c_void_p, step: SettingStep) -> None:
    if step.name == plan.MIG:
        activation = c_uint()
        session.call("nvmlDeviceSetMigMode", handle, c_uint(step.after), byref(activation))
    elif step.name == plan.INSTANCES:
        MigGpu(session, handle).cut(step.after)
    elif step.name == plan.CLOCKS and step.after:
        session.call("nvmlDeviceSetGpuLockedClocks", handle, *map(c_uint, step.after))
    elif step.name == plan.CLOCKS:
        session.call("nvmlDeviceResetGpuLockedClocks", handle)
    else:
        session.call(SETTERS[step.name], handle, c_uint(_number(step)))


def _number(step: SettingStep) -> int:
    if step.name == plan.POWER:
        return round(step.after * 1000)
    if step.name == plan.COMPUTE_MODE:
        return plan.COMPUTE_MODES[step.after]
    return int(step.after)


def _read_back(reader: GpuReader, step: SettingStep) -> str:
    """Return why the GPU does not have the value, if it has not. Of locked clocks only the clock itself tells."""
    if step.name == plan.CLOCKS:
        return _clocks_held(reader, step.after) if step.after else ""
    has = plan.live(reader.settings(), step.name, {})
    return "" if has == step.after else f"the driver accepted it, but reports {json.dumps(has)}"


def _clocks_held(reader: GpuReader, clocks: list[int]) -> str:
    runs: Any = None
    for _try in range(TRIES):
        runs = reader.clocks()["sm"]
        if isinstance(runs, dict) or runs <= clocks[1]:
            return ""
        time.sleep(PAUSE)
    return f"the driver accepted it, but the clock still runs at {runs} MHz"
