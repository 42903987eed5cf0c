# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a controller of Slurm, as a filter over the nodes of its cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.slurm import cluster, joining, versions
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog

if TYPE_CHECKING:
    from collections.abc import Mapping


def slurm_files(  # noqa: PLR0913 - what a filter is given
    members: list[str],
    variables: Mapping[str, Mapping[str, Any]],
    host: str,
    about: Mapping[str, Any],
    former: Mapping[str, str],
    *,
    join: bool = False,
    shown: str = "",
) -> dict[str, Any]:
    """Return {"join", "files", "nodes"}: whether there is a slurm.conf of somebody else's, and contents by path.

    about has the fields of module_utils.slurm.cluster.Cluster but types; former has the texts of the files that are
    there and of those that they include, by path, and shown what a cluster that is joined says of its nodes. nodes are
    the hostnames. Raises AnsibleFilterError with F030, F031, F038, F039, F047 and F050.
    """
    own = variables[host]
    try:
        versions.check_upgrade(host, own["__slurm_now"], own["__slurm_next"])
        theirs = joining.theirs_of(former)
        joining.check(host, theirs, join=join)
        lines = former.get(joining.JOINED if theirs else cluster.CONFIGURATION, "")
        gres = former.get(joining.JOINED_GRES if theirs else cluster.GRES, "")
        found = [variables[name]["__slurm_node"] for name in members if variables[name].get("__slurm_node")]
        nodes = cluster.merged([cluster.Node(**one) for one in found], lines, gres, members)
        types = list(catalog.load().host_types)
        whole = cluster.SlurmCluster(**about, types=types)
        cluster.check(host, whole, join=theirs is not None)
        files = joining.joined(whole, nodes, shown, lines, theirs) if theirs else cluster.texts(whole, nodes)
    except Refusal as refusal:
        raise AnsibleFilterError(str(refusal)) from refusal
    return {"join": theirs is not None, "files": files, "nodes": [one.hostname for one in nodes]}


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"slurm_files": slurm_files}
