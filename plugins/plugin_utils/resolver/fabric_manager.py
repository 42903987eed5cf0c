# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Fabric Manager, without which GPUs behind NVSwitches do not start, at exactly the version of the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.refusal import refuse

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.resolver.case import Case

# NVLink 5 has its switches managed by a subnet manager of its own
NVLINK_5 = ("nvlsm", "libnvsdm")


def plan(case: Case, driver: dict[str, Any]) -> dict[str, Any]:
    """Return {needed, packages, version, service, because}. Raises Refusal where the driver's source lacks it."""
    switches = case.facts["pci"]["nvswitches"]
    boards = [gpu.name for gpu in case.gpus if gpu.fabric_manager]
    if not switches and not boards:
        return {"needed": False, "packages": [], "version": None, "because": ["The node has no NVSwitch."]}
    names = _names(case, driver)
    if not names:
        raise refuse("P031", source=driver["source"], system=case.platform["name"])
    if driver["version"]:
        names = [f"{name}={driver['version']}*" for name in names]
    return {
        "needed": True,
        "packages": [*names, *(NVLINK_5 if boards else ())],
        "version": driver["version"],
        "service": "nvidia-fabricmanager",
        "because": [f"{', '.join(boards) or f'{len(switches)} NVSwitches'}: it has to have the driver's version."],
    }


def _names(case: Case, driver: dict[str, Any]) -> list[str]:
    record = case.platform["driver_sources"].get(driver["source"], {"package_sets": []})
    for names in record["package_sets"]:
        if driver["branch"] in names["branches"]:
            return [name.format(branch=driver["branch"]) for name in names.get("fabric_manager", ())]
    return []
