# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Fabric Manager, without which GPUs behind NVSwitches do not start, at exactly the version of the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.plugin_utils.plan import branch, packages
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Driver, FabricManager

# NVLink 5 has its switches managed by a subnet manager, which has a version of its own and goes through InfiniBand ...
NVLINK_5, NVLINK_5_MODULE = "nvlsm", "ib_umad"
# ... and a library to read them, of which there is none for aarch64
NVLINK_5_LIBRARY = "libnvsdm"


def plan(case: Case, driver: Driver) -> FabricManager:
    """Return {needed, packages, version, service, modules, because}; modules are those that it does not start without.

    Raises Refusal where the driver's source lacks it.
    """
    none: FabricManager = {"needed": False, "packages": [], "version": None, "modules": [], "because": []}
    if case.wishes["nvidia_driver_state"] == "absent":
        why = "The Fabric Manager is removed with the driver."
        return {**none, "packages": [NVLINK_5, NVLINK_5_LIBRARY], "because": [why]}
    switches = case.facts["pci"]["nvswitches"]
    boards = [gpu.name for gpu in case.gpus if gpu.fabric_manager == "always"]
    if not case.needs_fabric_manager:
        return {**none, "because": [_of_rack(case) or "The node has no NVSwitch."]}
    names = packages.beside_driver(case, driver, "fabric_manager")
    if not names:
        raise refuse("P031", source=driver["source"], system=case.platform["name"], way=_way(case))
    if boards and case.architecture == "x86_64" and driver["source"] == "nvidia":
        names.append(NVLINK_5_LIBRARY + (f"={driver['version']}*" if driver["version"] else ""))
    if boards and driver["source"] != "nvidia":
        case.warnings.append(
            f"{', '.join(boards)}: the Fabric Manager needs {NVLINK_5}. NVIDIA's repository has it"
            f" (nvidia_driver_source: nvidia); {case.platform['name']} itself may not."
        )
    return {
        "needed": True,
        "packages": [*names, NVLINK_5] if boards else names,
        "version": driver["version"],
        "service": "nvidia-fabricmanager",
        "modules": [NVLINK_5_MODULE] if boards else [],
        "because": [f"{', '.join(boards) or f'{len(switches)} NVSwitches'}: its version must match the driver's."],
    }


def _way(case: Case) -> str:
    """Return how the node gets a driver that has a Fabric Manager."""
    if not branch.can_serve(case, "nvidia", uninstalled=True):
        return "Move the GPUs to a node with another system"
    settings = branch.settings_of(case, "nvidia")
    return (
        f"Run nvidia-uninstall on the node, and set {settings}"
        if case.facts["driver"]["runfile"]
        else f"Set {settings}"
    )


def _of_rack(case: Case) -> str | None:
    """Say what runs elsewhere for GPUs whose NVSwitches are in the rack."""
    boards = ", ".join(gpu.name for gpu in case.gpus if gpu.fabric_manager == "rack")
    return f"{boards}: the switches of the rack run the Fabric Manager." if boards else None
