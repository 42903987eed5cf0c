# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Slurm says of this node, where its daemon is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.slurm import control

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

PROGRAM = "/usr/sbin/slurmd"


class SlurmQuery:
    """The facts ``slurm``; MUNGE and the controller answer beside the caller's other work."""

    def __init__(self, node: Node) -> None:
        """Ask, where there is a daemon."""
        self._node = node
        self._there = node.exists(PROGRAM)
        if self._there:
            self._munge = node.start(["sh", "-c", "munge --no-input | unmunge"])
            self._shown = node.start(list(control.SHOW_NODES))

    def facts(self) -> dict[str, Any] | None:
        """Return {"munge", "answers", "node"}; None where there is no daemon.

        munge tells whether a credential can be made and read here, answers whether the controller answers, node is
        {"name", "states", "reason", "gpus"} as the controller sees this node, None where it does not know it.
        """
        if not self._there:
            return None
        munge, shown = self._munge.result(), self._shown.result()
        answers = shown is not None and shown[0] == 0
        hostname = self._node.text("/proc/sys/kernel/hostname")
        own = control.own(control.nodes(shown[1]), hostname) if shown and answers else None
        return {
            "munge": munge is not None and munge[0] == 0,
            "answers": answers,
            "node": own
            and {"name": own.name, "states": list(own.states), "reason": own.reason, "gpus": control.gpus(own.gres)},
        }
