# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of GPUs by name: what each GPU is to have, what it has, what has to change. Pure: facts in, steps out.

Settings are {"all": values of every GPU, "gpus": values of single ones by UUID, bus id or index, "power_budget_watts":
what all GPUs together may draw, or None}. A value of None leaves a GPU alone. MIG and its instances go together: naming
instances turns it on; turning it off, or leaving it alone, does the same to them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.gpu_settings import refuse
from ansible_collections.gpulab.node.plugins.module_utils.nvml import mig_profiles
from ansible_collections.gpulab.node.plugins.module_utils.nvml.readings import sysfs_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Settings = dict[str, Any]
Gpu = dict[str, Any]

FILE = "/etc/gpulab/gpu-settings.conf"

POWER, CLOCKS, COMPUTE_MODE, ECC, MIG = "power_limit_watts", "locked_clocks_mhz", "compute_mode", "ecc", "mig"
INSTANCES = "mig_instances"
COMPUTE_MODES = {"default": 0, "prohibited": 2, "exclusive_process": 3}  # nvmlComputeMode_t; 1 is gone since CUDA 8
# What each takes, in the order in which they are set: persistence first, without which the driver forgets the others.
FORMS = {
    "persistence": "true or false",
    MIG: "true or false",
    ECC: "true or false",
    COMPUTE_MODE: f"one of {', '.join(COMPUTE_MODES)}",
    "accounting": "true or false",
    POWER: "watts as a whole number",
    CLOCKS: "two whole numbers, the lowest and the highest graphics clock in MHz",
    INSTANCES: "a list of profiles as nvidia-smi mig -lgip names them, such as [3g.40gb, 3g.40gb]",
}
# What programs on the GPU would notice, or end by
NEED_IDLE = frozenset({COMPUTE_MODE, ECC, MIG, INSTANCES})
_LEAST_CLOCKS = 2


@dataclass(frozen=True)
class SettingStep:
    """One setting of one GPU that is to change; locked clocks of None are free ones."""

    gpu: str
    key: str
    index: int
    name: str
    before: Any
    after: Any


def read_file(text: str) -> Settings:
    """Return the settings that gpulab's file keeps for the next boot; none where there is no such file."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    try:
        settings = json.loads("\n".join(lines))
    except ValueError:
        return {}
    return settings if isinstance(settings, dict) else {}


def check(variable: str, values: dict[str, Any]) -> None:
    """Raise Refusal for a name that is no setting, and for a value that the setting does not take."""
    for name, value in values.items():
        if name not in FORMS:
            raise refuse("P054", variable=variable, name=name, known=", ".join(FORMS))
        if value is not None and not _fits(name, value):
            raise refuse("P055", variable=variable, name=name, value=value, form=FORMS[name])
    if values.get(MIG) is False and values.get(INSTANCES):
        raise refuse("P056", variable=variable, instances=", ".join(values[INSTANCES]))


def _fits(name: str, value: Any) -> bool:
    if name == POWER:
        return _whole(value)
    if name == CLOCKS:
        pair = isinstance(value, (list, tuple)) and len(value) == _LEAST_CLOCKS and all(map(_whole, value))
        return pair and value[0] <= value[1]
    if name == COMPUTE_MODE:
        return isinstance(value, str) and value in COMPUTE_MODES
    if name == INSTANCES:
        return isinstance(value, (list, tuple)) and all(map(mig_profiles.is_profile, value))
    return isinstance(value, bool)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def key(gpu: Gpu) -> str:
    """Return what a GPU is remembered by: its UUID, which moves with it from slot to slot."""
    return str(gpu["uuid"] if isinstance(gpu.get("uuid"), str) else gpu["bus_id"])


def usable(gpus: Iterable[Gpu]) -> list[Gpu]:
    """Return the GPUs that can be set: a lost one has no address, and the proof says so."""
    return [gpu for gpu in gpus if isinstance(gpu.get("bus_id"), str)]


def wanted(settings: Settings, gpus: list[Gpu]) -> dict[str, dict[str, Any]]:
    """Return what each GPU is to have, by bus id and name.

    Raises Refusal for a GPU that is not there, and for a power budget that cannot be kept.
    """
    for name in absent(_named(settings), gpus):
        raise _nobody(name, gpus)
    chosen = {gpu["bus_id"]: declared(settings, gpu) for gpu in gpus}
    if settings.get("power_budget_watts") is not None:
        for address, watts in _shares(settings["power_budget_watts"], gpus, chosen).items():
            chosen[address][POWER] = watts
    return {
        address: {name: one for name, one in values.items() if one is not None} for address, values in chosen.items()
    }


def resolved(settings: Settings, gpus: Iterable[Gpu]) -> Settings:
    """Return settings that mean the same GPUs at the next boot: a board that is lost moves the index of others."""
    if not settings.get("gpus"):
        return settings
    present = usable(gpus)
    single: dict[str, dict[str, Any]] = {}
    for name, values in _named(settings).items():
        for stays in [key(gpu) for gpu in present if _is(gpu, name)] or [name]:
            single[stays] = {**single.get(stays, {}), **whole(values)}
    return {**settings, "gpus": single}


def _named(settings: Settings) -> dict[str, dict[str, Any]]:
    return {str(name): values for name, values in (settings.get("gpus") or {}).items()}


def absent(names: Iterable[str], gpus: list[Gpu]) -> list[str]:
    """Return those names of GPUs that none of these has."""
    return [name for name in names if not any(_is(gpu, name) for gpu in gpus)]


def _nobody(name: str, gpus: list[Gpu]) -> Refusal:
    return refuse("H120", name=name, known=", ".join(f"{gpu['bus_id']} ({key(gpu)})" for gpu in gpus) or "none")


def declared(settings: Settings, gpu: Gpu) -> dict[str, Any]:
    """Return what is declared for one GPU, which its bus_id, index and uuid tell, by name; its own comes first."""
    values = whole(settings.get("all") or {})
    for name, own in _named(settings).items():
        if _is(gpu, name):
            values.update(whole(own))
    return values


def whole(values: dict[str, Any]) -> dict[str, Any]:
    """Return values with what follows from them: of MIG for its instances, and the other way round."""
    if values.get(INSTANCES) is not None and values.get(MIG) is not False:
        return {**values, MIG: True, INSTANCES: mig_profiles.in_order(values[INSTANCES])}
    if MIG in values and values[MIG] is not True:
        return {**values, INSTANCES: [] if values[MIG] is False else None}
    return dict(values)


def _is(gpu: Gpu, name: str) -> bool:
    return name in (str(gpu["index"]), gpu["uuid"]) or sysfs_address(name) == gpu["bus_id"]


def _shares(budget: int, gpus: list[Gpu], chosen: dict[str, dict[str, Any]]) -> dict[str, int]:
    """Return the limits of the GPUs that have none declared, in proportion to their defaults; none where all fits.

    Nor where a GPU does not tell its limit: what nobody can add up, nobody can share.
    """
    limited = [gpu for gpu in gpus if POWER in chosen[gpu["bus_id"]]]
    free = [gpu for gpu in gpus if POWER not in chosen[gpu["bus_id"]]]
    limits = [chosen[gpu["bus_id"]][POWER] or _watts(gpu, "limit") for gpu in limited]
    defaults = [_watts(gpu, "default_limit") for gpu in free]
    if not free or not all((*limits, *defaults)) or sum(limits) + sum(defaults) <= budget:
        return {}
    part = (budget - sum(limits)) / sum(defaults)
    shares = {gpu["bus_id"]: int(watts * part) for gpu, watts in zip(free, defaults)}
    for gpu in free:
        low, _high = _power_range(gpu)
        if shares[gpu["bus_id"]] < low:
            raise refuse("H121", budget=budget, gpu=gpu["bus_id"], watts=shares[gpu["bus_id"]], low=low)
    return shares


def _watts(gpu: Gpu, which: str) -> float:
    """Return a limit; 0 where the GPU does not tell it."""
    reading = gpu["power_mw"][which]
    return 0 if isinstance(reading, dict) else float(reading) / 1000


def _power_range(gpu: Gpu) -> tuple[int, int]:
    limits = gpu["power_mw"]["constraints"]
    if "min" not in limits:
        raise _lacking(gpu, POWER, limits)
    return -(-limits["min"] // 1000), limits["max"] // 1000


def _lacking(gpu: Gpu, name: str, reading: dict[str, Any]) -> Refusal:
    return refuse("H122", gpu=gpu["bus_id"], name=name, error=reading.get("unsupported") or reading.get("error"))


def live(gpu: Gpu, name: str, locked: dict[str, list[int]]) -> Any:
    """Return what a GPU has, or NVML's reason why it has none; of ECC and MIG, what it has after a reset.

    NVML does not tell locked clocks: locked has those that gpulab set since the boot, by key.
    """
    if name == CLOCKS:
        return locked.get(key(gpu))
    if name == POWER:
        limit = gpu["power_mw"]["limit"]
        return limit if isinstance(limit, dict) else limit // 1000 if limit % 1000 == 0 else limit / 1000
    if name == COMPUTE_MODE:
        names = {number: mode for mode, number in COMPUTE_MODES.items()}
        mode = gpu["compute_mode"]
        return mode if isinstance(mode, dict) else names.get(mode, f"mode {mode}")
    if name in (ECC, MIG):
        modes = _modes(gpu, name)
        return modes.get("pending", modes)
    if name == INSTANCES:
        found = gpu.get(INSTANCES, {"unsupported": "not read"})
        return found if isinstance(found, dict) else mig_profiles.in_order(one["name"] for one in found)
    return gpu.get(name, {"unsupported": "not read"})


def _modes(gpu: Gpu, name: str) -> dict[str, Any]:
    modes: dict[str, Any] = gpu["ecc"]["mode"] if name == ECC else gpu["mig"]
    return modes


def plan(
    settings: Settings,
    gpus: list[Gpu],
    remembered: dict[str, dict[str, Any]] | None = None,
    locked: dict[str, list[int]] | None = None,
) -> list[SettingStep]:
    """Return what has to change so that the settings hold, and those no longer wanted are as they were.

    gpus are those of the facts ``nvml``; remembered has what GPUs had before gpulab set it, by key and name.
    Raises Refusal for what a GPU does not have, and for a value outside its range.
    """
    present = usable(gpus)
    aims = wanted(settings, present)
    steps = []
    for gpu in present:
        aim = aims[gpu["bus_id"]]
        target = {**(remembered or {}).get(key(gpu), {}), **aim}
        if target.get(MIG) is False:
            target[INSTANCES] = []
        for name in FORMS:
            if name not in target:
                continue
            has = live(gpu, name, locked or {})
            if name in aim:
                _check_range(gpu, name, aim[name], has)
            elif isinstance(has, dict):
                continue
            if has != target[name] and not (name == INSTANCES and _waits(gpu, target[name])):
                steps.append(SettingStep(gpu["bus_id"], key(gpu), gpu["index"], name, has, target[name]))
    return sorted(steps, key=_turn)


def plan_each(
    settings: Settings, gpus: list[Gpu], locked: dict[str, list[int]] | None = None
) -> tuple[list[SettingStep], list[Refusal]]:
    """Plan each GPU by itself: return what has to change where nothing is refused, and what is.

    At a boot nobody reads a refusal before programs start: one board must not keep the others from their limits.
    """
    present, named = usable(gpus), _named(settings)
    missing = absent(named, present)
    refused = [_nobody(name, present) for name in missing]
    settings = {**settings, "gpus": {name: own for name, own in named.items() if name not in missing}}
    try:
        aims = wanted(settings, present)
    except Refusal as refusal:  # of the power budget
        refused.append(refusal)
        aims = wanted({**settings, "power_budget_watts": None}, present)
    steps: list[SettingStep] = []
    for gpu in present:
        try:
            steps += plan({"all": aims[gpu["bus_id"]]}, [gpu], {}, locked)
        except Refusal as refusal:  # noqa: PERF203 - one GPU's is not another's
            refused.append(refusal)
    return sorted(steps, key=_turn), refused


def _turn(step: SettingStep) -> float:
    """Return when it is a step's turn: instances go before MIG turns off, and come when all else is set."""
    names = list(FORMS)
    return names.index(MIG) - 0.5 if step.name == INSTANCES and not step.after else names.index(step.name)


def _waits(gpu: Gpu, instances: list[str]) -> bool:
    """Tell whether instances come at the next boot only, as MIG itself does."""
    modes = _modes(gpu, MIG)
    return bool(instances) and modes.get("pending") is True and not modes["enabled"]


def _check_range(gpu: Gpu, name: str, value: Any, has: Any) -> None:
    if isinstance(has, dict):
        raise _lacking(gpu, name, has)
    if name == INSTANCES and value:
        _check_instances(gpu, value)
    if name == POWER:
        low, high = _power_range(gpu)
        if not low <= value <= high:
            raise refuse("H123", gpu=gpu["bus_id"], name=name, value=value, low=low, high=high, unit="W")
    highest = gpu["clocks"]["max_sm"]
    if name == CLOCKS and isinstance(highest, int) and value[1] > highest:
        raise refuse("H123", gpu=gpu["bus_id"], name=name, value=value, low=1, high=highest, unit="MHz")


def _check_instances(gpu: Gpu, names: list[str]) -> None:
    """Raise Refusal for instances that the GPU does not have, or not together; a driver may tell once MIG is on."""
    profiles = gpu["mig_profiles"]
    if isinstance(profiles, dict):
        raise _lacking(gpu, INSTANCES, profiles)
    why = mig_profiles.why_not(names, profiles) if profiles else ""
    if why:
        raise refuse("H127", gpu=gpu["bus_id"], instances=", ".join(names), why=why, known=mig_profiles.told(profiles))


def pending(settings: Settings, gpus: list[Gpu]) -> list[str]:
    """Return a line for each setting that is declared and stored, and holds from the next reset or boot on only."""
    present = usable(gpus)
    try:
        aims = wanted(settings, present)
    except Refusal:  # the task that sets them says so
        return []
    return [
        f"{name.upper()} of GPU {gpu['bus_id']} turns {'on' if modes['pending'] else 'off'} only at a reboot"
        for gpu in present
        for name, modes in _stored(gpu)
        if modes["pending"] != modes["enabled"] and aims[gpu["bus_id"]].get(name) == modes["pending"]
    ]


def _stored(gpu: Gpu) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in (ECC, MIG):
        modes = _modes(gpu, name)
        if "pending" in modes:
            yield name, modes


def to_remember(
    remembered: dict[str, dict[str, Any]],
    gpus: list[Gpu],
    settings: Settings,
    steps: list[SettingStep],
    done: list[SettingStep],
) -> dict[str, dict[str, Any]]:
    """Return what GPUs had before gpulab, when of these steps those in done were done.

    What is not wanted any more and was given back is forgotten; a GPU that is not there now keeps its memory.
    """
    present = usable(gpus)
    by_address = wanted(settings, present)
    aims = {key(gpu): by_address[gpu["bus_id"]] for gpu in present}
    failed = {(step.key, step.name) for step in steps} - {(step.key, step.name) for step in done}
    kept = {
        gpu: {
            name: value
            for name, value in values.items()
            if gpu not in aims or name in aims[gpu] or (gpu, name) in failed
        }
        for gpu, values in remembered.items()
    }
    for step in done:
        if step.name in aims[step.key]:
            kept.setdefault(step.key, {}).setdefault(step.name, step.before)
    return {gpu: values for gpu, values in kept.items() if values}
