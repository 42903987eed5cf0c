# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forward compatibility: NVIDIA's cuda-compat package for a toolkit that is newer than the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.refusal import refuse
from ansible_collections.gpulab.node.plugins.plugin_utils.versions import same_or_newer

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.resolver.case import Case

PACKAGE = "cuda-compat"
DIRECTORY = "{prefix}/compat"  # where the package has its libcuda


def in_full(case: Case, driver: dict[str, Any], record: dict[str, Any]) -> bool:
    """Tell whether a driver runs all of a toolkit: by the driver paired with it, else by the CUDA of its branch."""
    if record["paired_driver"]:
        return same_or_newer(driver["newest_known"], record["paired_driver"])
    return same_or_newer(case.catalog.branches[driver["branch"]]["cuda"], record["cuda"])


def driver_of(case: Case, record: dict[str, Any]) -> str:
    """Name the first driver that runs all of a toolkit, for a message."""
    branches = [name for name, one in case.catalog.branches.items() if same_or_newer(one["cuda"], record["cuda"])]
    return record["paired_driver"] or (f"branch {branches[0]}" if branches else "a branch newer than the catalog")


def wanted(case: Case, driver: dict[str, Any], version: str) -> bool:
    """Tell whether a toolkit is to have its package: it is wished for, and the driver does not run it in full.

    Raises Refusal P077 where that cannot be: NVIDIA has the package for data-centre boards and some driver branches.
    """
    record = case.catalog.toolkits[version]
    if not case.wishes["cuda_compat"] or in_full(case, driver, record):
        return False
    reason = _obstacle(case, driver, record)
    if reason is None:
        return True
    enough = same_or_newer(driver["newest_known"], record["min_driver"])
    raise refuse(
        "P077",
        version=version,
        driver=driver["newest_known"],
        reason=reason,
        paired=driver_of(case, record),
        way="; or leave cuda_compat out: all but its PTX runs without" if enough else "",
    )


def helps(case: Case, driver: dict[str, Any], version: str) -> bool:
    """Tell whether the wish would bring the package, for a remedy."""
    return _obstacle(case, driver, case.catalog.toolkits[version]) is None


def way(record: dict[str, Any], branch: str) -> str:
    """Return what a remedy says of the wish where nothing but the driver branch is known."""
    known = branch in (record["compat_branches"] or ())
    return " On data-centre boards, cuda_compat: true runs it all the same." if known else ""


def _obstacle(case: Case, driver: dict[str, Any], record: dict[str, Any]) -> str | None:
    """Say what forbids the package; None where nothing does."""
    branches = record["compat_branches"]
    if case.wishes["cuda_source"] == "distribution":
        return "the package comes from NVIDIA's repository alone"
    for gpu in case.gpus:
        if not gpu.data_center:
            return f"NVIDIA's package runs on data-centre boards alone, and {gpu.name} is none"
    if branches is None:
        return "the catalog does not know on which driver branches its package runs"
    if driver["branch"] not in branches:
        return f"its package runs on driver branches {', '.join(branches)}, and the plan has {driver['branch']}"
    return None
