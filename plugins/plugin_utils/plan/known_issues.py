# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which known broken pair of driver and kernel a plan would run into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.plugin_utils.core.versions import same_or_newer, version_key
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import kernels

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case


def find(
    case: Case, source: str, version: str, kernel_modules: str, releases: Iterable[str]
) -> tuple[dict[str, Any], str] | None:
    """Return the first known issue that a driver meets on these kernels, with the kernel; None when there is none."""
    for release in releases:
        for issue in case.catalog.known_issues:
            match = issue["match"]
            if _driver_matches(case, match, source, version, kernel_modules) and _kernel_matches(case, match, release):
                return issue, release
    return None


def headers_decide(case: Case, source: str, version: str, kernel_modules: str, releases: Iterable[str]) -> bool:
    """Tell whether headers that are not there yet will show if a driver meets a known issue."""
    unread = any(kernels.facts_of(case, release)["headers"] is None for release in releases)
    return unread and any(
        "kernel_marker" in issue["match"] and _driver_matches(case, issue["match"], source, version, kernel_modules)
        for issue in case.catalog.known_issues
    )


def _driver_matches(case: Case, match: dict[str, Any], source: str, version: str, kernel_modules: str) -> bool:
    if source not in match.get("sources", [source]) or case.platform["id"] not in match.get(
        "platforms", [case.platform["id"]]
    ):
        return False
    if match.get("kernel_modules", kernel_modules) != kernel_modules:
        return False
    if "drivers" not in match:
        return True
    branch = version.partition(".")[0]
    if branch not in match["drivers"]:
        return False
    fixed = match["drivers"][branch]
    return fixed is None or not same_or_newer(version, fixed)


def _kernel_matches(case: Case, match: dict[str, Any], release: str) -> bool:
    if "kernel_flavour" in match and match["kernel_flavour"] not in release.split("-"):
        return False
    kernel = kernels.facts_of(case, release)
    if "kernel_marker" in match and kernel["headers"] is not None:
        return match["kernel_marker"] in kernel["markers"]
    if "kernels" not in match:
        return True
    key = version_key(release)
    return any(
        version_key(first) <= key and (below is None or key < version_key(below)) for first, below in match["kernels"]
    )
