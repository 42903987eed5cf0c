# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The jobs that people who leave have in Slurm, where those that wait would start for an expired account, too."""

from __future__ import annotations

import shutil
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.gpulab.node.plugins.module_utils.core.node import Job

if TYPE_CHECKING:
    from collections.abc import Iterable

CLIENT, PENDING = "squeue", "PENDING"
_FIELDS = 3
_SECONDS = 20.0  # for a controller at work; one that is down may let its client wait for minutes


class SlurmJobs(NamedTuple):
    """How many jobs of a person wait, and the numbers of the others, which run or end."""

    waiting: int
    others: tuple[str, ...]


def look(names: Iterable[str]) -> dict[str, SlurmJobs] | None:
    """Return the jobs of these accounts, by name; none where Slurm's client is not here, None where nobody answers."""
    users = ",".join(sorted(names))
    if not users or not shutil.which(CLIENT):
        return {}
    answer = Job([CLIENT, "--noheader", f"--user={users}", "--format=%A %u %T"], _SECONDS).result()
    return parse(answer[1]) if answer and not answer[0] else None


def parse(output: str) -> dict[str, SlurmJobs]:
    """Return the jobs in what squeue printed: number, user and state in a line each; other lines are warnings."""
    states: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for words in map(str.split, output.splitlines()):
        if len(words) == _FIELDS and words[0].isdecimal():
            states[words[1]].append((words[0], words[2]))
    return {
        user: SlurmJobs(
            sum(state == PENDING for _number, state in jobs),
            tuple(dict.fromkeys(number for number, state in jobs if state != PENDING)),
        )
        for user, jobs in states.items()
    }


def cancel(name: str) -> None:
    """Cancel what waits of a person; the next look tells whether that is done. What runs goes on."""
    Job(["scancel", f"--state={PENDING}", f"--user={name}"], _SECONDS).result()
