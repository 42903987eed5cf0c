# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installed packages of another driver, which cannot stay beside the planned one: named one by one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.refusal import refuse

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.resolver.case import Case

# What has the version of a driver is a part of one; a library such as libnvidia-egl-wayland1 has a version of its own.
_VERSION = re.compile(r"(?:\d+:)?\d{3}\.\d+")
_BRANCH = re.compile(r"-(\d{3})(?=-|\Z)")
_PINNING = "nvidia-driver-pinning-"
# They have the version of a kernel.
_SIGNED_MODULES = ("linux-modules-nvidia-", "linux-objects-nvidia-", "linux-signatures-nvidia-")
# They depend on every package of a driver in their own version.
_METAPACKAGES = ("cuda-drivers", "nvidia-open")


def find(case: Case, source: str, branch: str, version: str) -> list[str]:
    """Return the packages to remove first. Raises Refusal P038 where that is not allowed."""
    names = sorted(
        package["name"]
        for package in case.facts["driver"]["packages"]
        if _is_of_a_driver(package) and (package["source"] != source or _is_other(package, branch, version))
    )
    if names and not case.wishes["nvidia_driver_remove_conflicting"]:
        raise refuse("P038", names=", ".join(names), source=source, branch=branch)
    return names


def _is_of_a_driver(package: dict[str, str]) -> bool:
    named = package["name"].startswith((_PINNING, *_SIGNED_MODULES))
    return named or _VERSION.match(package["version"]) is not None


def _is_other(package: dict[str, str], branch: str, version: str) -> bool:
    """Tell whether a package of the planned source is of another branch, or keeps others at another version."""
    name = package["name"]
    named = None if name.startswith(_PINNING) else _BRANCH.search(name)
    if named:
        return named.group(1) != branch
    return name in _METAPACKAGES and not package["version"].startswith(version)
