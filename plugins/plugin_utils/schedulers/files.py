# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files by which Ray, SkyPilot and dstack know nodes. Each function returns a file as data.

Forms: Ray 2.60, autoscaler/local; SkyPilot 0.14, ~/.sky/ssh_node_pools.yaml; dstack 0.22, a fleet with ssh_config.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible_collections.gpulab.node.plugins.plugin_utils.schedulers.nodes import SSH_PORT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.gpulab.node.plugins.plugin_utils.schedulers.nodes import Node

RAY_PORT = 6379
# Without a token whoever reaches a port of Ray runs what he likes as its user.
RAY_TOKEN = "~/.ray/auth_token"  # noqa: S105 - where it is


class Login(NamedTuple):
    """As whom the other program logs in, and by which private key on its machine."""

    user: str
    key: str


def ray(name: str, nodes: Sequence[Node], login: Login, environment: str) -> dict[str, Any]:
    """Return a cluster for ``ray up``: the first node is its head. environment is the directory of Ray's on the nodes.

    Ray finds the GPUs by itself. Its SSH knows no port.
    """
    head, *workers = nodes
    outside = {"external_head_ip": head.address} if head.address != head.internal else {}
    bootstrap = "--autoscaling-config=~/ray_bootstrap_config.yaml"  # ray up puts it there
    # The second autoscaler takes the head for the first worker, and starts none (https://github.com/ray-project/ray/issues/46204).
    command = f"RAY_enable_autoscaler_v2=0 RAY_AUTH_MODE=token PATH={environment}/bin:$PATH ray"
    return {
        "cluster_name": name,
        "provider": {
            "type": "local",
            "head_ip": head.internal,
            **outside,
            "worker_ips": [node.internal for node in workers],
        },
        "auth": {"ssh_user": login.user, "ssh_private_key": login.key},
        "file_mounts": {RAY_TOKEN: RAY_TOKEN},
        "head_start_ray_commands": [
            f"{command} stop",
            f"{command} start --head --port={RAY_PORT} --node-ip-address={head.internal} {bootstrap}",
        ],
        "worker_start_ray_commands": [f"{command} stop", f"{command} start --address=$RAY_HEAD_IP:{RAY_PORT}"],
    }


def skypilot(name: str, nodes: Sequence[Node], login: Login) -> dict[str, Any]:
    """Return pools, one for each kind of GPUs: SkyPilot wants one kind in a pool. Its SSH knows no port."""
    kinds: dict[str, list[Node]] = {}
    for node in nodes:
        kinds.setdefault(node.models, []).append(node)
    pools = {name: list(nodes)} if len(kinds) == 1 else {f"{name}-{models}": alike for models, alike in kinds.items()}
    return {
        pool: {"user": login.user, "identity_file": login.key, "hosts": [{"ip": node.address} for node in alike]}
        for pool, alike in pools.items()
    }


def dstack(name: str, nodes: Sequence[Node], login: Login) -> dict[str, Any]:
    """Return a fleet; its nodes reach each other, so several are a cluster. dstack asks each node for its GPUs."""
    return {
        "type": "fleet",
        "name": name,
        **({"placement": "cluster"} if len(nodes) > 1 else {}),
        "ssh_config": {"user": login.user, "identity_file": login.key, "hosts": list(map(_dstack_host, nodes))},
    }


def _dstack_host(node: Node) -> dict[str, Any]:
    port = {"port": node.port} if node.port != SSH_PORT else {}
    internal = {"internal_ip": node.internal} if node.internal != node.address and _is_private(node.internal) else {}
    return {"hostname": node.address, **port, **internal}


def _is_private(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_private
    except ValueError:
        return False
