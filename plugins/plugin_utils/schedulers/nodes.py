# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes other schedulers may have: those whose last proof they passed, and how these are reached.

Only the inventory says how; the history says what a node's proof found. No I/O happens here.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import for_people

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.gpulab.node.plugins.plugin_utils.history.lines import Line

SSH_PORT = 22
SSH = ("ssh", "smart", "ansible.builtin.ssh")
FAILED = "fail"
MOST_OF_A_NAME = 40  # characters


@dataclass(frozen=True)
class Node:
    """A node that passed its last proof.

    address is where it is reached from outside, internal where its peers reach it. gpus are its GPUs for people, such
    as "8 NVIDIA H100 80GB HBM3"; models their names as one word, such as "h100-80gb-hbm3".
    """

    name: str
    address: str
    internal: str
    port: int
    gpus: str
    models: str
    proven: str
    simulated: bool


def why_not(variables: Mapping[str, Any], last: Line | None) -> str | None:
    """Return why a node is left out, by its variables in the inventory and the last line of its history."""
    if last is None:
        return "no proof of it is known; run the playbook verify"
    if last["state"] != "verified" or last["verdict"] == FAILED:
        return f"it failed its last proof, of {last['created']}; the playbook history says why"
    if not last["gpus"]:
        return "its last proof found no GPU"
    if str(variables.get("ansible_connection", SSH[0])) not in SSH:
        return "the inventory does not reach it by SSH"
    if re.search(r"Proxy(Jump|Command)|(^|\s)-J", str(variables.get("ansible_ssh_common_args", ""))):
        return "it is reached through another machine (ansible_ssh_common_args)"
    return None


def node(name: str, variables: Mapping[str, Any], last: Line) -> Node:
    """Return a node that is not left out."""
    gpus = sorted(Counter(_model(gpu["model"]) for gpu in last["gpus"]).items())
    address = str(variables.get("ansible_host") or name)
    return Node(
        name=name,
        address=address,
        internal=str(variables.get("network_address") or variables.get("nccl_address") or address),
        port=int(variables.get("ansible_port") or SSH_PORT),
        gpus=", ".join(f"{number} {model}" for model, number in gpus),
        models=_word(" ".join(model for model, _number in gpus)),
        proven=last["created"],
        simulated=bool(last["simulated"]),
    )


def _model(model: str | None) -> str:
    """Return the name of a GPU as its node tells it, as far as it is a name."""
    return for_people(model or "GPU without a name").replace("\n", " ")[:MOST_OF_A_NAME]


def _word(names: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", names.lower().replace("nvidia", "")).strip("-") or "gpu"
