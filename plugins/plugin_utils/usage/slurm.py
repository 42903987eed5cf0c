# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What jobs of Slurm held of GPUs: what to ask its accounting, and what it answers. No I/O happens here.

Slurm's records of jobs outlive people: those of an association that was deleted are read, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import counted, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ansible_collections.gpulab.node.plugins.plugin_utils.usage.month import Month

SECONDS = 300  # that Slurm has to answer in
BETWEEN = "\x1f"  # no name holds it
FIELDS = ("JobIDRaw", "User", "UID", "Account", "Start", "End", "State", "AllocTRES", "NodeList")
MOST_NODES = 10_000  # of one job
_PLACES = re.compile(r"(?:[^,\[]|\[[^\]]*\])+")
_RANGES = re.compile(r"([^\[]*)\[([^\]]*)\](.*)")


class Unknown(Exception):  # noqa: N818 - it is no error: a source that does not say what was held
    """Why a controller does not say what jobs held, in a few words."""


@dataclass(frozen=True)
class Job:
    """A job that held GPUs, in seconds since 1970; end is None while it runs. A requeued job is several."""

    number: str
    user: str
    account: str
    start: int
    end: int | None
    gpus: int
    nodes: tuple[str, ...]

    def hours(self, month: Month) -> float:
        """Return the GPU hours that it held within a month."""
        begin, end = max(self.start, month.start), min(month.until if self.end is None else self.end, month.until)
        return self.gpus * max(0, end - begin) / 3600


def questions(month: Month) -> dict[str, list[str]]:
    """Return the commands that a controller is asked by, in UTC, with times in seconds since 1970."""
    first, last = (
        f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%dT%H:%M:%S}" for seconds in (month.start, month.until)
    )
    window = [f"--starttime={first}", f"--endtime={last}", f"--format={','.join(FIELDS)}"]
    listed = ["--allusers", "--duplicates", "--allocations", "--noheader", "--parsable2", f"--delimiter={BETWEEN}"]
    commands = {
        "config": ["scontrol", "show", "config"],
        "jobs": ["sacct", *listed, *window],
        "running": ["squeue", "--noheader", "--states=all", "--format=%A"],  # last: what began meanwhile is not lost
    }
    return {name: ["timeout", str(SECONDS), *command] for name, command in commands.items()}


def jobs(answers: Mapping[str, Mapping[str, object]]) -> tuple[list[Job], list[str]]:
    """Return the jobs of a controller that held GPUs, and what is to be said of its answers, a sentence each.

    answers are {"rc", "stdout", "stderr"} by the names of questions. A job that the accounting takes for running and
    the controller does not know is lost ("runaway"): nobody knows its end, so it is left out, and told. Raises Unknown.
    """
    accounting = _setting(_output(answers, "config"), "AccountingStorageType")
    if not accounting.endswith("slurmdbd"):
        msg = "Slurm keeps no accounting there (slurm_accounting)"
        raise Unknown(msg)
    if "gres/gpu" not in _setting(_output(answers, "config"), "AccountingStorageTRES"):
        msg = "Slurm's accounting counts no GPUs there (AccountingStorageTRES)"
        raise Unknown(msg)
    lines = _output(answers, "jobs").splitlines()
    known = {*_output(answers, "running").split()}
    records = [record for line in lines if len(record := line.split(BETWEEN)) == len(FIELDS)]
    found = [job for record in records for job in _job(dict(zip(FIELDS, record)))]
    lost = [job for job in found if job.end is None and job.number not in known]
    told = (
        [f"{counted(len(lines) - len(records), 'line')} of sacct could not be read"]
        if len(records) < len(lines)
        else []
    )
    told += (
        [f"{counted(len(lost), 'job')} without an end that Slurm does not run left out (sacctmgr show runawayjobs)"]
        if lost
        else []
    )
    return [job for job in found if job not in lost], told


def _setting(config: str, name: str) -> str:
    found = re.search(rf"^{name}\s*= (.*)$", config, re.MULTILINE)
    return found[1].strip() if found else ""


def _output(answers: Mapping[str, Mapping[str, object]], name: str) -> str:
    answer = answers.get(name, {})
    if answer.get("rc") != 0:
        why = str(answer.get("stderr") or answer.get("msg") or "it could not be reached").strip()
        msg = f"no answer ({one_line(why.splitlines()[0])[:200]})"
        raise Unknown(msg)
    return str(answer["stdout"])


def _job(record: Mapping[str, str]) -> Iterator[Job]:
    """Yield a job that held GPUs; one that never began, or held none, is none."""
    gpus = _gpus(record["AllocTRES"])
    if gpus and record["Start"].isdigit():
        yield Job(
            number=record["JobIDRaw"],
            user=record["User"] or f"uid {record['UID']}",
            account=record["Account"],
            start=int(record["Start"]),
            end=int(record["End"]) if record["End"].isdigit() else None,
            gpus=gpus,
            nodes=tuple(expanded(record["NodeList"])),
        )


def _gpus(allocated: str) -> int:
    """Return the GPUs of "cpu=2,gres/gpu=2,gres/gpu:a100=2": those in all, or else the sum of those by type."""
    whole = re.search(r"(?:^|,)gres/gpu=(\d+)", allocated)
    return int(whole[1]) if whole else sum(map(int, re.findall(r"(?:^|,)gres/gpu:[^=,]+=(\d+)", allocated)))


def expanded(text: str) -> list[str]:
    """Return the nodes of Slurm's list, such as "head,gpu[01-03,7]"."""
    return [name for place in _PLACES.findall(text) for name in _nodes(place)][:MOST_NODES]


def _nodes(place: str) -> Sequence[str]:
    found = _RANGES.fullmatch(place)
    if not found:
        return [place]
    numbers: list[str] = []
    for part in found[2].split(","):
        first, _dash, last = part.partition("-")
        if not (first.isdigit() and (last or first).isdigit()):
            return [place]
        end = min(int(last or first), int(first) + MOST_NODES)
        numbers += [f"{number:0{len(first)}d}" for number in range(int(first), end + 1)]
    return [f"{found[1]}{number}{rest}" for number in numbers for rest in _nodes(found[3])]
