# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory, judged before any host is touched: every variable that is meant for gpulab, and the groups.

Nothing here knows Ansible: hosts come with their variables as plain data, and what is wrong goes out as refusals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog as catalogs
from ansible_collections.gpulab.node.plugins.plugin_utils.inventory_check import structure, values
from ansible_collections.gpulab.node.plugins.plugin_utils.inventory_check.conflicts import conflicts
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog
    from ansible_collections.gpulab.node.plugins.plugin_utils.options import Options

NAMES_A_HOST = "_force"  # what forces something on one host, by how its name ends
CONNECTION = ("ansible_host", "ansible_port", "ansible_connection", "ansible_ssh_common_args")


@dataclass(frozen=True)
class Broken:
    """In place of a value whose template failed: why."""

    detail: str


def check(
    hosts: Mapping[str, Mapping[str, Any]], groups: structure.Groups, options: Options, catalog: Catalog
) -> list[Refusal]:
    """Return everything that is wrong, each once, with the hosts or the group that have it.

    hosts are those of the play, each with its variables: those of CONNECTION, and those that concern options; others
    are passed over. groups are all of the inventory, with the names of their hosts.
    """
    found: dict[tuple[str, str, str], list[str]] = {}
    for host, variables in hosts.items():
        for refusal in _of_host(variables, list(hosts), options, catalog):
            found.setdefault((refusal.code, refusal.cause, refusal.remedy), []).append(host)
    of_hosts = [
        Refusal(code, f"{structure.where(names, groups, hosts)}: {cause}", remedy)
        for (code, cause, remedy), names in found.items()
    ]
    return [*structure.faults(hosts, groups), *of_hosts]


def unknown(variables: Mapping[str, Any], options: Options) -> list[Refusal]:
    """Return what is wrong with the names of variables and groups that are meant for gpulab, and that it does not have.

    For a role that is used alone. Facts and what tasks registered are no input, whatever their names, and neither are
    the private variables of roles, which are there at that time.
    """
    facts = variables.get("ansible_facts") or {}
    names = (
        name for name, value in variables.items() if not (name.startswith("__") or name in facts or is_result(value))
    )
    meant = (name for name in names if name not in options.options and options.concerns(name))
    wrong = [refuse("I001", variable=name, advice=_of_unknown(name, options)) for name in sorted(meant)]
    return [*wrong, *structure.misspelt(variables.get("groups") or {})]


def is_result(value: Any) -> bool:
    """Tell whether a value is what a task registered: it is no input, whatever its name."""
    return isinstance(value, Mapping) and "changed" in value


def _of_host(variables: Mapping[str, Any], hosts: list[str], options: Options, catalog: Catalog) -> Iterator[Refusal]:
    good = {}
    for name, value in variables.items():
        if not options.concerns(name) or is_result(value):
            continue
        wrong = list(_of_variable(name, value, hosts, options))
        yield from wrong
        if not wrong:
            good[name] = value
    yield from conflicts(good, catalog)


def _of_variable(name: str, value: Any, hosts: list[str], options: Options) -> Iterator[Refusal]:
    option = options.options.get(name)
    if option is None and options.is_private(name):
        yield refuse("I002", variable=name)
    elif option is None:
        yield refuse("I001", variable=name, advice=_of_unknown(name, options))
    elif isinstance(value, Broken):
        yield refuse("I013", variable=name, detail=value.detail)
    else:
        yield from values.faults(option, value)
        if name.endswith(NAMES_A_HOST) and isinstance(value, str) and value and value not in hosts:
            otherwise = f"Use one of: {structure.listed(hosts)}."
            yield refuse("I014", variable=name, value=value, advice=values.did_you_mean(value, hosts, otherwise))


def _of_unknown(name: str, options: Options) -> str:
    """Return the remedy for an unknown variable; of another role's, what takes its place here."""
    for foreign in catalogs.load().read("foreign_names")["roles"]:
        for pattern, answer in foreign["variables"].items():
            if fnmatchcase(name, pattern):
                return f"It is a variable of {foreign['name']}. {answer}"
    near, role = options.nearest(name), options.role_of(name)
    if near:
        return f"Did you mean {near}?"
    return f"Remove it; all there are: ansible-doc -t role gpulab.node.{role or 'plan'}."
