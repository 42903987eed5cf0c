# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the CDI specification of the GPUs fits the driver that runs. No I/O happens here.

NVIDIA's container toolkit brings units that make it anew at boot and when modules change: since 1.18, below its floor.
See https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/cdi-support.html.
"""

from __future__ import annotations

from typing import Any

KIND = "nvidia.com/gpu"
REFRESH = "nvidia-cdi-refresh.service"
WATCH = "nvidia-cdi-refresh.path"
PROGRAM = "nvidia-ctk"  # with which the first makes it
GENERATED = ("/var/run/cdi/", "/run/cdi/")  # where they put it; /etc/cdi is its owner's


def why_stale(specifications: list[dict[str, Any]], driver: str | None) -> str:
    """Return why containers cannot use any of the specifications (those of facts_containers); "" where they can.

    driver is the version that runs, None where none does: the specification is then made when it does.
    """
    if driver is None:
        return ""
    found = [one for one in specifications if one["kind"] == KIND]
    reasons = [_why_stale(one, driver) for one in found]
    if not found:
        return "there is none"
    return "" if "" in reasons else reasons[-1]


def generated(specifications: list[dict[str, Any]]) -> list[str]:
    """Return the paths of those that were made at this boot."""
    return [one["path"] for one in specifications if one["path"].startswith(GENERATED) and one["kind"] == KIND]


def _why_stale(one: dict[str, Any], driver: str) -> str:
    if one["library"] not in (None, driver):
        return f"{one['path']} is made for driver {one['library']}, and {driver} runs"
    if one["missing"]:
        return f"{one['path']} names files that are not there: {', '.join(one['missing'][:3])}"
    return ""
