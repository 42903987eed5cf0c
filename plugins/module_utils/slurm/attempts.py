# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What squeue says of the attempts of jobs, those that run and those that have just ended. No I/O happens here.

Only what people cannot choose is read: scontrol prints names of jobs between other fields, and a name may look like
one. See https://slurm.schedmd.com/squeue.html; ended jobs are listed for MinJobAge, 300 seconds by default.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_COLUMNS = {
    "JobID": 20, "ArrayJobID": 20, "State": 20, "UserID": 12, "BatchFlag": 12, "RestartCnt": 12, "StartTime": 24,
    "EndTime": 24, "exit_code": 12, "DerivedEC": 12, "NodeList": 2000,
}  # fmt: skip
SHOW = (
    "squeue",
    "--states=all",
    "--noheader",
    "--Format=" + ",".join(f"{name}:{size}" for name, size in _COLUMNS.items()),
)
ON_NODES = ("RUNNING", "SUSPENDED", "STOPPED", "COMPLETING")


@dataclass(frozen=True)
class Attempt:
    """One run of a job. A job that is requeued keeps its number, and a Slurm that lost its state gives numbers again.

    start and end are seconds since 1970, 0 where there is none; of one that runs, end is when its time is over. code
    and signal are those of its script, worst is the signal of its worst step. array is the job itself where there is
    none.
    """

    job: int
    array: int
    state: str
    uid: int
    batch: bool
    restarts: int
    start: float
    end: float
    code: int
    signal: int
    worst: int
    nodes: list[str]

    @property
    def key(self) -> str:
        """Return what no other attempt is called."""
        return key(self.job, self.restarts, self.start)


def key(job: int, restarts: int, start: float) -> str:
    """Return what an attempt is called: a job keeps its number, and numbers come again."""
    return f"{job}.{restarts}.{start:.0f}"


def parse(text: str) -> list[Attempt]:
    """Parse the output of SHOW; lines that are none are left out."""
    return [attempt for line in text.splitlines() if (attempt := _attempt(line))]


def fields(line: str, columns: Mapping[str, int]) -> dict[str, str]:
    """Return the fields of a line, by what squeue calls them; columns are their widths in characters."""
    found, at = {}, 0
    for name, size in columns.items():
        found[name] = line[at : at + size].strip()
        at += size
    return found


def _attempt(line: str) -> Attempt | None:
    found = fields(line, _COLUMNS)
    if not (found["JobID"].isdigit() and found["UserID"].isdigit()):
        return None
    code, signal = _pair(found["exit_code"])
    return Attempt(
        job=int(found["JobID"]),
        array=number(found["ArrayJobID"]) or int(found["JobID"]),
        state=found["State"],
        uid=int(found["UserID"]),
        batch=found["BatchFlag"] == "1",
        restarts=number(found["RestartCnt"]),
        start=seconds(found["StartTime"]),
        end=seconds(found["EndTime"]),
        code=code,
        signal=signal,
        worst=_pair(found["DerivedEC"])[1],
        nodes=hosts(found["NodeList"]),
    )


def number(text: str) -> int:
    """Return a number of squeue's; 0 where there is none."""
    return int(text) if text.isdigit() else 0


def _pair(text: str) -> tuple[int, int]:
    """Return exit status and signal; Slurm 22.05 gives what wait(2) does, later ones both with a colon."""
    code, colon, signal = text.partition(":")
    if not colon:
        return number(code) >> 8, number(code) & 0x7F
    return number(code), number(signal)


def seconds(text: str) -> float:
    """Return a time of Slurm's, which is the controller's local one."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return 0.0


def hosts(listed: str) -> list[str]:
    """Return the names in a list of nodes, such as "head,gpu[01-03,7]"."""
    found = []
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", listed):
        names = [""]
        for text, ranges in re.findall(r"([^\[\]]+)|\[([^\]]*)\]", part):
            names = [f"{name}{more}" for name in names for more in (_numbers(ranges) if ranges else [text])]
        found += names
    return found


def _numbers(ranges: str) -> list[str]:
    found = []
    for part in ranges.split(","):
        first, _dash, last = part.partition("-")
        if not (first.isdigit() and (last or first).isdigit()):
            return [f"[{ranges}]"]
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last or first) + 1)]
    return found
