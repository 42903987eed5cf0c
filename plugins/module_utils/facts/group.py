# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node knows of the other nodes of its group, where their names really lead, and what keeps others out."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Callable

from ansible_collections.gpulab.node.plugins.module_utils.core.child import Child, Emit
from ansible_collections.gpulab.node.plugins.module_utils.system import hosts_file

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.services import Group

UFW, UFW_SETTINGS = "/usr/sbin/ufw", "/etc/ufw/ufw.conf"
FIREWALLS = {"ufw": UFW, "firewalld": "/usr/bin/firewall-cmd"}
PORT_RANGE = "/proc/sys/net/ipv4/ip_local_port_range"
OWN_UNIT, OWN_TABLE = "/etc/systemd/system/gpulab-peers.service", "table inet gpulab_network"

# A socket that systemd holds may be that of SSH.
_LISTENS = re.compile(r"^\S+\s+\S+\s+\S+\s+\S+:(\d+)\s.*\(\(\"(?:sshd|dropbear|systemd)\"", re.MULTILINE)


def first_address(name: str) -> str | None:
    """Return the address that a program would take for a name; None where there is none."""
    try:
        return str(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0])
    except (OSError, UnicodeError):
        return None


class GroupQuery:
    """The facts ``group``; a name service may wait, so the names are looked up beside the caller's other work."""

    def __init__(self, node: Node, seconds: float, look_up: Callable[[str], str | None] = first_address) -> None:
        """Start to look up the names of gpulab's lines; below another root, nobody is asked."""
        self._node = node
        self._lines = hosts_file.block(node.text(hosts_file.PATH))
        self._listening = node.start(["ss", "--no-header", "--listening", "--tcp", "--numeric", "--processes"])
        self._firewalld = node.start(["systemctl", "is-active", "firewalld.service"])
        self._closes = node.exists(OWN_UNIT)
        self._tables = node.start(["nft", "list", "tables"]) if self._closes else None
        self._child = None
        names = [name for line in self._lines for name in line.names]
        if names and (node.root == Path("/") or look_up is not first_address):

            def ask(emit: Emit) -> None:
                for name in names:
                    emit([name, look_up(name)])

            self._child = Child(ask, seconds)

    def facts(self) -> Group:
        """Return {"hosts", "ephemeral_ports", "ssh_ports", "firewalls", "firewall", "own_firewall"}.

        hosts are {"address", "own", "names", "leads"}: own marks the line of the node itself; leads maps each name to
        the address it leads to, and one is missing where there was no answer in time. ephemeral_ports are the first
        and the last one, ssh_ports those where SSH may listen; firewalls are ufw and firewalld where they are there,
        firewall is the one that is switched on, or None.
        own_firewall is {"wanted", "loaded"} of gpulab's own table; loaded is None where it is not wanted or not known.
        """
        if self._child:
            self._child.wait()
        leads = {str(name): found for name, found in (self._child.messages if self._child else [])}
        hostname = self._node.text("/proc/sys/kernel/hostname").strip().lower()
        ports = self._node.text(PORT_RANGE).split()
        return {
            "hosts": [
                {
                    "address": line.address,
                    "own": hostname in map(str.lower, line.names),
                    "names": list(line.names),
                    "leads": {name: leads[name] for name in line.names if name in leads},
                }
                for line in self._lines
                if not hosts_file.is_loopback(line.address)
            ],
            "ephemeral_ports": [int(port) for port in ports] if all(map(str.isdigit, ports)) else [],
            "ssh_ports": sorted({int(port) for port in _LISTENS.findall(self._listening.output() or "")}),
            "firewalls": firewalls(self._node),
            "firewall": firewall(self._node, (self._firewalld.output() or "").strip()),
            "own_firewall": {"wanted": self._closes, "loaded": self._loaded()},
        }

    def _loaded(self) -> bool | None:
        """Tell whether gpulab's table is in the kernel, whatever its unit says: others can empty all tables."""
        listed = self._tables.output() if self._tables else None
        return None if listed is None else OWN_TABLE in listed.splitlines()


def firewalls(node: Node) -> list[str]:
    """Name the firewalls that are there: ufw and firewalld."""
    return [name for name, program in FIREWALLS.items() if node.exists(program)]


def firewall(node: Node, firewalld: str) -> str | None:
    """Name the firewall that is switched on; firewalld is systemd's word about that one."""
    if firewalld == "active":
        return "firewalld"
    enabled = re.search(r"^ENABLED=[\"']?yes", node.text(UFW_SETTINGS), re.MULTILINE | re.IGNORECASE)
    return "ufw" if enabled and node.exists(UFW) else None
