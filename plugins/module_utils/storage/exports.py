# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tiers of storage that other machines may mount over NFS: what the server has, and what has to change. No I/O here.

What is exported lies in a file of gpulab's own, for the next boot, and in the server's table, for now. In the table
only gpulab's entries are added and taken away; what others export, in a file or by hand, stays.
"""

from __future__ import annotations

import ipaddress
import posixpath
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import owned_files
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.storage import refuse
from ansible_collections.gpulab.node.plugins.module_utils.storage.steps import Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FILE = "/etc/exports.d/gpulab.exports"
OTHERS = "/etc/exports"
TABLE = "/var/lib/nfs/etab"
UNIT = "nfs-server.service"
WANTED = f"/etc/systemd/system/multi-user.target.wants/{UNIT}"  # there when it starts at every boot
ENABLED = "/var/lib/gpulab/storage-nfs-server"  # there when gpulab enabled it
DEFAULT = ("rw", "sync", "no_subtree_check", "root_squash")
ALWAYS = "mountpoint"  # where nothing is mounted, nothing is exported: the empty directory below is not
OPPOSITES = (
    frozenset({"rw", "ro"}),
    frozenset({"sync", "async"}),
    frozenset({"subtree_check", "no_subtree_check"}),
    frozenset({"root_squash", "no_root_squash"}),
    frozenset({"all_squash", "no_all_squash"}),
    frozenset({"secure", "insecure"}),
    frozenset({"wdelay", "no_wdelay"}),
    frozenset({"hide", "nohide"}),
)
_MORE = re.compile(r"(?:anonuid|anongid)=\d+|fsid=[\w-]+|sec=(?:sys|krb5|krb5i|krb5p)|crossmnt")
_CLIENT = re.compile(r"@?[A-Za-z0-9*?][A-Za-z0-9*?._:-]*(?:/[0-9.]+)?|::(?:/\d+)?")
_HELD = re.compile(r'superblock: "([0-9a-f]+):([0-9a-f]+):')


@dataclass(frozen=True)
class Export:
    """A directory, who may mount it, and with which options."""

    path: str
    client: str
    options: tuple[str, ...] = DEFAULT

    @property
    def given(self) -> str:
        """Return it as the server's files and its program write it."""
        return f"{self.client}({','.join(self.options)})"


@dataclass(frozen=True)
class Server:
    """The node's NFS server: the texts of its files, its table, and whether it runs, and will at every boot.

    enabled tells whether that is gpulab's doing; hosts is the text of /etc/hosts; unable says why this node cannot have
    one, and is empty where it can; holders maps devices, as 259:2, to the addresses of clients that hold files there.
    """

    files: dict[str, str] = field(default_factory=dict)
    table: str = ""
    runs: bool = False
    at_boot: bool = False
    enabled: bool = False
    hosts: str = ""
    unable: str = ""
    holders: dict[str, list[str]] = field(default_factory=dict)


def options(requested: Iterable[str]) -> tuple[str, ...]:
    """Return the options of an export: the requested ones in the place of the defaults that they contradict."""
    asked = tuple(dict.fromkeys(requested))
    kept = [one for one in DEFAULT if not any(one in pair and pair & set(asked) for pair in OPPOSITES)]
    return (*kept, *asked, ALWAYS)


def wrong_options(requested: Iterable[str]) -> list[str]:
    """Return the options that gpulab does not know."""
    known = frozenset().union(*OPPOSITES)
    return [one for one in requested if one not in known and not _MORE.fullmatch(one)]


def is_client(text: str) -> bool:
    """Tell whether this can name a client: a host, a network, a pattern of names or a netgroup."""
    if not _CLIENT.fullmatch(text):
        return False
    return _network(text) is not None or not re.fullmatch(r"[0-9.]+(?:/.*)?|.*:.*|.*/.*", text)


def is_everybody(client: str) -> bool:
    """Tell whether this names every machine there is."""
    network = _network(client)
    return (network is not None and network.prefixlen == 0) or not client.strip("*?.")


def _network(client: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(client, strict=False)
    except ValueError:
        return None


def parse(text: str) -> list[Export]:
    """Read a file of exports or the server's table."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        path, _space, clients = line.partition("#")[0].strip().replace("\t", " ").partition(" ")
        if path:
            place = posixpath.normpath(path.strip('"'))  # a slash may end it
            found += [Export(place, client, tuple(some.split(","))) for client, some in _clients(clients)]
    return found


def _clients(text: str) -> list[tuple[str, str]]:
    """Return the clients of a line with their options; a word that begins with a dash has those of all after it."""
    found, common = [], ""
    for word in text.split():
        client, _bracket, some = word.partition("(")
        if word.startswith("-"):
            common = word[1:]
        else:
            found.append((client or "*", some.rstrip(")") or common))
    return found or [("*", common)]


def lines(exports: Iterable[Export]) -> str:
    """Return the content of gpulab's file."""
    by_path: dict[str, list[str]] = {}
    for export in exports:
        by_path.setdefault(export.path, []).append(export.given)
    return "\n".join(f"{path} {' '.join(clients)}" for path, clients in by_path.items())


def live(export: Export, table: str, hosts: str) -> Export | None:
    """Return the entry of the server's table for this export; it has the first name of a host for a later one."""
    names = {export.client.lower(), _first_name(export.client, hosts).lower()}
    return next((one for one in parse(table) if one.path == export.path and one.client.lower() in names), None)


def missing(export: Export, entry: Export) -> list[str]:
    """Return the options that an entry of the table lacks."""
    return sorted(set(export.options) - set(entry.options))


def _first_name(client: str, hosts: str) -> str:
    for line in hosts.splitlines():
        words = line.partition("#")[0].split()
        if client.lower() in map(str.lower, words[1:]):
            return words[1]
    return client


def check(wanted: list[Export], tiers: dict[str, str], server: Server) -> None:
    """Raise Refusal H167 where this node cannot serve, H168 where somebody else exports the same; tiers by path."""
    if wanted and server.unable:
        raise refuse("H167", tier=tiers[wanted[0].path], wrong=server.unable)
    paths = {export.path for export in wanted}
    for file, text in server.files.items():
        for other in parse(text) if file != FILE else ():
            if other.path in paths:
                raise refuse("H168", file=file, path=other.path, client=other.client, tier=tiers[other.path])


def withdrawals(wanted: list[Export], server: Server, numbers: dict[str, str]) -> Iterator[Step]:
    """Take out of the table what gpulab exported and no tier does any more; numbers are those of what is mounted.

    Raises Refusal H169 where a client has files open there.
    """
    kept = {(export.path, export.client) for export in wanted}
    for export in parse(server.files.get(FILE, "")):
        entry = live(export, server.table, server.hosts)
        if (export.path, export.client) in kept or entry is None:
            continue
        holders = [one for one in server.holders.get(numbers.get(export.path, ""), []) if means(export.client, one)]
        if holders:
            raise refuse("H169", path=export.path, client=export.client, holders=", ".join(holders))
        what = f"stop exporting {export.path} to {export.client}"
        yield Step("withdraw", what, ("exportfs", "-u", f"{_bracketed(entry.client)}:{export.path}"), place=export.path)


def means(client: str, holder: str) -> bool:
    """Tell whether an address can be of this client; of a name, and of an address that cannot be read, nobody knows."""
    network, one = _network(client), _network(holder)
    return network is None or one is None or one.network_address in network


def _bracketed(client: str) -> str:
    return f"[{client}]" if ":" in client else client


def additions(wanted: list[Export], server: Server) -> Iterator[Step]:
    """Write the file, let the server run, and put into its table what it lacks. Raises Refusal H020."""
    for step in owned_files.plan({FILE: lines(wanted)}, {FILE: server.files.get(FILE)}, "storage"):
        yield Step("exports", f"write {FILE}" if step.after else f"remove {FILE}", text=step.after or "")
    if wanted and not server.at_boot:
        yield Step("enable", "start the NFS server at every boot", ("systemctl", "enable", UNIT))
    if wanted and not server.runs:
        yield Step("serve", "start the NFS server", ("systemctl", "start", UNIT))
    for export in wanted:
        entry = live(export, server.table, server.hosts)
        if entry is None or missing(export, entry):
            argv = ("exportfs", "-o", ",".join(export.options), f"{_bracketed(export.client)}:{export.path}")
            yield Step("export", f"export {export.path} to {export.given}", argv)
    if server.enabled and not wanted and not elsewhere(server):
        what = "stop the NFS server, which has no exports"
        yield Step("disable", what, ("systemctl", "disable", "--now", UNIT))


def elsewhere(server: Server) -> bool:
    """Tell whether somebody else exports anything, by a file or by hand."""
    own = {(export.path, export.client) for export in parse(server.files.get(FILE, ""))}
    own |= {(path, _first_name(client, server.hosts)) for path, client in own}
    by_file = any(parse(text) for file, text in server.files.items() if file != FILE)
    return by_file or any((entry.path, entry.client) not in own for entry in parse(server.table))


def address(info: str) -> str:
    """Return the address of a client from what the kernel tells of it."""
    found = re.search(r'^address: "\[?([^\]"]*?)\]?:\d+"', info, re.MULTILINE)
    return found[1] if found else ""


def holders(clients: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Read what the kernel tells of each client, of its address and of what it holds: who holds files on which device.

    It holds what it has open or locked, and what was lent to it.
    """
    found: dict[str, list[str]] = {}
    for info, states in clients:
        who_asks = address(info)
        for major, minor in _HELD.findall(states):
            who = found.setdefault(f"{int(major, 16)}:{int(minor, 16)}", [])
            if who_asks not in who:
                who.append(who_asks)
    return found
