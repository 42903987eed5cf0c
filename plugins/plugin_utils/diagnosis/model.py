# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a diagnosis is made of: a case, rules that look at it, and findings with remedies. No I/O happens here."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Callable

from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.shapes import (
    Dump,  # noqa: TC002 - records looks for it
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts
    from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.shapes import (
        Evidence,
        ExaminedProcess,
        GpuAtWork,
        Holding,
    )
    from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog

    Rule = Callable[["Case"], Iterator["Finding"]]

ALL = "all"
MEMORY, HANG, MISMATCH, SLOW, IMPORT, NETWORK = "memory", "hang", "mismatch", "slow", "import", "network"
SYMPTOMS = (MEMORY, HANG, MISMATCH, SLOW, IMPORT, NETWORK)


class Weight(float):
    """A place among the findings that nobody measured: it ranks them, and is not shown."""

    __slots__ = ()


# What a finding costs: the share of the job that does not come about. 1 where nothing runs; else a measured share is a
# plain number, and stands between these.
STOPS, HARMLESS = 1.0, 0.0
MOST, HALF, SOME, LITTLE = Weight(0.8), Weight(0.5), Weight(0.3), Weight(0.1)


@dataclass(frozen=True)
class Asked:
    """What was asked."""

    symptom: str
    pid: int | None
    user: str | None
    error: str | None


@dataclass(frozen=True)
class FindingRecord:
    """One cause, with what was seen of it, a command that cures it, where the rule comes from, and what it costs.

    cost is the measured share of the job that does not come about: 1 where nothing runs, 0 where the finding is
    harmless, None where nobody measured it.
    """

    id: str
    symptom: str
    cause: str
    evidence: list[str]
    remedy: str
    source: str
    cost: float | None


@dataclass(frozen=True)
class Holder:
    """A process that holds memory of a GPU, in MiB; grows in MiB a second."""

    pid: int
    user: str | None
    command: str | None
    container: str | None
    job: str | None
    since: str | None
    memory_mib: int | None
    grows_mib_s: float


@dataclass(frozen=True)
class GpuMemory:
    """Who holds the memory of a GPU, in MiB."""

    index: int
    total_mib: int | None
    used_mib: int | None
    holders: list[Holder]


@dataclass(frozen=True)
class Estimate:
    """The memory that a use of a model takes, in GiB; fits are the GPUs of the node that have it alone."""

    use: str
    gib: float
    formula: str
    fits: list[int]


@dataclass(frozen=True)
class Rank:
    """A rank of a job on the node; job is the address and port at which the ranks meet, stands what it awaits."""

    job: str
    rank: int
    world_size: int
    local_world_size: int
    pid: int
    command: str | None
    stands: str


@dataclass(frozen=True)
class Diagnosis:
    """The diagnosis of one node. late are the parts of the evidence that could not be read in time."""

    schema: int
    host: str
    created: str
    simulated: bool | str
    asked: Asked
    findings: list[FindingRecord]
    memory: list[GpuMemory]
    estimates: list[Estimate]
    ranks: list[Rank]
    dumps: list[Dump]
    late: list[str]


@dataclass(frozen=True)
class Finding:
    """See FindingRecord; cost may be a Weight. symptom, id, source are those of the rule, unless it says otherwise."""

    cause: str
    remedy: str
    cost: float
    evidence: tuple[str, ...] = ()
    id: str = ""
    symptom: str = ""
    source: str = ""


def as_record(finding: Finding) -> FindingRecord:
    """Return a finding as people get it; a cost that nobody measured is left out."""
    record = {one.name: getattr(finding, one.name) for one in fields(FindingRecord)}
    cost = None if isinstance(finding.cost, Weight) else finding.cost
    return FindingRecord(**{**record, "cost": cost, "evidence": list(finding.evidence)})


def _costs(cost: float | None) -> str:
    if cost is None:
        return ""
    return f", costs {cost:.0%}" if cost else ", harmless"


def listed(findings: Iterable[Finding | FindingRecord]) -> list[str]:
    """Return findings in the lines that people read."""
    told: list[str] = []
    for number, one in enumerate(findings, 1):
        told.append(f"{number}. {one.symptom}{_costs(one.cost)}: {one.cause}  [{one.id}]")
        told += [f"     seen: {seen}" for seen in one.evidence]
        told += [f"     do:   {one.remedy}", f"     see:  {one.source}"]
    return told


@dataclass(frozen=True)
class Case:
    """All that a rule may look at: the facts of the node, the evidence, what was asked, and the catalog."""

    facts: Facts
    evidence: Evidence
    asked: Asked
    catalog: Catalog
    parameters: float | None = None
    dtype: str = "bf16"
    optimizer: str = "adamw"

    @cached_property
    def by_pid(self) -> dict[int, ExaminedProcess]:
        """The processes that were looked into."""
        return {record.pid: record for record in self.evidence.processes}

    def process(self, pid: int) -> ExaminedProcess | None:
        """Return what is known of a process."""
        return self.by_pid.get(pid)

    def is_asked(self, record: ExaminedProcess) -> bool:
        """Tell whether a process is one of those that the diagnosis is for; every one where none was named."""
        if self.asked.pid:
            return record.pid in self.job
        return not self.asked.user or record.user == self.asked.user

    @property
    def job(self) -> set[int]:
        """The process asked for, and those of its job."""
        pid = self.asked.pid
        if pid not in self.by_pid:
            return set()
        first = self.by_pid[pid]
        top = first.parent if "LOCAL_RANK" in first.environment and first.parent > 1 else pid
        found = [top]
        for one in found:
            found += [child for child, record in self.by_pid.items() if record.parent == one]
        return set(found) & set(self.by_pid) | {pid}

    @property
    def processes(self) -> list[ExaminedProcess]:
        """The processes that the diagnosis is for."""
        return [record for record in self.by_pid.values() if self.is_asked(record)]

    def holders(self) -> Iterator[tuple[GpuAtWork, Holding, ExaminedProcess]]:
        """Yield each process that holds memory of a GPU and was looked into."""
        for gpu in self.evidence.gpus:
            for entry in gpu.holders:
                record = self.process(entry.pid)
                if record:
                    yield gpu, entry, record


@dataclass(frozen=True)
class Registered:
    """A rule of the registry."""

    id: str
    symptom: str
    source: str
    find: Rule


RULES: dict[str, Registered] = {}


def rule(id_: str, symptom: str, source: str) -> Callable[[Rule], Rule]:
    """Put the decorated function into the registry. Raises ValueError when the id is taken."""

    def register(find: Rule) -> Rule:
        if id_ in RULES:
            msg = f"two rules are called {id_}"
            raise ValueError(msg)
        RULES[id_] = Registered(id_, symptom, source, find)
        return find

    return register


def named(record: ExaminedProcess) -> str:
    """Say in a few words which process this is."""
    container = f", container {record.container}" if record.container else ""
    job = record.environment.get("SLURM_JOB_ID")
    return f"{record.command} (PID {record.pid}, user {record.user}{container}{f', job {job}' if job else ''})"
