# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes of a group as the inventory and the facts of this run tell them."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Callable

from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.system.hosts_file import is_address, is_loopback
from ansible_collections.gpulab.node.plugins.plugin_utils.peers import host_names

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.host_name import HostName


def group_nodes(
    names: list[str], variables: dict[str, dict[str, Any]], known: list[dict[str, Any]] | None = None, own: str = ""
) -> list[dict[str, Any]]:
    """Return {"name", "address", "names"} of each node, from the variables of all hosts (hostvars).

    The names are those that the inventory gives, whatever the node calls itself. Raises AnsibleFilterError with H149
    where it gives one name to two nodes, and H148 where the node at work, own, calls itself as another one does.

    For addresses the inventory comes first, so that a run on some nodes says the same as one on all of them; what it
    does not tell is taken from the facts of nodes that are part of the run, and else from what the node at work knows,
    the hosts of its facts ``group``. A null is not known. IPv6 addresses are in their shortest form, as name services
    tell them.
    """
    former = {name: line["address"] for line in known or [] for name in line["names"]}
    try:
        known_by = host_names.of_all(names, variables)
        _check_own(own, known_by, variables)
    except Refusal as refusal:
        raise AnsibleFilterError(str(refusal)) from refusal
    nodes = [
        {"name": name, "address": _address(name, variables[name]), "names": [str(one) for one in known_by[name]]}
        for name in names
    ]
    return [{**node, "address": node["address"] or former.get(str(node["name"]))} for node in nodes]


def _check_own(own: str, known_by: dict[str, list[HostName]], variables: dict[str, dict[str, Any]]) -> None:
    if own in known_by:
        hostnames = {name: _facts(variables[name]).get("system", {}).get("hostname", "") for name in known_by}
        found = host_names.difference(own, hostnames, known_by)
        if found and found[0]:
            raise found[1]


def _facts(variables: dict[str, Any]) -> dict[str, Any]:
    return (variables.get("ansible_facts") or {}).get("gpulab") or {}


def _address(name: str, variables: dict[str, Any]) -> str | None:
    told = [variables.get(variable) for variable in ("network_address", "nccl_address", "ansible_host")]
    told += [name, _facts(variables).get("monitoring", {}).get("routed_address")]
    found = next((str(one) for one in told if one and is_address(str(one)) and not is_loopback(str(one))), None)
    return str(ipaddress.ip_address(found)) if found else None


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"group_nodes": group_nodes}
