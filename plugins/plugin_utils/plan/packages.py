# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the packages of a platform are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Driver

# What has a branch in its name: Ubuntu has each twice, and the servers' cannot stay beside the desktops'.
SERIES = re.compile(r"-((\d{3})(?:-server)?)(?=[-:]|\Z)")
# But these once, for both
OF_EVERY_SERIES = ("libnvidia-nscq-", "libnvsdm-", "nvidia-fabricmanager-", "nvidia-imex-")


def package_format(case: Case) -> str:
    """Return deb or rpm."""
    return "deb" if case.platform["family"] == "debian" else "rpm"


def edition(case: Case, names: Mapping[str, Any], branch: str) -> str:
    """Return which edition of a branch the node has, of a package set that has several: "-server", or "" on desktops.

    It is the first one where the node has none.
    """
    editions: list[str] = names.get("editions", [""])
    installed = [
        SERIES.search(package["name"])
        for package in case.facts["driver"]["packages"]
        if package["source"] == "distribution" and not package["name"].startswith(OF_EVERY_SERIES)
    ]
    there = {named.group(1) for named in installed if named}
    return next((one for one in editions if f"{branch}{one}" in there), editions[0])


def beside_driver(case: Case, driver: Driver, part: str) -> list[str]:
    """Return what a source has of a part beside the driver, as fabric_manager, at the driver's version."""
    record = case.platform["driver_sources"].get(driver["source"], {"package_sets": []})
    for names in record["package_sets"]:
        if driver["branch"] in names["branches"]:
            found = [name.format(branch=driver["branch"]) for name in names.get(part, ())]
            return [f"{name}={driver['version']}*" for name in found] if driver["version"] else found
    return []


def of_cuda(name: str, version: str) -> str:
    """Return NVIDIA's package of this name for a CUDA: ("cuda-toolkit", "13.2") is cuda-toolkit-13-2."""
    return f"{name}-{version.replace('.', '-')}"
