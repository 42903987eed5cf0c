# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the inventory has the shape gpulab works with: each host under one host type, at an address of its own."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import first
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import host_types
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

GPU_NODES = "gpu-nodes"
# How inventory plugins that make groups (constructed, clouds') write the same name: Ansible takes no hyphen from them.
SPELLINGS = (GPU_NODES, "gpu_nodes")
# Groups that playbooks look for beside those of the GPU nodes.
SERVERS = ("slurm_controllers", "monitoring_server")
NEAR = 0.9  # of difflib: slurm_controler is meant for gpulab, slurm_masters may be somebody's own
SSH_PORT = 22
SHOWN = 3

Groups = dict[str, list[str]]


def selection(groups: Groups, sources: Collection[str] = ()) -> str:
    """Return the pattern of the hosts gpulab works on; sources are the inventory's.

    Raises Refusal I020 where that is nobody.
    """
    there = [name for name in SPELLINGS if groups.get(name)]
    if there:
        return ":".join(there)
    empty = next((name for name in SPELLINGS if name in groups), None)
    near = [] if empty else get_close_matches(GPU_NODES, groups, 1)
    there_is = f"the group {empty} is empty" if empty else f"the group {GPU_NODES} is not in the inventory"
    types = list(catalog.load().host_types)
    raise refuse(
        "I020",
        detail=f"{there_is} ({listed(sources)})" if sources else there_is,
        advice=f"Did you mean {GPU_NODES} instead of {near[0]}?"
        if near
        else f"Add each machine to one of the groups {', '.join(types)}, below {GPU_NODES}:"
        f" {types[0]}: {{hosts: {{NAME: {{ansible_host: ADDRESS}}}}}}",
    )


def nodes(groups: Groups) -> list[str]:
    """Return the hosts gpulab works on, whichever way their group is written."""
    return list(dict.fromkeys(host for name in SPELLINGS for host in groups.get(name, ())))


def faults(hosts: Mapping[str, Mapping[str, Any]], groups: Groups) -> Iterator[Refusal]:
    """Yield what is wrong with the groups and addresses of these hosts, given with their connection variables."""
    ours = nodes(groups)
    yield from _host_types({host: given for host, given in hosts.items() if host in ours}, groups)
    yield from misspelt(groups)
    yield from _named_groups(hosts, groups)
    yield from _addresses(hosts)
    for host, given in hosts.items():
        yield from _address(host, str(given.get("ansible_host") or ""))


def misspelt(groups: Groups) -> Iterator[Refusal]:
    """Yield each group whose name is nearly that of servers gpulab looks for, where those have no group."""
    wanted = [name for name in SERVERS if not groups.get(name)]
    for group in groups:
        near = get_close_matches(group.lower().replace("-", "_"), wanted, 1, NEAR)
        if near and group not in wanted:
            yield refuse("I046", group=group, near=near[0])


def _named_groups(hosts: Mapping[str, Mapping[str, Any]], groups: Groups) -> Iterator[Refusal]:
    """Yield what network_group names, and is no group."""
    named = {str(given["network_group"]) for given in hosts.values() if isinstance(given.get("network_group"), str)}
    for group in sorted(named - groups.keys() - {name.replace("_", "-") for name in groups}):
        near = get_close_matches(group, groups, 1)
        advice = f"Did you mean {near[0]}?" if near else "Use one of them."
        yield refuse("I006", variable="network_group", value=group, choices=listed(groups), advice=advice)


def where(hosts: Collection[str], groups: Groups, everyone: Collection[str]) -> str:
    """Name hosts in few words: a group where they are all of it that takes part, else the hosts."""
    if len(hosts) > 1:
        for group in (*catalog.load().host_types, *SPELLINGS, *groups):
            if set(hosts) == set(groups.get(group, ())) & set(everyone):
                return f"group {group}"
    return listed(hosts)


def listed(names: Collection[str]) -> str:
    """Return names with commas; of many, the first and how many more."""
    return first(names, SHOWN)


def _host_types(nodes: Mapping[str, Mapping[str, Any]], groups: Groups) -> Iterator[Refusal]:
    known, untyped = catalog.load(), []
    for host, given in nodes.items():
        types = host_types.of([group for group, members in groups.items() if host in members], known)
        different = list(host_types.disagreements(types, given, known))
        if different:
            yield refuse("I025", host=host, types=" and ".join(types), options=", ".join(different))
        if not types:
            untyped.append(host)
    for group, members in groups.items():
        near = get_close_matches(group, known.host_types, 1, 0.8)
        misplaced = [host for host in untyped if host in members] if near and group not in known.host_types else []
        if misplaced:
            yield refuse("I023", group=group, hosts=listed(misplaced), near=near[0])
            untyped = [host for host in untyped if host not in misplaced]
    if untyped:
        yield refuse("I021", hosts=listed(untyped), types=", ".join(known.host_types))


def _address(host: str, address: str) -> Iterator[Refusal]:
    """Yield why what ansible_host has is no address: it has a user or a port, too."""
    user, at, rest = address.rpartition("@")
    name, colon, port = rest.partition(":")
    has_port = colon and port.isdecimal()
    if at or has_port:
        parts = {
            "ansible_user": user,
            "ansible_host": name if has_port else rest,
            "ansible_port": port * bool(has_port),
        }
        settings = ", ".join(f"{variable}: {value}" for variable, value in parts.items() if value)
        yield refuse("I052", host=host, address=address, settings=settings)


def _addresses(hosts: Mapping[str, Mapping[str, Any]]) -> Iterator[Refusal]:
    """Compare where connections go; the same address behind another jump host is another one."""
    found: dict[tuple[str, ...], list[str]] = {}
    for host, variables in hosts.items():
        address = str(variables.get("ansible_host") or host).lower()
        port = str(variables.get("ansible_port") or SSH_PORT)
        through = [str(variables.get(name) or "") for name in ("ansible_connection", "ansible_ssh_common_args")]
        found.setdefault((address, port, *through), []).append(host)
    for (address, port, *_through), names in found.items():
        if len(names) > 1:
            yield refuse("I024", hosts=listed(names), address=f"{address} port {port}")
