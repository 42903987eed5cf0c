# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of the services that a GPU node needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import unit_states
from ansible_collections.gpulab.node.plugins.module_utils.core.steps import ROOT, Step

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.services import Service

UNITS = (
    "nvidia-fabricmanager.service", "nvidia-imex.service", "nvidia-persistenced.service", "docker.service",
    "containerd.service", "irqbalance.service", "tuned.service", "display-manager.service", "nvidia-gridd.service",
    "prometheus-node-exporter.service", "nvidia-dcgm-exporter.service",
)  # fmt: skip
_ASKED = ("names", "load_state", "active_state", "sub_state", "file_state")


def units(text: str) -> dict[str, Service]:
    """Parse systemctl show: the units by their names without the type.

    A unit that goes by several names, as display-manager does, has the one of UNITS.
    """
    found: dict[str, Service] = {}
    for unit in unit_states.parse(text):
        name = next((name for name in UNITS if name in unit.names), unit.id)
        found[name.rpartition(".")[0]] = {
            "load": unit.load_state,
            "active": unit.active_state,
            "sub": unit.sub_state,
            "enabled": unit.file_state,
        }
    return found


def long_steps(node: Node) -> list[str]:
    """Return the facts ``long_steps``: the names of gpulab's long steps that are at work."""

    def call(argv: list[str]) -> tuple[int, str, str]:
        return 0, node.start(argv).output() or "", ""

    boot_id, root = node.text("/proc/sys/kernel/random/boot_id"), node.path(str(ROOT))
    names = [name for name in node.names(str(ROOT)) if node.exists(f"{ROOT}/{name}/state.json")]
    ended = {name for name in names if node.exists(f"{ROOT}/{name}/result")}
    left = [name for name in names if name not in ended]
    return [name for name in left if Step(name, call, boot_id, root).status().state == "running"]


class ServicesQuery:
    """The facts ``services``; systemd answers beside the caller's other work."""

    def __init__(self, node: Node) -> None:
        """Ask systemd."""
        self._job = node.start(unit_states.show(_ASKED, *UNITS))

    def facts(self) -> dict[str, Service] | None:
        """Return the units; None where systemd does not run."""
        return units(self._job.output() or "") or None
