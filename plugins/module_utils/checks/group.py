# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that the nodes of a group find each other by name, and that their own firewall stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import check, fail, inapplicable, ok, warn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts, Node, Result

SOURCE = "https://www.debian.org/doc/manuals/debian-reference/ch05.en.html#_the_hostname_resolution"
NFT = "https://wiki.nftables.org/wiki-nftables/index.php/Operations_at_ruleset_level"


@check(
    "group-names",
    proves="the names of the group's nodes resolve to their addresses, and the node's own name not to loopback",
    source=SOURCE,
)
def group_names(node: Node) -> Iterator[Result]:
    """Compare where names lead with gpulab's lines, and the own line with the addresses that the node has."""
    hosts: list[Facts] = node.facts["group.hosts"]
    if not hosts and node.declared.get("group_names"):
        yield fail(
            "the names of the group's nodes are not in /etc/hosts",
            "configure",
            reason="another program may rewrite the file, such as cloud-init at every boot",
        )
        return
    if not hosts:
        yield inapplicable("gpulab does not manage the group's names here (network_state)")
        return
    wrong = {
        name: (found, host["address"])
        for host in hosts
        for name, found in host["leads"].data.items()
        if found != host["address"]
    }
    for name, (found, address) in sorted(wrong.items()):
        yield warn(f"{name} resolves to {found or 'nothing'}", "configure", observed=found, expected=address)
    has = node.facts["monitoring.addresses"]
    foreign = [host["address"] for host in hosts if host["own"] and host["address"] not in has]
    for address in foreign:
        yield warn(
            f"the other nodes use {address}, but this node does not have that address",
            "configure",
            observed=", ".join(has),
            expected=address,
        )
    silent = [host["address"] for host in hosts if not host["leads"].data]
    if silent:
        yield warn(f"the name service gives no answer for {', '.join(silent)}", "check_network")
    if not wrong and not foreign and not silent:
        yield ok(f"{len(hosts)} nodes of the group resolve by name", len(hosts))


@check("group-firewall", proves="the ports of the group are closed to other hosts", source=NFT)
def group_firewall(node: Node) -> Iterator[Result]:
    """Look for the table in the kernel: its unit stays active when somebody empties all tables."""
    own = node.facts["group.own_firewall"]
    if not own["wanted"]:
        yield inapplicable("gpulab manages no firewall here (network_firewall)")
    elif own["loaded"]:
        yield ok("gpulab's firewall table is loaded")
    else:
        yield fail(
            "gpulab's firewall table is not loaded, so the group's ports are open to other hosts",
            "configure",
            reason="another program may have flushed all tables; run systemctl restart gpulab-peers",
        )
