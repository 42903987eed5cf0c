# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes of a group as the inventory and the facts of this run tell them."""

from __future__ import annotations

import ipaddress
from typing import Any, Callable

from ansible_collections.gpulab.node.plugins.module_utils.system.hosts_file import is_address, is_loopback


def group_nodes(
    names: list[str], variables: dict[str, dict[str, Any]], known: list[dict[str, Any]] | None = None
) -> list[dict[str, str | None]]:
    """Return {"name", "address", "hostname"} of each node, from the variables of all hosts (hostvars).

    The inventory comes first, so that a run on some nodes says the same as one on all of them; what it does not tell is
    taken from the facts of nodes that are part of the run, and else from what the node at work knows, the hosts of its
    facts ``group``. A null is not known. IPv6 addresses are in their shortest form, as name services tell them.
    """
    former = {name: line["address"] for line in known or [] for name in line["names"]}
    nodes = [_node(name, variables[name]) for name in names]
    return [{**node, "address": node["address"] or former.get(str(node["name"]))} for node in nodes]


def _node(name: str, variables: dict[str, Any]) -> dict[str, str | None]:
    facts = (variables.get("ansible_facts") or {}).get("gpulab") or {}
    told = [variables.get(variable) for variable in ("network_address", "nccl_address", "ansible_host")]
    told += [name, facts.get("monitoring", {}).get("routed_address")]
    found = next((str(one) for one in told if one and is_address(str(one)) and not is_loopback(str(one))), None)
    address = str(ipaddress.ip_address(found)) if found else None
    return {"name": name, "address": address, "hostname": facts.get("system", {}).get("hostname") or None}


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"group_nodes": group_nodes}
