# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network of a rebuilt node: which settings come back, under which names, and the way back to what works now.

No I/O happens here.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.system import Interface, Network

SECTION = "network"
# Of each tool: its unit, where its program may be, and how settings take effect.
UNITS = {
    "ifupdown": "networking.service",
    "NetworkManager": "NetworkManager.service",
    "networkd": "systemd-networkd.service",
}
PROGRAMS = {
    "netplan": ("/usr/sbin/netplan",),
    "ifupdown": ("/usr/sbin/ifup", "/sbin/ifup"),
    "NetworkManager": ("/usr/sbin/NetworkManager",),
    "networkd": ("/usr/lib/systemd/systemd-networkd", "/lib/systemd/systemd-networkd"),
}
RESOLVED = "systemd-resolved.service"
# Who writes what /etc/resolv.conf may be a link to, by a word in its target.
WRITERS = {
    "systemd": ("/usr/lib/systemd/systemd-resolved", "/lib/systemd/systemd-resolved"),
    "NetworkManager": PROGRAMS["NetworkManager"],
    "resolvconf": ("/usr/sbin/resolvconf", "/sbin/resolvconf"),
}
BACK, APPLY = "gpulab-network-back", "gpulab-network-apply"  # units
LOOPBACK = "lo"


@dataclass(frozen=True)
class Change:
    """What changes: units to enable and to disable, and the interfaces whose addresses are set again."""

    enable: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    interfaces: tuple[str, ...] = ()
    netplan: bool = False


def renamed(before: Iterable[Interface], now: Iterable[Interface]) -> dict[str, str]:
    """Return which physical interfaces have another name now: by their MAC addresses, old to new."""
    names = {_mac(one): one.name for one in now if one.kind == "physical" and _mac(one)}
    found = {one.name: names[_mac(one)] for one in before if one.kind == "physical" and _mac(one) in names}
    return {old: new for old, new in found.items() if old != new}


def _mac(interface: Interface) -> str:
    return (interface.permanent_mac or interface.mac or "").lower()


def with_names(text: str, names: Mapping[str, str]) -> str:
    """Return a text, or a path, with the names that interfaces have now; eth0.7 is a VLAN on eth0."""
    if not names:
        return text
    words = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.sub(rf"(?<![\w-])(?:{words})(?![\w-])", lambda match: names[match[0]], text)


def answers(before: Iterable[Interface], address: str) -> bool:
    """Tell whether a node with these interfaces has an address."""
    return address in {one.address.partition("/")[0] for interface in before for one in interface.addresses}


def change(before: Network, now: Network, names: Mapping[str, str]) -> Change:
    """Return what changes between two sections network, beside files."""
    was, active = _active(before), _active(now)
    enable = [unit for tool, unit in UNITS.items() if tool in was - active]
    if before.dns.managed_by == "systemd" != now.dns.managed_by:
        enable.append(RESOLVED)
    disable = [unit for tool, unit in UNITS.items() if tool in active - was and was]
    there = {one.name for one in now.interfaces} - {LOOPBACK}
    interfaces = [names.get(one.name, one.name) for one in before.interfaces if one.kind == "physical"]
    return Change(tuple(enable), tuple(disable), tuple(one for one in interfaces if one in there), _netplan(before))


def _active(network: Network) -> set[str]:
    return {one.name for one in network.tools if one.active}


def _netplan(network: Network) -> bool:
    return any(one.name == "netplan" and one.files for one in network.tools)


def lacking(why: str) -> dict[str, str]:
    """Return that the settings did not come back."""
    return {"section": SECTION, "name": "settings", "why": why}


def needed(before: Network) -> list[str]:
    """Return the tools that were in use."""
    return [one.name for one in before.tools if one.active or (one.active is None and one.files)]


@dataclass
class Script:
    """Lines of a shell script."""

    lines: list[str] = field(default_factory=lambda: ["#!/bin/sh", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"])

    def run(self, *argv: str) -> None:
        """Run a command; what fails stops nothing."""
        self.lines.append(f"{shlex.join(argv)} || true")

    def text(self) -> str:
        """Return the script."""
        return "\n".join(self.lines) + "\n"


def apply_script(wanted: Change, after_seconds: int = 2) -> str:
    """Return the script that lets the settings take effect, once the node has answered the controller."""
    script = Script()
    script.run("sleep", str(after_seconds))
    script.run("systemctl", "daemon-reload")
    _switch(script, wanted.enable, wanted.disable, wanted)
    return script.text()


def back_script(wanted: Change, now: Network, added: Iterable[str], archive: str, state: str) -> str:
    """Return the script that brings back what was before: files, units, and the network itself."""
    script = Script()
    script.run("rm", "-f", "--", *added)
    script.run("tar", "--extract", "--preserve-permissions", "--file", archive, "--directory", "/")
    script.run("systemctl", "daemon-reload")
    former = Change(wanted.disable, wanted.enable, wanted.interfaces, _netplan(now))
    _switch(script, former.enable, former.disable, former)
    active = [UNITS[one.name] for one in now.tools if one.active and one.name in UNITS]
    for unit in active:
        script.run("systemctl", "restart", unit)
    script.run("touch", f"{state}/undone")
    script.run("rm", "-f", f"/etc/systemd/system/{BACK}.timer", f"/etc/systemd/system/{BACK}.service")
    script.run("rm", "-f", f"/etc/systemd/system/timers.target.wants/{BACK}.timer")
    return script.text()


def _switch(script: Script, enable: Iterable[str], disable: Iterable[str], wanted: Change) -> None:
    for unit in disable:
        script.run("systemctl", "disable", "--now", unit)
    for interface in wanted.interfaces:  # ifup and its like refuse an address that is there already
        script.run("ip", "address", "flush", "dev", interface, "scope", "global")
    for unit in enable:
        script.run("systemctl", "enable", unit)
    if wanted.netplan:
        script.run("netplan", "apply")
    for unit in UNITS.values():
        if unit not in disable:
            script.lines.append(f"systemctl is-enabled --quiet {unit} && systemctl restart {unit} || true")
    if RESOLVED in enable:
        script.run("systemctl", "restart", RESOLVED)


def back_units(script: str, minutes: int) -> dict[str, str]:
    """Return the units that run the way back unless somebody confirms, even if the node is started again meanwhile.

    The time counts from the start of the timer, which a boot starts again. OnBootSec would be over already on a node
    that has run for longer, and undo everything at once.
    """
    service = (
        "[Unit]\nDescription=Undo settings of the network that nobody confirmed\n"
        f"[Service]\nType=oneshot\nExecStart=/bin/sh {script}\n"
    )
    timer = (
        f"[Unit]\nDescription=Wait for a confirmation of the network\n"
        f"[Timer]\nOnActiveSec={minutes}min\nAccuracySec=1s\n[Install]\nWantedBy=timers.target\n"
    )
    return {f"{BACK}.service": service, f"{BACK}.timer": timer}
