# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installed packages of another driver, which cannot stay beside the planned one: named one by one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.plugin_utils.core.versions import same_or_newer
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import newer
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.branch import has_ended
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.packages import OF_EVERY_SERIES, SERIES, edition
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.driver import DriverPackage
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case

# What has the version of a driver is a part of one; a library such as libnvidia-egl-wayland1 has a version of its own.
_VERSION = re.compile(r"(?:\d+:)?(\d{3})\.\d+")
_UPSTREAM = re.compile(r"(?:\d+:)?(\d{3}[\d.]+\d)")
# They serve a driver of any version.
_TOOLS = ("libxnvctrl", "nvidia-modprobe", "nvidia-settings")
_PINNING = "nvidia-driver-pinning-"
# They have the version of a kernel.
SIGNED_MODULES = ("linux-modules-nvidia-", "linux-objects-nvidia-", "linux-signatures-nvidia-")
# They depend on every package of a driver in their own version.
_METAPACKAGES = ("cuda-drivers", "nvidia-open")


def find(case: Case, source: str, branch: str, version: str, planned: list[str]) -> list[str]:
    """Return the packages to remove before the planned ones. Raises Refusal P038 where that is not allowed."""
    series = _series_of(planned)
    names = sorted(
        {
            package["name"]
            for package in case.facts["driver"]["packages"]
            if _is_of_a_driver(package) and (package["source"] != source or _is_other(package, branch, version, series))
        }
    )
    if names and not case.wishes["nvidia_driver_remove_conflicting"]:
        way = way_to_keep(case)
        raise refuse(
            "P038", names=", ".join(names), source=source, branch=branch, keep=f"; or keep them: {way}" if way else ""
        )
    return names


def way_to_keep(case: Case) -> str:
    """Return the settings that keep the driver packages of the node; empty where no settings do."""
    packages = [package for package in case.facts["driver"]["packages"] if _is_of_a_driver(package)]
    numbered = [package for package in packages if _branch_of(package)]
    found = {(package["source"], str(_branch_of(package))) for package in numbered}
    if len(found) != 1:
        return ""
    ((source, branch),) = found
    version = _UPSTREAM.findall(numbered[0]["version"])[0]
    if not _can_stay(case, packages, source, branch, version):
        return ""
    held = f'nvidia_driver_version: "{version}"' if source == "nvidia" else f'nvidia_driver_branch: "{branch}"'
    return f"nvidia_driver_source: {source}, {held}{_allowance(case, source, branch, version)}"


def _can_stay(case: Case, packages: list[DriverPackage], source: str, branch: str, version: str) -> bool:
    """Tell whether a plan of this source and branch has a driver with which all these packages can stay."""
    if source not in case.platform["driver_sources"] or not all(gpu.served_by(branch) for gpu in case.gpus):
        return False
    trusted = newer.with_sources(case.platform, [branch])["driver_sources"][source]
    names = next((names for names in trusted["package_sets"] if branch in names["branches"]), None)
    if names is None:
        return False
    values = {"branch": branch, "edition": edition(case, names, branch), "version": version, "pin": ""}
    series = _series_of(name.format(**values) for name in names["packages"]["proprietary"])
    return not any(_is_other(package, branch, version, series) for package in packages)


def _allowance(case: Case, source: str, branch: str, version: str) -> str:
    """Return the setting without which a branch is refused; empty where none is needed."""
    record = case.catalog.branches.get(branch)
    if record is None or branch not in case.platform["driver_sources"][source]["branches"]:
        return f", {newer.TRUST}: true"
    floor = record["security_floor"]
    below = floor and not same_or_newer(version, floor["version"])
    return f', gpulab_allow_branches: ["{branch}"]' if below or has_ended(record, case.today) else ""


def _series_of(planned: Iterable[str]) -> str | None:
    """Return what the names of packages have of branch and -server; None where they have no branch."""
    return next((named.group(1) for name in planned if (named := SERIES.search(name))), None)


def _is_of_a_driver(package: DriverPackage) -> bool:
    named = package["name"].startswith((_PINNING, *SIGNED_MODULES))
    return named or _branch_of(package) is not None


def _branch_of(package: DriverPackage) -> str | None:
    found = _VERSION.match(package["version"])
    return found.group(1) if found else None


def _is_other(package: DriverPackage, branch: str, version: str, series: str | None) -> bool:
    """Tell whether a package of the planned source is of another driver, or keeps others at another version.

    series is what the names of the planned packages have of branch and -server; None where they have no branch.
    """
    name = package["name"]
    if name.startswith(_PINNING):
        return False
    named = SERIES.search(name)
    if named is None:
        if name.partition(":")[0] in _METAPACKAGES:
            return not package["version"].startswith(version)
        # NVIDIA's names have had no branch since 590; Ubuntu's without one are tools.
        unnumbered = series is not None and package["source"] == "nvidia" and not name.startswith(_TOOLS)
        return unnumbered and _branch_of(package) != branch
    if series is None or name.startswith(OF_EVERY_SERIES):
        return named.group(2) != branch
    return named.group(1) != series
