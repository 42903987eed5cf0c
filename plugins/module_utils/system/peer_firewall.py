# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a firewall lets a node's peers do: the rules that are gpulab's, and the commands that change them. No I/O here.

gpulab's rules of ufw carry a comment, those of firewalld a priority that nobody else's has. Both stand behind the
rules of the node's owner, which therefore win.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

COMMENT = "gpulab network"
PRIORITY = 23456  # firewalld: above 0 is after the zone's own rules, before what the zone does with the rest
_UFW = re.compile(rf"^ufw (.+) comment '{COMMENT}'$", re.MULTILINE)


@dataclass(frozen=True)
class Wish:
    """Which addresses may reach which ports (first and last of each range) by TCP."""

    peers: tuple[str, ...] = ()
    ports: tuple[tuple[int, int], ...] = ()


NOBODY = Wish()


@dataclass(frozen=True)
class Step:
    """One command, and the rule that it adds or takes away."""

    argv: tuple[str, ...]
    rule: str
    adds: bool


def ufw_rules(added: str) -> list[str]:
    """Return gpulab's rules, from what ``ufw show added`` prints."""
    return _UFW.findall(added)


def ufw_steps(current: list[str], wish: Wish) -> list[Step]:
    """Return what has to change in ufw, which keeps ports in rising order and addresses in their shortest form."""
    ports = ",".join(str(first) if first == last else f"{first}:{last}" for first, last in sorted(wish.ports))
    wanted = [f"allow from {ipaddress.ip_address(peer)} to any port {ports} proto tcp" for peer in wish.peers]
    return [
        *(Step(("ufw", "delete", *rule.split()), rule, adds=False) for rule in current if rule not in wanted),
        *(Step(("ufw", *rule.split(), "comment", COMMENT), rule, adds=True) for rule in wanted if rule not in current),
    ]


def firewalld_rules(listed: str) -> dict[str, list[str]]:
    """Return gpulab's rules of each zone, from what ``firewall-cmd --list-all-zones`` prints."""
    found: dict[str, list[str]] = {}
    zone = ""
    for line in listed.splitlines():
        if line.strip() and not line[0].isspace():
            zone = line.split()[0]
            found[zone] = []
        elif line.strip().startswith(f'rule priority="{PRIORITY}" '):
            found[zone].append(line.strip())
    return found


def firewalld_steps(current: list[str], wish: Wish, zone: str, *, permanent: bool) -> list[Step]:
    """Return what has to change in a zone of firewalld, for good or in what runs."""
    wanted = [
        f'rule priority="{PRIORITY}" family="{"ipv6" if ":" in peer else "ipv4"}" source address="{peer}"'
        f' port port="{first if first == last else f"{first}-{last}"}" protocol="tcp" accept'
        for peer in wish.peers
        for first, last in wish.ports
    ]
    start = ("firewall-cmd", f"--zone={zone}", *(["--permanent"] if permanent else []))
    told = f" in the zone {zone}, {'for good' if permanent else 'now'}"
    return [
        *(
            Step((*start, f"--remove-rich-rule={rule}"), rule + told, adds=False)
            for rule in current
            if rule not in wanted
        ),
        *(Step((*start, f"--add-rich-rule={rule}"), rule + told, adds=True) for rule in wanted if rule not in current),
    ]
