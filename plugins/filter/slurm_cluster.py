# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which cluster of Slurm a host belongs to, as a filter over the groups of the inventory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.node.plugins.plugin_utils.inventory_check import structure
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

CONTROLLERS = "slurm_controllers"
PRESENT = "present"  # one name a line: ansible-doc warns of more, and sanity takes that for an error
ABSENT = "absent"
LEAVES = "__slurm_leaves"  # the fact of a node that the role takes out


def slurm_cluster(
    groups: dict[str, list[str]], variables: Mapping[str, Mapping[str, Any]], host: str
) -> dict[str, Any]:
    """Return {"controller", "controls", "members"} of a host, from the variables of all hosts (hostvars).

    controller is the name of its controller, None where the host is not part of a cluster; controls tells whether it
    is that one itself; members are the nodes of its cluster. A node that is to leave is one until the role has seen
    that no job is on it. Raises AnsibleFilterError with F037 where the controller is not in the group.
    """
    there = list(groups.get(CONTROLLERS, ()))
    states = {name: variables[name].get("slurm_state") for name in structure.nodes(groups)}
    wanted = {
        name: variables[name].get("slurm_controller") or next(iter(there), None)
        for name, state in states.items()
        if state in {PRESENT, ABSENT}
    }
    controller = wanted.get(host) if states.get(host) == PRESENT else None
    controller = controller or (host if host in there else None)
    if states.get(host) == PRESENT and controller not in there:
        named = controller or "nobody"
        raise AnsibleFilterError(str(refuse("F037", host=host, controller=named)))
    return {
        "controller": controller,
        "controls": host in there and (host in wanted.values() or host == next(iter(there))),
        "members": [name for name in wanted if wanted[name] == host and not variables[name].get(LEAVES)],
    }


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"slurm_cluster": slurm_cluster}
