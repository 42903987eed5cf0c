# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One job as squeue lists it, and how it is put back into the queue once it has ended. No I/O happens here.

scontrol requeue ends a job that runs, and takes the number of an array for all of its tasks: so a task is always named
as one. Slurm 24.11 puts back what ended within MinJobAge, keeps its comment and the nodes that it excludes, counts that
as a restart, and starts it two minutes later at the earliest. Not an ended job, but a waiting one takes a list of nodes
to exclude.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.gpulab.node.plugins.module_utils.slurm import attempts

COLUMNS = {
    "JobID": 20, "ArrayJobID": 20, "ArrayTaskID": 40, "HetJobID": 20, "State": 20, "RestartCnt": 12, "StartTime": 24,
    "BatchFlag": 12, "Requeue": 12, "Partition": 400, "NumNodes": 12, "ReqNodes": 2000, "Reason": 80,
}  # fmt: skip
LONGEST = 256  # characters of a comment
_TASK = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True)
class Job:
    """A job as it is now. name is what scontrol calls it: 7, or 10_3 for a task of an array.

    many tells whether it has several parts (a heterogeneous job); requeue whether its owner lets Slurm put it back;
    count is how many nodes it has or wants, required and excluded are the nodes that it asks for or does not take.
    """

    number: int
    name: str
    state: str
    restarts: int
    start: float
    batch: bool
    many: bool
    requeue: bool
    partitions: tuple[str, ...]
    count: int
    required: tuple[str, ...]
    excluded: tuple[str, ...]
    reason: str

    @property
    def key(self) -> str:
        """Return what this attempt is called, as Attempt does."""
        return attempts.key(self.number, self.restarts, self.start)

    @property
    def held(self) -> bool:
        """Tell whether it waits until somebody releases it."""
        return self.state == "SPECIAL_EXIT" or "held" in self.reason.lower()


def _squeue(job: int | str, form: str) -> tuple[str, ...]:
    return ("squeue", "--states=all", "--noheader", f"--jobs={job}", form)


def show(job: int) -> tuple[str, ...]:
    """Return the command that lists a job, by the number that squeue calls JobID."""
    return _squeue(job, "--Format=" + ",".join(f"{name}:{size}" for name, size in COLUMNS.items()))


def show_comment(name: str) -> tuple[str, ...]:
    """Return the command that prints the comment of a job, which its owner chose, and nothing else."""
    return _squeue(name, f"--Format=Comment:{LONGEST}")


def show_excluded(name: str) -> tuple[str, ...]:
    """Return the command that prints the nodes that a job excludes; of 22.05, --Format does not know them."""
    return _squeue(name, "--format=%x")


def requeue(name: str) -> tuple[str, ...]:
    """Return the command that puts a job back into the queue."""
    return ("scontrol", "requeue", name)


def exclude(name: str, nodes: list[str]) -> tuple[str, ...]:
    """Return the command that keeps a waiting job away from these nodes, and from no others."""
    return ("scontrol", "update", f"jobid={name}", f"ExcNodeList={','.join(nodes)}")


def release(name: str) -> str:
    """Return the command, for people, that lets a held job start."""
    return f"scontrol release {name}"


def parse(text: str, job: int) -> Job | None:
    """Return the job with this number in the output of show; None where it is not there, or has several tasks."""
    for line in text.splitlines():
        fields = attempts.fields(line, COLUMNS)
        if fields["JobID"] == str(job):
            return _job(fields)
    return None


def _job(fields: dict[str, str]) -> Job | None:
    array, task = fields["ArrayJobID"], fields["ArrayTaskID"]
    name = fields["JobID"]
    if task not in ("", "N/A"):
        if not (_TASK.fullmatch(task) and _TASK.fullmatch(array)):
            return None
        name = f"{array}_{task}"
    return Job(
        number=int(fields["JobID"]),
        name=name,
        state=fields["State"],
        restarts=attempts.number(fields["RestartCnt"]),
        start=attempts.seconds(fields["StartTime"]),
        batch=fields["BatchFlag"] == "1",
        many=attempts.number(fields["HetJobID"]) > 0,
        requeue=fields["Requeue"] == "1",
        partitions=tuple(fields["Partition"].split(",")),
        count=attempts.number(fields["NumNodes"]),
        required=names(fields["ReqNodes"]),
        excluded=(),
        reason=fields["Reason"],
    )


def names(listed: str) -> tuple[str, ...]:
    """Return the nodes in what squeue prints of one job."""
    return () if listed.strip() in ("", "(null)", "N/A") else tuple(attempts.hosts(listed.strip()))
