# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the driver draws the node's display, too, and which driver of a desktop stays as it is."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.plugin_utils.core.versions import branch_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.driver import DriverPackage
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case

OPTION = "nvidia_driver_display"
_VGA = "0300"  # a GPU without connectors is of another class: a 3D controller


def choose(case: Case) -> tuple[bool, list[str]]:
    """Return whether the driver comes with its packages for a display, and why."""
    requested = case.wishes[OPTION]
    if requested != "auto":
        return requested == "true", [f"{OPTION} is {requested}."]
    if packages(case):
        return True, ["The node has the display packages of an NVIDIA driver."]
    if not has_display_manager(case.facts):
        return False, []
    if not is_here(case.facts):
        others = [gpu for gpu in case.facts["pci"]["other_gpus"] if gpu["boot_vga"] or gpu["monitors"]]
        named = ", ".join(f"the {gpu['maker']} GPU at {gpu['address']}" for gpu in others) or "another adapter"
        return False, [f"The display is on {named} and stays there."]
    return True, ["The node has a display manager."]


def packages(case: Case) -> list[DriverPackage]:
    """Return the packages of a driver on the node that are for a display."""
    patterns = case.catalog.display_packages
    return [
        package
        for package in case.facts["driver"]["packages"]
        if any(fnmatchcase(package["name"].partition(":")[0], pattern) for pattern in patterns)
    ]


def has_display_manager(facts: Mapping[str, Any]) -> bool:
    """Tell whether a display manager is set up, whether or not it runs."""
    return (facts.get("services") or {}).get("display-manager", {}).get("load") == "loaded"


def is_here(facts: Mapping[str, Any]) -> bool:
    """Tell whether an NVIDIA GPU has the display, or may have it: nothing says that another adapter has it."""
    return any(
        gpu["class"] == _VGA and (gpu["boot_vga"] is not False or gpu["monitors"]) for gpu in facts["pci"]["gpus"]
    )


def carried_on(case: Case) -> str | None:
    """Return the branch of the distribution's desktop driver that stays; None where there is none or it cannot stay.

    It stays where nothing else is requested, the catalog knows it, and it serves the GPUs.
    """
    wishes, record = case.wishes, case.platform["driver_sources"].get("distribution")
    requested = wishes["nvidia_driver_branch"] or wishes["nvidia_driver_version"]
    if requested or record is None or wishes["nvidia_driver_source"] not in ("auto", "distribution"):
        return None
    branches = {
        branch_of(package["version"].rpartition(":")[2])
        for package in packages(case)
        if package["source"] == "distribution"
    } & {*record["branches"]}
    if len(branches) != 1:
        return None
    (branch,) = branches
    return branch if all(gpu.served_by(branch) for gpu in case.gpus) else None
