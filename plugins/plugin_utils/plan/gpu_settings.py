# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of the GPUs: what the inventory declares, and how much all of them together may draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.gpu_settings import plan as gpu_settings
from ansible_collections.gpulab.node.plugins.module_utils.nvml import mig_profiles
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import GpuSettings

NVIDIA, UUID = "10de", "GPU-"
MOST_OF_POWER = 2  # some makers' boards take more than the data sheet says, but none takes twice as much
ALL, SINGLE = "gpu_settings_values", "gpu_settings_per_gpu"


def plan(case: Case) -> GpuSettings:
    """Return {settings, because}; settings are empty where none is made.

    What a limit in watts comes to on each GPU, the node says: its GPUs know their defaults and ranges.
    Raises Refusal for a wish that is no setting.
    """
    if case.wishes["gpu_settings_state"] == "absent":
        return {"settings": {}, "because": ["gpu_settings_state is absent: the GPUs get back their former settings."]}
    values, single = case.wishes[ALL], case.wishes[SINGLE]
    check(values, single)
    if not case.gpus:
        return {"settings": {}, "because": ["The node has no GPU to configure."]}
    _check_boards(case, values, single)
    budget, why = _budget(case)
    because = ["nvidia-persistenced keeps the driver initialised, and the settings with it."]
    declared = [*values, *(f"{name} of {gpu}" for gpu, own in single.items() for name in own)]
    because.append(f"The inventory sets {', '.join(declared)}." if declared else "Nothing else is requested.")
    settings = {"all": values, "gpus": single, "power_budget_watts": budget}
    return {"settings": settings if any(settings.values()) else {}, "because": because + why}


def check(values: dict[str, Any], single: dict[Any, Any]) -> None:
    """Raise Refusal for a name that is no setting, and for a value that no GPU takes."""
    gpu_settings.check(ALL, values)
    for gpu, own in single.items():
        if not isinstance(own, dict):
            raise refuse("P055", variable=SINGLE, name=gpu, value=own, form="settings by name")
        gpu_settings.check(f"{SINGLE}[{gpu}]", own)


def _check_boards(case: Case, values: dict[str, Any], single: dict[Any, dict[str, Any]]) -> None:
    """Refuse settings that a board does not have before the driver is installed, as far as the catalog knows the board.

    The driver judges the rest, such as the exact range of a power limit.
    """
    devices = [device for device in case.facts["pci"]["gpus"] if device["device"].startswith(f"{NVIDIA}:")]
    answers = {gpu["bus_id"]: gpu for gpu in gpu_settings.usable(case.facts.get("nvml", {}).get("gpus", ()))}
    boards = [
        {"index": index, "uuid": None, **answers.get(device["address"], {}), "bus_id": device["address"]}
        for index, device in enumerate(devices)
    ]
    for name in gpu_settings.absent(map(str, single), boards):
        if answers or not name.startswith(UUID):  # before its driver runs, a GPU has no UUID
            known = ", ".join(f"{board['index']} ({board['bus_id']})" for board in boards)
            raise refuse("H120", name=name, known=known)
    for device, board in zip(devices, boards):
        record = case.catalog.gpus.get(device["device"])
        if record:
            _check_board(record, gpu_settings.declared({"all": values, "gpus": single}, board), board)


def _check_board(record: dict[str, Any], wanted: dict[str, Any], board: dict[str, Any]) -> None:
    told = f"GPU {board['index']} ({record['name']})"
    for name in (gpu_settings.MIG, gpu_settings.ECC):
        if wanted.get(name) and record[name] is False:
            raise refuse("P093", gpu=told, name=name.upper(), index=board["index"], setting=name)
    profiles: list[str] = record.get("mig_profiles") or []
    strange = [
        one for one in wanted.get(gpu_settings.INSTANCES) or () if profiles and mig_profiles.base(one) not in profiles
    ]
    if strange and not isinstance(board.get("mig_profiles"), list):  # else the driver names them
        raise refuse("P094", gpu=told, profiles=", ".join(strange), known=", ".join(profiles))
    watts, power = wanted.get(gpu_settings.POWER), record["power_w"]
    if watts is not None and power is not None and watts > MOST_OF_POWER * power:
        raise refuse("P095", gpu=told, watts=watts, power=power)


def _budget(case: Case) -> tuple[int | None, list[str]]:
    """Return what the GPUs together may draw, where the power supply is declared, and what is to be said about it."""
    names = ("preflight_psu_watts", "preflight_power_headroom_percent", "preflight_cpu_watts")
    supply, headroom, cpus = (int(case.wishes[name] or 0) for name in names)
    if not supply:
        return None, []
    budget = supply * 100 // (100 + headroom) - cpus
    because = (
        f"The power supply's {supply} W, with {headroom} % in reserve and {cpus} W for processors, leave {budget}"
        " W for the GPUs. Their power is limited if their default limits exceed that."
    )
    return budget, [because]
