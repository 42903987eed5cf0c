# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much space the plan takes on each filesystem of the node."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Cuda, Driver, Environment


def plan(case: Case, driver: Driver, cuda: Cuda, environments: list[Environment]) -> dict[str, int]:
    """Return MiB per mount point, of the mount points that gpu_facts reports.

    Of several that are one file system, as /var often is of /, the first one has the sum.
    """
    counts = {
        "once": 1,
        "kernels": len(driver["kernels"]),
        "toolkits": sum(not toolkit["wheels"] for toolkit in cuda["toolkits"]),
        "toolkits of wheels": sum(bool(toolkit["wheels"]) for toolkit in cuda["toolkits"]),
        "environments": len(environments),
        "conda environments": len(case.wishes["conda_environments"]),
    }
    mounts = _file_systems(case.facts["filesystems"])
    needs: dict[str, int] = {}
    for need in case.catalog.disk:
        if counts[need["per"]]:
            path = need["path"] if need["path"].startswith("/") else case.wishes[need["path"]]
            mount = mounts[_mount_of(path, mounts)]
            needs[mount] = needs.get(mount, 0) + need["mib"] * counts[need["per"]]
    return needs


def _file_systems(filesystems: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the first mount point of the same file system by mount point."""
    first: dict[tuple[Any, int], str] = {}
    found = {"/": "/"}
    for one in sorted(filesystems, key=lambda one: str(one["mount"])):
        mount, size = one["mount"], one.get("size_mib")
        found[mount] = first.setdefault((one.get("source"), size), mount) if size is not None else mount
    return found


def _mount_of(path: str, mounts: Collection[str]) -> str:
    above = [path, *(str(parent) for parent in PurePosixPath(path).parents)]
    return next(candidate for candidate in above if candidate in mounts)
