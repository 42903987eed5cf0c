# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's IMEX daemon, through which GPUs of several nodes share memory over NVLink.

Files, channels and states are those of https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.driver import Imex

CONTROL = "/usr/bin/nvidia-imex-ctl"
NODES = "/etc/nvidia-imex/nodes_config.cfg"
CHANNEL = "/dev/nvidia-caps-imex-channels/channel0"
DROP_IN = "/etc/systemd/system/nvidia-imex.service.d/gpulab.conf"  # with it, NODES is gpulab's: it holds no comment


def nodes(text: str) -> list[str]:
    """Parse the addresses of a domain, one a line."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


class ImexQuery:
    """The facts ``imex``; the daemon answers beside the caller's other work."""

    def __init__(self, node: Node) -> None:
        """Ask the daemon where there is one."""
        self._node = node
        self._job = node.start([CONTROL, "-q"]) if node.exists(CONTROL) else None

    def facts(self) -> Imex:
        """Return {"nodes", "own", "state", "channel"}.

        nodes are the addresses listed, own tells whether gpulab listed them, state is the daemon's word for how it is
        (READY, WAITING_FOR_PEERS ...; null where none answers), and channel tells whether programs can use it.
        """
        answer = (self._job.output() or "").split() if self._job else []
        return {
            "nodes": nodes(self._node.text(NODES)),
            "own": self._node.exists(DROP_IN),
            "state": answer[0] if answer else None,
            "channel": self._node.exists(CHANNEL),
        }
