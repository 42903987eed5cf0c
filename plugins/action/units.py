# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.units: in check mode, units that are not on the node are not looked for again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.system import units
from ansible_collections.gpulab.node.plugins.plugin_utils.core.foreseeing import Foreseeing, are_missing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.services import Service

OWN = "gpulab-"


class ActionModule(Foreseeing):
    """Run the module, or say that nothing changes as long as the units are not there."""

    arguments = units.ARGUMENTS

    def foreseen(self, args: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return that all units are missing; None where one may be there, or shall go: it may run without its file."""
        names = list(dict.fromkeys(args["names"]))
        is_present = units.Wanted(args["state"], args["enabled"]).is_present
        if not is_present or not all(_is_missing(name, known) for name in names):
            return None
        return units.outcome([], names, args["enabled"])


def _is_missing(name: str, known: Mapping[str, Any]) -> bool:
    if name.startswith(OWN):
        return are_missing([f"/etc/systemd/system/{name}"], known)
    services: Mapping[str, Service] = known["gpulab"]["services"] or {}
    stem, _dot, kind = name.rpartition(".")
    return kind == "service" and stem in services and services[stem]["load"] == "not-found"
