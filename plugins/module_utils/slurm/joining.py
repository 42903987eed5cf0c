# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab's nodes in a cluster of somebody else's: files beside theirs, and what is judged before. No I/O happens here.

Their slurm.conf includes gpulab's file at its end, so its lines get what theirs give by DEFAULT. What that says of a
machine, gpulab's lines say otherwise; what is a matter of how the cluster is run stays, and is told.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import owned_block
from ansible_collections.gpulab.node.plugins.module_utils.core.owned_files import is_own
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.slurm import refuse
from ansible_collections.gpulab.node.plugins.module_utils.slurm import cluster, configuration, control

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ansible_collections.gpulab.node.plugins.module_utils.slurm.configuration import Configuration

# Slurm gives nodes only what lies beside its own files.
JOINED, JOINED_GRES = "/etc/slurm/gpulab.conf", "/etc/slurm/gpulab-gres.conf"
PARTITION = "gpulab"
OWNER = "slurm"  # the role that keeps the block by which they are included
# As slurm.conf(5) writes what gpulab's lines hold.
_WRITTEN: tuple[str, ...] = ("NodeName", "NodeAddr", "Boards", "SocketsPerBoard", "Sockets", "CoresPerSocket")
_WRITTEN += ("ThreadsPerCore", "CPUs", "RealMemory", "TmpDisk", "Gres", "Feature", "State")
_TOPOLOGY = ("boards", "sockets", "socketsperboard", "corespersocket", "threadspercore", "cpus", "procs")
# What gpulab's lines always say, or say where DEFAULT does. A reason without a state says nothing.
_OF_NODES = {*map(str.lower, _WRITTEN), "procs", "reason", "features"}
_OF_PARTITIONS = {"nodes", "defaulttime", "maxtime", "state", "default"}


def theirs_of(texts: Mapping[str, str]) -> Configuration | None:
    """Return what the slurm.conf among these texts says, by path; None where there is none or it is gpulab's own."""
    text = owned_block.outside(texts.get(cluster.CONFIGURATION, ""), OWNER)
    return configuration.read(text, texts) if text.strip() and not is_own(text) else None


def check(host: str, theirs: Configuration | None, *, join: bool) -> None:
    """Judge a slurm.conf of somebody else's.

    Raises Refusal F030 where it shall not be joined, F031 where it lacks what gpulab's nodes need, and F047 where it
    has a partition of the name that gpulab's has.
    """
    if theirs is None:
        return
    if not join:
        raise refuse("F030", host=host, path=cluster.CONFIGURATION)
    needed = (
        ("GresTypes=gpu", theirs.has("GresTypes", "gpu")),
        ("SlurmctldParameters=enable_configless", theirs.has("SlurmctldParameters", "enable_configless")),
        ("AuthType=auth/munge", theirs.settings.get("authtype", "auth/munge").lower() == "auth/munge"),
    )
    missing = [name for name, there in needed if not there]
    if missing:
        raise refuse("F031", host=host, path=cluster.CONFIGURATION, missing=", ".join(missing))
    if PARTITION in theirs.partitions:
        raise refuse("F047", host=host, path=cluster.CONFIGURATION, partition=PARTITION)


def joined(
    about: cluster.SlurmCluster, nodes: Sequence[cluster.Node], shown: str, former: str, theirs: Configuration
) -> dict[str, str]:
    """Return the files that lie beside a slurm.conf of somebody else's, by path: only nodes that its cluster lacks.

    One without a line is empty, and is not to be included. shown is what its controller prints for
    control.SHOW_NODES, former the file of an earlier run, whose nodes are gpulab's. They have a partition of their
    own.
    """
    ours = {found[1] for found in cluster.LINE.finditer(former)}
    known = {name for one in control.nodes(shown) for name in (one.name, one.host)} - ours
    new = [one for one in nodes if one.hostname not in known]
    names = ",".join(one.hostname for one in new)
    default = " Default=NO" if "default" in theirs.partition_defaults else ""
    partition = [about.partition(PARTITION, names, default)] if new else []
    return {
        JOINED: "\n".join([*(line(one.line, theirs.node_defaults) for one in new), *partition]),
        JOINED_GRES: "\n".join(line for one in new for line in one.gres),
    }


def line(text: str, defaults: Mapping[str, str]) -> str:
    """Return a node's line that says of the machine what DEFAULT would say otherwise.

    Slurm takes SocketsPerBoard, CPUs and Boards of DEFAULT, whatever sockets and cores the line itself has.
    """
    said, comment, name = text.partition(" # ")
    found = configuration.pairs(said)
    if not set(_TOPOLOGY).isdisjoint(defaults):
        sockets = found.pop("socketsperboard", None) or found.pop("sockets", None) or found["cpus"]
        by_board = {"boards", "socketsperboard"} & {*defaults}
        found.update({"boards": "1", "socketsperboard": sockets} if by_board else {"sockets": sockets})
        cores = found.setdefault("corespersocket", "1")
        threads = found.setdefault("threadspercore", "1")
        found["cpus"] = str(int(sockets) * int(cores) * int(threads))
    for key, nothing in (("tmpdisk", "0"), ("gres", "gpu:0"), ("state", "UNKNOWN")):
        if key in defaults:
            found.setdefault(key, nothing)
    return " ".join(f"{key}={found[key.lower()]}" for key in _WRITTEN if key.lower() in found) + comment + name


def told(theirs: Configuration) -> Iterator[str]:
    """Yield what gpulab's nodes and their partition get of a cluster that they join, a sentence each."""
    for what, defaults, ours in (
        ("gpulab's nodes get", theirs.node_defaults, _OF_NODES),
        (f"the partition {PARTITION} gets", theirs.partition_defaults, _OF_PARTITIONS),
    ):
        kept = [f"{key}={value}" for key, value in defaults.items() if key not in ours]
        if kept:
            yield f"{what} what slurm.conf gives by DEFAULT: {', '.join(kept)}"
    if features := theirs.node_defaults.get("features", theirs.node_defaults.get("feature")):
        yield f"gpulab's nodes without a host type get the features that slurm.conf gives by DEFAULT: {features}"
    for name, partition in theirs.partitions.items():
        if re.search(r"(^|,)ALL(,|$)", partition.get("nodes", ""), re.IGNORECASE):
            most = ", to which jobs go that name none" if partition.get("default", "").upper() == "YES" else ""
            yield f"gpulab's nodes are in the partition {name} too, which has all nodes{most}"
