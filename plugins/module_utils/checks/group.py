# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that the nodes of a group find each other by name, and that their own firewall stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import check, fail, ok, skipped, warn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts, Node, Result

SOURCE = "https://www.debian.org/doc/manuals/debian-reference/ch05.en.html#_the_hostname_resolution"
NFT = "https://wiki.nftables.org/wiki-nftables/index.php/Operations_at_ruleset_level"


@check("group-names", proves="the names of the group's nodes lead to the nodes, the own name not back", source=SOURCE)
def group_names(node: Node) -> Iterator[Result]:
    """Compare where names lead with gpulab's lines, and the own line with the addresses that the node has."""
    hosts: list[Facts] = node.facts["group.hosts"]
    if not hosts and node.declared.get("group_names"):
        yield fail(
            "the names of the group's nodes are not in /etc/hosts",
            "configure",
            reason="whatever writes the file anew, as cloud-init may at every boot, takes them out",
        )
        return
    if not hosts:
        yield skipped("gpulab keeps no names of the group here (network_state)")
        return
    wrong = {
        name: (found, host["address"])
        for host in hosts
        for name, found in host["leads"].data.items()
        if found != host["address"]
    }
    for name, (found, address) in sorted(wrong.items()):
        yield warn(f"{name} leads to {found or 'nothing'}", "configure", observed=found, expected=address)
    has = node.facts["monitoring.addresses"]
    foreign = [host["address"] for host in hosts if host["own"] and host["address"] not in has]
    for address in foreign:
        yield warn(
            f"the other nodes are told {address}, which this node does not have",
            "configure",
            observed=", ".join(has),
            expected=address,
        )
    silent = [host["address"] for host in hosts if not host["leads"].data]
    if silent:
        yield warn(f"the name service gives no answer for {', '.join(silent)}", "check_network")
    if not wrong and not foreign and not silent:
        yield ok(f"{len(hosts)} nodes of the group are known by name", len(hosts))


@check("group-firewall", proves="the ports that gpulab closes to others are closed", source=NFT)
def group_firewall(node: Node) -> Iterator[Result]:
    """Look for the table in the kernel: its unit stays active when somebody empties all tables."""
    own = node.facts["group.own_firewall"]
    if not own["wanted"]:
        yield skipped("gpulab closes no ports here (network_firewall)")
    elif own["loaded"]:
        yield ok("the table that closes the group's ports to others is loaded")
    else:
        yield fail(
            "the table that closes the group's ports to others is not loaded: they are open",
            "configure",
            reason="whatever loads rules anew may empty all tables; systemctl restart gpulab-peers loads this one",
        )
