# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much space the plan takes on each filesystem of the node."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case


def plan(case: Case, parts: dict[str, Any]) -> dict[str, int]:
    """Return MiB per mount point, of the mount points that gpu_facts reports."""
    counts = {
        "once": 1,
        "kernels": len(parts["driver"]["kernels"]),
        "toolkits": sum(not toolkit["wheels"] for toolkit in parts["cuda"]["toolkits"]),
        "toolkits of wheels": sum(bool(toolkit["wheels"]) for toolkit in parts["cuda"]["toolkits"]),
        "environments": len(parts["environments"]),
        "conda environments": len(case.wishes["conda_environments"]),
    }
    mounts = {filesystem["mount"] for filesystem in case.facts["filesystems"]} | {"/"}
    needs: dict[str, int] = {}
    for need in case.catalog.disk:
        if counts[need["per"]]:
            mount = _mount_of(need["path"], mounts)
            needs[mount] = needs.get(mount, 0) + need["mib"] * counts[need["per"]]
    return needs


def _mount_of(path: str, mounts: Collection[str]) -> str:
    above = [path, *(str(parent) for parent in PurePosixPath(path).parents)]
    return next(candidate for candidate in above if candidate in mounts)
