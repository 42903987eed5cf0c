# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""By which names a host is known: those that the inventory gives it, never what it calls itself.

A host that chose its own names could take those of another, of a file server or of a package server: two clones of one
disk do so by accident.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.host_name import HostName, is_host_name
from ansible_collections.gpulab.node.plugins.module_utils.system.hosts_file import is_local
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

OPTION = "gpulab_host_names"
UNKNOWN = "the inventory does not give it that name, so its peers do not know it by that"


def listed(host: str, variables: Mapping[str, Any]) -> list[HostName]:
    """Return the names that the inventory lists for a host: its own there, and those of the option."""
    more = variables.get(OPTION) or []
    given = [host, more] if isinstance(more, str) else [host, *more]
    return [HostName(name) for name in dict.fromkeys(map(str, given)) if is_host_name(name) and not is_local(name)]


def names(host: str, variables: Mapping[str, Any]) -> list[HostName]:
    """Return all names of a host: those that are listed, and each of them without its domain."""
    found = {name.lower(): name for name in listed(host, variables)}
    for name in list(found.values()):
        short = name.partition(".")[0]
        if is_host_name(short) and not is_local(short):
            found.setdefault(short.lower(), HostName(short))
    return list(found.values())


def of_all(hosts: Iterable[str], variables: Mapping[str, Mapping[str, Any]]) -> dict[str, list[HostName]]:
    """Return the names of each host. A short name that several hosts would have is nobody's.

    Raises Refusal H149 where two hosts have one name in the inventory.
    """
    found = {host: names(host, variables[host]) for host in hosts}
    owners: dict[str, str] = {}
    for host in found:
        for name in listed(host, variables[host]):
            other = owners.setdefault(name.lower(), host)
            if other != host:
                raise refuse("H149", host=other, other=host, name=name)
    often = Counter(name.lower() for given in found.values() for name in given)
    return {
        host: [name for name in given if often[name.lower()] == 1 or owners.get(name.lower()) == host]
        for host, given in found.items()
    }


def calls_itself_right(hostname: str, given: Iterable[str]) -> bool:
    """Tell whether a host calls itself, with or without a domain, by one of its names."""
    known = {name.lower() for name in given}
    return not known.isdisjoint({hostname.lower(), hostname.lower().partition(".")[0]})


def difference(
    host: str, hostnames: Mapping[str, str], given: Mapping[str, Iterable[str]]
) -> tuple[bool, Refusal] | None:
    """Return how what a host calls itself differs from the inventory, and whether it is the name of another host.

    hostnames has what each host calls itself, as far as it was read; given the names of all. None where all is well, or
    where the inventory gives the host no name that it could differ from.
    """
    own, mine = hostnames.get(host, ""), [*given[host]]
    if not mine or not own or is_local(own) or calls_itself_right(own, mine):
        return None
    others = [name for name in given if name != host]
    as_named = next((name for name in others if calls_itself_right(own, given[name])), None)
    alike = next((name for name in others if hostnames.get(name, "").lower() == own.lower()), None)
    why = f"the inventory calls {as_named} so" if as_named else f"so does {alike}" if alike else UNKNOWN
    return bool(as_named or alike), refuse("H148", host=host, hostname=own, why=why, name=mine[0])
