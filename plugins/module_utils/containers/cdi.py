# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the CDI specification of the GPUs fits the driver that runs. No I/O happens here.

NVIDIA's container toolkit brings units that regenerate it at boot and when modules change: since 1.18, below its floor.
See https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/cdi-support.html.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.services import Cdi

KIND = "nvidia.com/gpu"
REFRESH = "nvidia-cdi-refresh.service"
WATCH = "nvidia-cdi-refresh.path"
PROGRAM = "nvidia-ctk"  # with which the first makes it
GENERATED = ("/var/run/cdi/", "/run/cdi/")  # where they put it; /etc/cdi is its owner's


def why_stale(specifications: list[Cdi], driver: str | None) -> str:
    """Return why one has to be made, of those in the facts; "" where containers can use what is there.

    driver is the version that runs, None where none does: the specification is then made when it does. Those that were
    made at this boot count, where there are any: what lies in /etc/cdi is its owner's.
    """
    if driver is None:
        return ""
    found = used(specifications)
    if not found:
        return "none exists"
    made = [one for one in found if is_generated(one)]
    reasons = [_why_stale(one, driver) for one in made or found]
    return next(filter(None, reasons), "") if made or "" not in reasons else ""


def used(specifications: list[Any]) -> list[Any]:
    """Return those of GPUs that containers use: of a device in several directories, /etc/cdi's does not count.

    See https://github.com/cncf-tags/container-device-interface/blob/main/pkg/cdi/cache.go.
    """
    found = [one for one in specifications if one["kind"] == KIND]
    above = {device for one in found if is_generated(one) for device in one.get("devices", ())}
    shadowed = any(map(is_generated, found))
    return [one for one in found if is_generated(one) or not shadowed or set(one.get("devices", ())) - above]


def is_generated(specification: Any) -> bool:
    """Tell whether a specification lies where those are that were made at this boot."""
    path: str = specification["path"]
    return path.startswith(GENERATED)


def rivals(specifications: list[Any]) -> list[tuple[str, str, str]]:
    """Return (device, path, path) of each two in one directory that have a device in common, which nobody gets then."""
    found = used(specifications)
    pairs = [(one, other) for number, one in enumerate(found) for other in found[number + 1 :]]
    return [
        (common[0], one["path"], other["path"])
        for one, other in pairs
        if is_generated(one) == is_generated(other)
        and (common := sorted(set(one.get("devices", ())) & set(other.get("devices", ()))))
    ]


def generated(specifications: list[Cdi]) -> list[str]:
    """Return the paths of those that were made at this boot."""
    return [one["path"] for one in specifications if is_generated(one) and one["kind"] == KIND]


def _why_stale(one: Cdi, driver: str) -> str:
    if one["library"] not in (None, driver):
        return f"{one['path']} is made for driver {one['library']}, but {driver} runs"
    if one["missing"]:
        return f"{one['path']} names files that do not exist: {', '.join(one['missing'][:3])}"
    return ""
