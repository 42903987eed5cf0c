# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a cluster of Slurm, from the facts of its nodes. No I/O happens here.

The controller alone has the files; its nodes ask it for them (https://slurm.schedmd.com/configless_slurm.html). A node
that is not part of a run keeps its lines: each ends with a comment that holds its name in the inventory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.host_name import HostName, is_host_name
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals import node as nodes
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.slurm import refuse
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import one_line
from ansible_collections.gpulab.node.plugins.module_utils.slurm import reservations

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

CONFIGURATION, GRES, CGROUP = "/etc/slurm/slurm.conf", "/etc/slurm/gres.conf", "/etc/slurm/cgroup.conf"
LIBRARY = "/usr/local/lib/gpulab-slurm"  # of the programs that nodes have
ALL = "gpu"  # the partition of all nodes
INTERACTIVE = "interactive"  # the partition for shells and notebooks
QOS, QOS_INTERACTIVE = (
    "gpulab",
    "gpulab-interactive",
)  # what limits the GPUs of a person, in all partitions and in that one
RESERVED = ("ALL", "DEFAULT")  # what stands for other nodes in slurm.conf
LINE = re.compile(r"^NodeName=(\S+) .*# (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Node:
    """A node of the cluster, and its lines in slurm.conf and gres.conf. cpus and memory_mib are what jobs may use."""

    name: str
    hostname: str
    line: str
    gres: tuple[str, ...]


@dataclass(frozen=True)
class SlurmCluster:
    """What the files say beside the nodes: its name, and hostname and address of its controller.

    types are the host types of the inventory that have a partition of their own. time is what a job has that asks for
    none, limit the most that one may ask for; empty is without end. With accounts, only who has an account may submit
    jobs. gpus_per_user are the most that a person may use at a time, interactive is {"gpus", "time"} of a partition
    for shells, private hides people's jobs from each other, reservations are what slurm_reservations says.
    """

    name: str
    controller: str
    address: str
    accounting: bool = False
    types: Sequence[str] = ()
    further: Mapping[str, Any] = field(default_factory=dict)
    time: str = ""
    limit: str = ""
    accounts: bool = False
    gpus_per_user: int | None = None
    interactive: Mapping[str, Any] = field(default_factory=dict)
    private: bool = False
    reservations: Sequence[Mapping[str, Any]] = ()

    def partition(self, name: str, nodes: str, more: str = "") -> str:
        """Return the line of a partition."""
        time = f" DefaultTime={self.time}" if self.time else ""
        return f"PartitionName={name} Nodes={nodes}{more}{time} MaxTime={self.limit or 'INFINITE'} State=UP"

    def lacking(self) -> Iterator[tuple[str, str]]:
        """Yield each setting that holds nothing without another one: its name, and what it needs."""
        if self.accounts and not self.accounting:
            yield "slurm_accounts", "slurm_accounting: true"
        if self.gpus_per_user is not None and not self.accounts:
            yield "slurm_gpus_per_user", "slurm_accounts: true"
        if self.interactive and not self.accounts:
            yield "slurm_interactive", "slurm_accounts: true"
        yield from reservations.problems(self.reservations, accounts=self.accounts)


def check(host: str, cluster: SlurmCluster, *, join: bool) -> None:
    """Raise Refusal F050 where a setting would hold nothing; a cluster of somebody else's has accounts of its own."""
    lacking = [f"{setting} needs {needed}" for setting, needed in cluster.lacking()]
    if join:
        about = {"slurm_accounts": cluster.accounts, "slurm_private": cluster.private}
        lacking = [f"{setting} needs a cluster of gpulab's own" for setting, is_set in about.items() if is_set]
    if lacking:
        raise refuse("F050", host=host, lacking="; ".join(lacking))


def topology(cpuinfo: str) -> tuple[int, int, int] | None:
    """Return (sockets, cores of each, threads of each) from /proc/cpuinfo; None where it does not add up."""
    found = {
        name: {int(value) for value in re.findall(rf"^{name}\s*: (\d+)$", cpuinfo, re.MULTILINE)}
        for name in ("physical id", "cpu cores", "siblings")
    }
    if len(found["cpu cores"]) != 1 or len(found["siblings"]) != 1:
        return None
    (cores,), (siblings,) = found["cpu cores"], found["siblings"]
    sockets, threads = len(found["physical id"]), siblings // max(cores, 1)
    whole = sockets * cores * threads == len(re.findall(r"^processor\s*:", cpuinfo, re.MULTILINE))
    return (sockets, cores, threads) if whole and threads else None


def kind(name: str) -> str:
    """Return a GPU's type for --gres=gpu:TYPE, from NVML's name: "a100-pcie-40gb", "rtx-4090"."""
    short = re.sub(r"\b(NVIDIA|GeForce|Tesla|Quadro)\b", "", name, flags=re.IGNORECASE)
    return re.sub(r"[^a-z0-9]+", "-", short.lower()).strip("-") or "gpu"


def node(  # noqa: PLR0913, PLR0917 - all that its lines are made of
    names: Sequence[HostName],
    name: str,
    facts: Mapping[str, Any],
    cpuinfo: str,
    address: str | None,
    types: Sequence[str],
    reserve: int,
) -> Node:
    """Return a node from its facts. name is the inventory's, reserve the percentage of memory that no job gets.

    names are those by which the inventory knows it. slurmd asks for the node that is called as the host calls itself
    (slurm.conf(5), NodeName), so one that calls itself otherwise cannot be named. Raises Refusal F033 where the driver
    does not list every GPU, F034 where one is cut by MIG, F045 and F046 where it has no name that Slurm can know it by.
    """
    gpus = facts["nvml"]["gpus"] if facts["nvml"]["state"] == "ok" else []
    there = [gpu for gpu in gpus if isinstance(gpu.get("minor"), int)]
    expected = len(facts["pci"]["gpus"])
    if len(there) != expected:
        raise refuse("F033", host=name, found=len(there), expected=expected)
    if any((gpu.get("mig") or {}).get("enabled") is True for gpu in there):
        raise refuse("F034", host=name)
    there = sorted(there, key=lambda gpu: int(gpu["minor"]))
    hostname = _node_name(name, facts["system"]["hostname"], names)
    kinds = [kind(gpu["name"]) for gpu in there]
    counted = ",".join(f"gpu:{one}:{kinds.count(one)}" for one in dict.fromkeys(kinds))
    parts = [
        f"NodeName={hostname}",
        f"NodeAddr={address}" if address else "",
        _cpus(cpuinfo, facts["system"]["cpu_cores"]),
        f"RealMemory={facts['system']['memory_mib'] * (100 - reserve) // 100}",
        f"Gres={counted}" if counted else "",
        f"Feature={','.join(types)}" if types else "",
        f"# {name}",
    ]
    joined = {frozenset(pair["gpus"]) for pair in facts["nvml"]["peers"] if pair["nvlink"] == "ok"}
    gres = (
        f"NodeName={hostname} AutoDetect=off Name=gpu Type={kind(gpu['name'])} File=/dev/nvidia{gpu['minor']}"
        f"{_links(gpu, there, joined)} # {name}"
        for gpu in there
    )
    return Node(name, hostname, " ".join(filter(None, parts)), tuple(gres))


def _cpus(cpuinfo: str, cores: int) -> str:
    known = topology(cpuinfo)
    return "Sockets={} CoresPerSocket={} ThreadsPerCore={}".format(*known) if known else f"CPUs={cores}"


def _links(gpu: Mapping[str, Any], there: Sequence[Mapping[str, Any]], joined: Collection[frozenset[int]]) -> str:
    """Return which of the GPUs one is joined with by NVLink; empty where it is with none."""
    links = [-1 if other is gpu else int(frozenset((gpu["index"], other["index"])) in joined) for other in there]
    return f" Links={','.join(map(str, links))}" if any(link > 0 for link in links) else ""


def _node_name(host: str, told: str, names: Sequence[HostName]) -> str:
    """Return what slurmd takes for its name. Raises Refusal F045, F046, H226."""
    if not is_host_name(told):
        raise nodes.refuse("H226", host=host, what=f"its hostname is {one_line(told)}")
    short = HostName(told).short
    if short.upper() in RESERVED:
        raise refuse("F046", host=host, hostname=short)
    if short.lower() not in {one.lower() for one in names}:
        raise refuse("F045", host=host, hostname=short, name=names[0].short if names else "NAME")
    return str(short)


def merged(nodes: Sequence[Node], former: str, former_gres: str, members: Collection[str]) -> list[Node]:
    """Return these nodes and those that files of an earlier run name, as far as they are members, by hostname.

    Raises Refusal F039 where two of them have one hostname.
    """
    ours = {one.name for one in nodes}
    kept = [
        Node(
            name=found[2],
            hostname=found[1],
            line=found[0],
            gres=tuple(one[0] for one in LINE.finditer(former_gres) if one[2] == found[2]),
        )
        for found in LINE.finditer(former)
        if found[2] in members and found[2] not in ours and is_host_name(found[1])
    ]
    found_hosts: dict[str, str] = {}
    for one in sorted([*nodes, *kept], key=lambda node: node.hostname):
        other = found_hosts.setdefault(one.hostname.lower(), one.name)
        if other != one.name:
            raise refuse("F039", host=one.name, other=other, hostname=one.hostname)
    return sorted([*nodes, *kept], key=lambda node: node.hostname)


def _number(line: str, name: str) -> int:
    found = re.search(rf"\b{name}=(\d+)", line)
    return int(found[1]) if found else 1


def _memory_of_a_cpu(nodes: Sequence[Node]) -> int:
    """Return MiB: what a job gets with each CPU where it asks for none. Without it, one job would take all."""
    shares = []
    for one in nodes:
        threads = (
            _number(one.line, "Sockets") * _number(one.line, "CoresPerSocket") * _number(one.line, "ThreadsPerCore")
        )
        shares.append(_number(one.line, "RealMemory") // max(threads, _number(one.line, "CPUs")))
    return max(min(shares, default=1), 1)


def _partitions(nodes: Sequence[Node], cluster: SlurmCluster) -> list[str]:
    if not nodes:
        return []
    features = {name for one in nodes for name in re.findall(r" Feature=(\S+)", one.line)[:1]}
    used = [one for one in cluster.types if any(one in found.split(",") for found in features)]
    qos = f" QOS={QOS}" if cluster.accounts else ""
    return [
        *(f"NodeSet={one} Feature={one}" for one in used),
        cluster.partition(ALL, "ALL", f" Default=YES{qos}"),
        *(cluster.partition(one, one, qos) for one in used),
        *_interactive(cluster),
    ]


def _interactive(cluster: SlurmCluster) -> Iterator[str]:
    """Yield the partition for shells and notebooks: its jobs come first, and end none of the others."""
    if cluster.interactive:
        time = str(cluster.interactive["time"])
        short = replace(cluster, time=time, limit=time)
        yield short.partition(INTERACTIVE, "ALL", f" QOS={QOS_INTERACTIVE} PriorityTier=10")


def _of_people(cluster: SlurmCluster) -> dict[str, str]:
    """Return the settings about who may use what, by name. None of them ends a job."""
    settings: dict[str, str] = {}
    if cluster.accounting:
        settings |= {
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "AccountingStorageHost": cluster.address,
            "AccountingStorageTRES": "gres/gpu",
        }
    if cluster.accounts:
        settings |= {
            "AccountingStorageEnforce": "associations,limits,qos",
            "EnforcePartLimits": "ALL",
            "PriorityType": "priority/multifactor",
            "PriorityWeightFairshare": "10000",
            "PriorityWeightAge": "1000",
        }
    if cluster.private:
        settings["PrivateData"] = "jobs,usage"
    return settings


def texts(cluster: SlurmCluster, nodes: Sequence[Node]) -> dict[str, str]:
    """Return the contents of the files of a cluster that is gpulab's own, by path."""
    settings = {
        "ClusterName": cluster.name,
        "SlurmctldHost": f"{cluster.controller}({cluster.address})",
        "SlurmctldParameters": "enable_configless",
        "SlurmUser": "slurm",
        "AuthType": "auth/munge",
        "StateSaveLocation": "/var/lib/slurm/slurmctld",
        "SlurmdSpoolDir": "/var/spool/slurmd",
        "ReturnToService": "1",
        "MpiDefault": "none",
        "GresTypes": "gpu",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core_Memory",
        "DefMemPerCPU": str(_memory_of_a_cpu(nodes)),
        "ProctrackType": "proctrack/cgroup",
        "TaskPlugin": "task/cgroup,task/affinity",
        "JobAcctGatherType": "jobacct_gather/cgroup",
        "PrologFlags": "Alloc,Contain",
        "Prolog": f"{LIBRARY}/prolog.py",
        "Epilog": f"{LIBRARY}/epilog.py",
        "SchedulerParameters": "nohold_on_prolog_fail",  # the job waits for another node, and for nobody to release it
        "PrologEpilogTimeout": "60",
        "HealthCheckProgram": f"{LIBRARY}/health.py",
        "HealthCheckInterval": "300",
        "HealthCheckNodeState": "ANY,CYCLE",
        **_of_people(cluster),
        **{str(name): str(value) for name, value in cluster.further.items()},
    }
    lines = [f"{name}={value}" for name, value in settings.items()]
    lines += [one.line for one in nodes] + _partitions(nodes, cluster)
    return {
        CONFIGURATION: "\n".join(lines),
        GRES: "\n".join(line for one in nodes for line in one.gres) or "# no GPU",
        CGROUP: "ConstrainDevices=yes\nConstrainCores=yes\nConstrainRAMSpace=yes",
    }
