# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds of a framework's release: which of them run on a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.plugin_utils.core.versions import same_or_newer, version_key

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.gpus import GpuKind
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Driver

CPU = "cpu"  # as an index: a build without CUDA, which every release has
PYPI = "pypi"  # as an index: the build that the general index has itself


def indexes(build: dict[str, Any]) -> list[str]:
    """Return the indexes that a build is in."""
    return [*([build["index"]] if build["index"] else []), *([PYPI] if build.get("pypi") else [])]


def obstacle(case: Case, driver: Driver, build: dict[str, Any], index: str | None = None) -> str | None:
    """Return why a build does not run on the node; None where it does.

    index is the one that it has to come from, None for its own.
    """
    if build.get(case.architecture) is False or (index == PYPI and not is_seen(case, build)):
        return f"its wheel for {case.architecture} has no CUDA"
    floor = case.catalog.min_drivers[build["cuda"].partition(".")[0]]
    if not same_or_newer(driver["newest_known"], floor):
        return f"needs driver {floor}"
    for gpu in case.gpus:
        if not _covers(build, gpu):
            return f"has no kernels for {gpu.name}"
    return None


def is_seen(case: Case, build: dict[str, Any]) -> bool:
    """Tell whether a build was seen for the node's architecture, and not for x86_64 alone."""
    return case.architecture == "x86_64" or bool(build.get(case.architecture))


def _covers(build: dict[str, Any], gpu: GpuKind) -> bool:
    return any(runs_on(build, one) for one in gpu.compute_capabilities)


def runs_on(build: dict[str, Any], compute_capability: str) -> bool:
    """Tell whether a build has something for GPUs of a compute capability."""
    if not same_or_newer(compute_capability, build.get("min_compute_capability", "0")):
        return False
    if not same_or_newer(build.get("max_compute_capability", "99"), compute_capability):
        return False
    if "compute_capabilities" not in build:
        return True
    return _has_kernels(build, compute_capability) or by_ptx(build, compute_capability)


def _has_kernels(build: dict[str, Any], compute_capability: str) -> bool:
    """Tell whether compiled kernels run: those of the same major and of no higher minor do."""
    major, minor = version_key(compute_capability)
    return any(
        version_key(known)[0] == major and version_key(known)[1] <= minor for known in build["compute_capabilities"]
    )


def by_ptx(build: dict[str, Any], compute_capability: str) -> bool:
    """Tell whether a GPU runs the build only by compiling its PTX."""
    if "ptx" not in build:
        return False
    return not _has_kernels(build, compute_capability) and same_or_newer(compute_capability, build["ptx"])


def is_within(python: str, limit: dict[str, Any]) -> bool:
    """Tell whether a Python is one of those from min to max."""
    return same_or_newer(python, limit["min"]) and (limit["max"] is None or same_or_newer(limit["max"], python))
