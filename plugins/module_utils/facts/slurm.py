# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Slurm says of this node, where its daemon is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.facts.door import DoorQuery
from ansible_collections.gpulab.node.plugins.module_utils.slurm import control

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Slurm

PROGRAM = "/usr/sbin/slurmd"
NOT_KEPT = 3
ACCOUNTING = (
    f"scontrol show config | grep -q '^AccountingStorageType .*slurmdbd$' || exit {NOT_KEPT}"
    "; sacctmgr --noheader --parsable2 show cluster format=cluster"
)


class SlurmQuery:
    """The facts ``slurm``; MUNGE and the controller answer beside the caller's other work."""

    def __init__(self, node: Node) -> None:
        """Ask, where there is a daemon."""
        self._node = node
        self._there = node.exists(PROGRAM)
        self._door = DoorQuery(node)
        if self._there:
            self._munge = node.start(["sh", "-c", "munge --no-input | unmunge"])
            self._shown = node.start(list(control.SHOW_NODES))
            self._accounting = node.start(["sh", "-c", ACCOUNTING])

    def facts(self) -> Slurm | None:
        """Return {"munge", "answers", "node", "accounting", "door"}; None where there is no daemon.

        munge tells whether a credential can be made and read here, answers whether the controller answers, node is
        {"name", "states", "reason", "gpus"} as the controller sees this node, None where it does not know it.
        accounting tells whether its database answers, None where the cluster keeps none or does not say so. door is
        DoorQuery's.
        """
        if not self._there:
            return None
        munge, shown, accounting = self._munge.result(), self._shown.result(), self._accounting.result()
        answers = shown is not None and shown[0] == 0
        hostname = self._node.text("/proc/sys/kernel/hostname")
        own = control.own(control.nodes(shown[1]), hostname) if shown and answers else None
        return {
            "munge": munge is not None and munge[0] == 0,
            "answers": answers,
            "node": {
                "name": own.name,
                "states": list(own.states),
                "reason": own.reason,
                "gpus": control.gpus(own.gres),
            }
            if own
            else None,
            "accounting": None if accounting is None or accounting[0] == NOT_KEPT else accounting[0] == 0,
            "door": self._door.facts(),
        }
