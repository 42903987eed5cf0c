# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forward compatibility: NVIDIA's cuda-compat package for a toolkit that is newer than the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from ansible_collections.gpulab.node.plugins.plugin_utils.core.versions import same_or_newer
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case, Request

PACKAGE = "cuda-compat"
DIRECTORY = "{prefix}/compat"  # where the package has its libcuda


class DriverChoice(TypedDict):
    """What is known of a driver as soon as its branch is: a part of the plan's Driver."""

    branch: str
    newest_known: str


def in_full(request: Request, driver: DriverChoice, record: dict[str, Any]) -> bool:
    """Tell whether a driver runs all of a toolkit: by the driver paired with it, else by the CUDA of its branch."""
    if record["paired_driver"]:
        return same_or_newer(driver["newest_known"], record["paired_driver"])
    return same_or_newer(request.catalog.branches[driver["branch"]]["cuda"], record["cuda"])


def driver_of(request: Request, record: dict[str, Any]) -> str:
    """Name the first driver that runs all of a toolkit, for a message."""
    branches = [name for name, one in request.catalog.branches.items() if same_or_newer(one["cuda"], record["cuda"])]
    return record["paired_driver"] or (f"branch {branches[0]}" if branches else "a branch newer than the catalog")


def wanted(request: Request, driver: DriverChoice, version: str) -> bool:
    """Tell whether a toolkit is to have its package: it is requested, and the driver does not run it in full.

    Raises Refusal P077 where that cannot be: NVIDIA has the package for data-centre boards and some driver branches.
    """
    record = request.catalog.toolkits[version]
    if not request.wishes["cuda_compat"] or in_full(request, driver, record):
        return False
    reason = _obstacle(request, driver, record)
    if reason is None:
        return True
    enough = same_or_newer(driver["newest_known"], record["min_driver"])
    raise refuse(
        "P077",
        version=version,
        driver=driver["newest_known"],
        reason=reason,
        paired=driver_of(request, record),
        way="; or remove cuda_compat: without it, everything except PTX runs" if enough else "",
    )


def helps(case: Case, driver: DriverChoice, version: str) -> bool:
    """Tell whether the wish would bring the package, for a remedy."""
    return _obstacle(case, driver, case.catalog.toolkits[version]) is None


def way(request: Request, driver: DriverChoice, version: str) -> str:
    """Return what a remedy says of cuda_compat: nothing where it would not help."""
    if _obstacle(request, driver, request.catalog.toolkits[version]):
        return ""
    boards = " on data-centre boards" if request.gpus is None else ""
    return f" Or set cuda_compat: true, which runs it on this driver{boards}."


def _obstacle(request: Request, driver: DriverChoice, record: dict[str, Any]) -> str | None:
    """Say what forbids the package; None where nothing does."""
    branches = record["compat_branches"]
    if request.wishes["cuda_source"] in ("distribution", "pypi"):
        return "only NVIDIA's repository has the package"
    for gpu in request.gpus or ():
        if not gpu.data_center:
            return f"NVIDIA's package runs on data-centre boards only, and {gpu.name} is not one"
    if branches is None:
        return "the driver branches of its package are unknown to the catalog"
    if driver["branch"] not in branches:
        return f"its package runs on driver branches {', '.join(branches)}, but the plan has {driver['branch']}"
    return None
