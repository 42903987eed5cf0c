# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What scontrol and squeue say of a node, and how gpulab asks Slurm to keep jobs from it. No I/O happens here.

The text form is read, because 22.05 prints JSON only with a plugin. See https://slurm.schedmd.com/scontrol.html.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SHOW_NODES = ("scontrol", "--oneliner", "show", "nodes")
NOTEBOOK = "gpulab-jupyter"  # the name of JupyterHub's jobs
OURS = "gpulab "  # how each reason of gpulab begins; the run follows, and a colon
# A value may hold spaces (OS, Reason): it ends where the next name begins.
_FIELD = re.compile(r"(?:^|\s)([A-Za-z]\w*)=(.*?)(?=\s+[A-Za-z]\w*=|\s*$)")
_REASON = re.compile(r"\sReason=(.*?)(?: \[(\S+)@(\S+)\])?\s*(?:\sComment=.*)?$")
_BUILD = ("CPUTot", "RealMemory", "ActiveFeatures", "Gres")
_USABLE = frozenset({"IDLE", "MIXED", "ALLOCATED", "COMPLETING", "PLANNED"})
_FLAGS = re.compile(r"[*~#!%$@^-]+\Z")


@dataclass(frozen=True)
class NodeState:
    """A node as slurmctld sees it. states: its base state and its flags, such as IDLE and DRAIN, in capitals.

    reason is empty where there is none; since is when it was set, in the controller's local time. Nodes with the same
    build have as many processors, as much memory, the same features and GPUs.
    """

    name: str
    host: str
    states: tuple[str, ...]
    reason: str = ""
    reason_by: str = ""
    reason_since: str = ""
    version: str = ""
    gres: str = ""
    partitions: tuple[str, ...] = ()
    build: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        """Tell whether Slurm would start a job there, now or once others have ended."""
        return _USABLE.issuperset(self.states)

    @property
    def drained(self) -> bool:
        """Tell whether Slurm starts no job there any more; jobs may still run."""
        return "DRAIN" in self.states


@dataclass(frozen=True)
class SlurmJob:
    """A job that is on a node; state as squeue names it, such as RUNNING or COMPLETING.

    end is when its time is over, in the node's local time, or a word where Slurm knows none.
    """

    number: str
    user: str
    state: str
    end: str
    name: str

    def told(self) -> str:
        """Say what it is, whose, and until when at the latest."""
        until = f", until {self.end.replace('T', ' ')} at the latest" if self.end[:1].isdigit() else ""
        state = f"{self.state.lower()}{until}"
        if self.name == NOTEBOOK:
            return f"the notebook of {self.user} (job {self.number}, {state})"
        return f"job {self.number} of {self.user} ({state})"


def nodes(text: str) -> list[NodeState]:
    """Parse the output of SHOW_NODES, one node a line."""
    return [_node(line) for line in text.splitlines() if line.startswith("NodeName=")]


def _node(line: str) -> NodeState:
    reason = _REASON.search(line)
    fields = dict(_FIELD.findall(line[: reason.start()] if reason else line))
    name = str(fields["NodeName"])
    return NodeState(
        name=name,
        host=str(fields.get("NodeHostName", name)),
        states=tuple(_FLAGS.sub("", state) for state in fields.get("State", "").upper().split("+")),
        reason=reason[1] if reason else "",
        reason_by=(reason[2] or "") if reason else "",
        reason_since=(reason[3] or "") if reason else "",
        version=fields.get("Version", ""),
        gres=fields.get("Gres", ""),
        partitions=tuple(fields.get("Partitions", "").split(",")),
        build=tuple(fields.get(name, "") for name in _BUILD),
    )


def own(found: list[NodeState], hostname: str) -> NodeState | None:
    """Return the node that a machine of this name is; None where Slurm does not know it.

    A node of this name comes before one that only says that it runs on a host of this name.
    """
    names = {hostname, hostname.partition(".")[0]}
    named = (node for node in found if node.name in names)
    return next(named, None) or next((node for node in found if node.host in names), None)


def gpus(gres: str) -> int:
    """Count the GPUs in a node's Gres: 3 in "gpu:a100:2(S:0),gpu:t4:1"; one without a number counts as one."""
    found = re.findall(r"(?:^|,)gpu(?::[^:,()]*[^:,()\d][^:,()]*)?(?::(\d+))?(?:\([^)]*\))?(?=,|$)", gres)
    return sum(int(number or 1) for number in found)


def show_jobs(name: str) -> list[str]:
    """Return the command that lists the jobs on a node."""
    return ["squeue", "--noheader", f"--nodelist={name}", "--format=%A %u %T %e %j"]


def jobs(text: str) -> list[SlurmJob]:
    """Parse the output of show_jobs."""
    found = (line.split(" ", 4) for line in text.splitlines())
    return [SlurmJob(*parts) for parts in found if len(parts) == 5]  # noqa: PLR2004 - its fields


def reason(run: str, why: str) -> str:
    """Return gpulab's reason for a drain, in one line without double quotes, which scontrol takes off."""
    return f"{OURS}{run}: {' '.join(why.split())}".replace('"', "'")


def is_ours(node: NodeState, run: str) -> bool:
    """Tell whether the reason of a node is this run's."""
    return node.reason.startswith(f"{OURS}{run}:")


def drain(name: str, why: str) -> list[str]:
    """Return the command after which no further job starts on a node; running jobs go on. why: see reason."""
    return ["scontrol", "update", f"nodename={name}", "state=drain", f"reason={why}"]


def resume(name: str) -> list[str]:
    """Return the command that takes a drain back; the node is then what it would be without it."""
    return ["scontrol", "update", f"nodename={name}", "state=resume"]
