# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of a node in the files of Slurm, as a filter over its facts."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Callable

from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.slurm import cluster, versions
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog
from ansible_collections.gpulab.node.plugins.plugin_utils.peers import host_names
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import host_types
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping


def slurm_node(  # noqa: PLR0913, PLR0917 - what a filter is given
    facts: Mapping[str, Any],
    host: str,
    controller: str,
    variables: Mapping[str, Mapping[str, Any]],
    groups: list[str],
    address: str | None,
) -> dict[str, Any]:
    """Return the node with its lines, as asdict of module_utils.slurm.cluster.Node.

    variables are those of all hosts (hostvars), with what the role read of the host and of its controller. Raises
    AnsibleFilterError with F033 to F036, F045 and F046.
    """
    own, head = variables[host], variables[controller]
    try:
        if "__slurm_next" not in head:
            raise refuse("F036", host=host, controller=controller)
        versions.check_node(host, own["__slurm_next"], controller, head["__slurm_next"])
        types = host_types.of(groups, catalog.load())
        names, cpuinfo = host_names.names(host, own), own["__slurm_cpuinfo"]
        return asdict(cluster.node(names, host, facts, cpuinfo, address, types, own["__slurm_reserve"]))
    except Refusal as refusal:
        raise AnsibleFilterError(str(refusal)) from refusal


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"slurm_node": slurm_node}
