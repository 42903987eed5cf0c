# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes of a group in /etc/hosts: one block of gpulab's, and what it takes out of the way. No I/O happens here.

Debian's installer gives a node's own name to 127.0.1.1. Of two addresses, glibc puts that one first wherever the lines
stand, and a job's processes would tell their peers to meet there. Such a line is set aside, as a comment, and comes
back. Capital letters make no other name: glibc compares without regard to them.

Where cloud-init rewrites the file at every boot, the block stands in its template, too.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core import owned_block
from ansible_collections.gpulab.node.plugins.module_utils.core.host_name import is_host_name
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.system import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable

PATH = "/etc/hosts"
OWNER = "network"  # the role that keeps the block
SET_ASIDE = "# Set aside by gpulab (role network): "
# What the stock files of Debian, RHEL and SUSE give to the loopback and to groups of addresses: no node's own names.
_LOCAL = re.compile(
    r"localhost[46]?(\.localdomain[46]?)?"
    r"|ip(v6|6)-(localhost|loopback|localnet|mcastprefix|allnodes|allrouters|allhosts)",
    re.IGNORECASE,
)
# What cloud-init's templates begin with, which name themselves so. A value that it puts in is the node's own name.
_TEMPLATE = re.compile(
    r"^# Your system has configured 'manage_etc_hosts' as True\.$[^/]+(/etc/cloud/templates/\S+)", re.MULTILINE
)
_PLACEHOLDER = re.compile(r"\{\{|\$")


@dataclass(frozen=True)
class Line:
    """One line: an address, and the names that lead to it."""

    address: str
    names: tuple[str, ...]

    def __str__(self) -> str:
        """Return it as the file has it."""
        return " ".join([self.address, *self.names])


@dataclass(frozen=True)
class Wanted:
    """The file's text, and the nodes that are left out because nobody knows their address."""

    text: str | None
    unknown: tuple[str, ...] = ()


def parse(line: str) -> Line | None:
    """Return what a line says; None where it says nothing."""
    address, *names = line.partition("#")[0].split() or [""]
    return Line(address, tuple(names)) if names else None


def block(text: str) -> list[Line]:
    """Return the lines of gpulab's block."""
    return [found for line in owned_block.inside(text, OWNER).splitlines() if (found := parse(line))]


def is_address(text: str | None) -> bool:
    """Tell whether this is an address, not a name. Python takes any text for the scope of one, line breaks too."""
    try:
        ipaddress.ip_address(text or "")
    except ValueError:
        return False
    return re.fullmatch(r"[^%]*(%[A-Za-z0-9_.-]+)?", text or "") is not None


def _number(address: str) -> object:
    return ipaddress.ip_address(address) if is_address(address) else address


def is_loopback(address: str) -> bool:
    """Tell whether an address leads back to the node itself."""
    return is_address(address) and ipaddress.ip_address(address).is_loopback


def without(text: str) -> str:
    """Return the file's text as it was before gpulab."""
    return re.sub(f"^{re.escape(SET_ASIDE)}", "", owned_block.outside(text, OWNER), flags=re.MULTILINE)


def merged(text: str | None, nodes: list[dict[str, Any]], own: str, hostname: str = "") -> Wanted:
    """Return what the file becomes.

    nodes are {"name", "address", "names"}: its name in the inventory, and those that its peers know it by. A null
    address is one that this run does not know, for which the one that is there stays. own is the name of the node whose
    file this is, hostname what it calls itself, which no other node's file has. No nodes means no block. Raises Refusal
    H140 where another line gives a node's name to another address.
    """
    before = text or ""
    former, others = block(before), without(before)
    lines: list[Line] = []
    aside: list[str] = []
    unknown = []
    for node in nodes:
        line = _line(node, former, hostname if node["name"] == own else "")
        if line is None:
            unknown.append(node["name"])
            continue
        if node["name"] == own:
            aside = [each for each in others.splitlines() if _is_own_loopback(each, line)]
            found = [parsed for each in aside if (parsed := parse(each))]
            moved = [name for one in found for name in one.names if not is_local(name)]
            lines += [Line(one.address, kept) for one in found if (kept := tuple(filter(is_local, one.names)))]
            line = Line(line.address, _each_once([*moved, *line.names]))
        lines.append(Line(line.address, _whole_first(line.names)))
    kept_lines = [each for each in others.splitlines() if each not in aside]
    _refuse_others(kept_lines, lines)
    rest = _set_aside(others, aside)
    content = "\n".join(map(str, lines))
    return Wanted(owned_block.merged(rest if text is not None else None, content, OWNER), tuple(unknown))


def template(text: str) -> str | None:
    """Return the file from which cloud-init rewrites this text at every boot; None where it says nothing of that."""
    found = _TEMPLATE.search(text)
    return found[1] if found else None


def into_template(text: str, hosts: str | None) -> str | None:
    """Return what the template becomes; hosts is what /etc/hosts becomes, of which it gets the block."""
    content, others = owned_block.inside(hosts or "", OWNER), without(text)
    names = [name for line in block(hosts or "") for name in line.names if not is_local(name)]
    aside = [each for each in others.splitlines() if content and _is_own_in_template(each, names)]
    return owned_block.merged(_set_aside(others, aside), content, OWNER)


def _is_own_in_template(text: str, names: list[str]) -> bool:
    line = parse(text)
    own = line and is_loopback(line.address) and (_shared(line.names, names) or _PLACEHOLDER.search(text))
    return bool(own)


def _set_aside(text: str, aside: list[str]) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(SET_ASIDE + line if line.rstrip("\r\n") in aside else line for line in lines)


def _line(node: dict[str, Any], former: list[Line], hostname: str) -> Line | None:
    """Return a node's line; None where nobody knows its address, or the inventory gives it no name."""
    names = _each_once(filter(_is_name, [*node["names"], hostname]))
    there = next((line for line in former if _shared(names, line.names)), None)
    address = node["address"] or (there.address if there else None)
    return Line(address, names) if address and names else None


def _shared(names: Iterable[str], others: Iterable[str]) -> list[str]:
    """Return those of some names that others are the same as."""
    known = {name.lower() for name in others}
    return [name for name in names if name.lower() in known]


def _each_once(names: Iterable[str]) -> tuple[str, ...]:
    """Return names without those that are there already, in whatever letters."""
    found: dict[str, str] = {}
    for name in names:
        found.setdefault(name.lower(), name)
    return tuple(found.values())


def _is_name(name: str) -> bool:
    """Tell whether this can be a node's name; a node may call itself what it likes, two lines of a file too."""
    return is_host_name(name) and not is_local(name)


def is_local(name: str) -> bool:
    """Tell whether a name is one of those that each machine has for itself, such as localhost."""
    return bool(_LOCAL.fullmatch(name))


def _whole_first(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names with those first that are another one's whole name, for the first is what the node is called.

    Kerberos' principals and NFSv4's domain are made of it.
    """
    return tuple(
        sorted(names, key=lambda name: not any(name.lower().startswith(f"{other.lower()}.") for other in names))
    )


def _is_own_loopback(text: str, own: Line) -> bool:
    line = parse(text)
    return bool(line and is_loopback(line.address) and _shared(line.names, own.names))


def _refuse_others(theirs: list[str], ours: list[Line]) -> None:
    """Refuse a name that leads elsewhere, in the same family of addresses: the first line would win."""
    for told in filter(None, map(parse, theirs)):
        for line in ours:
            names = sorted(name for name in _shared(told.names, line.names) if not is_local(name))
            if (
                names
                and _number(told.address) != _number(line.address)
                and (":" in told.address) == (":" in line.address)
            ):
                raise refuse("H140", name=names[0], told=told.address, address=line.address)
