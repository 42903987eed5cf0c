# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a diagnosis is made of: a case, rules that look at it, and findings with remedies. No I/O happens here."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Callable, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts
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


class Asked(TypedDict):
    """What was asked."""

    symptom: str
    pid: int | None
    user: str | None
    error: str | None


class FindingRecord(TypedDict):
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


class Holder(TypedDict):
    """A process that holds memory of a GPU, in MiB; grows in MiB a second."""

    pid: int
    user: str | None
    command: str | None
    container: str | None
    job: str | None
    since: str | None
    memory_mib: int | None
    grows_mib_s: float


class GpuMemory(TypedDict):
    """Who holds the memory of a GPU, in MiB."""

    index: int
    total_mib: int | None
    used_mib: int | None
    holders: list[Holder]


class Estimate(TypedDict):
    """The memory that a use of a model takes, in GiB; fits are the GPUs of the node that have it alone."""

    use: str
    gib: float
    formula: str
    fits: list[int]


class Rank(TypedDict):
    """A rank of a job on the node; job is the address and port at which the ranks meet, stands what it awaits."""

    job: str
    rank: int
    world_size: int
    local_world_size: int
    pid: int
    command: str | None
    stands: str


class Stands(TypedDict):
    """The operation that a rank awaits: the sizes and types of what it gives, and the line that called it."""

    number: int
    operation: str
    sizes: list[list[int]]
    types: list[str]
    place: str | None
    created: str | None


class Group(TypedDict):
    """How far a rank has come in a process group: its last operation, and the first that has not ended."""

    name: str
    ranks: list[int]
    last: int
    stands: Stands | None


class Dump(TypedDict):
    """What a rank wrote by PyTorch's flight recorder; files is the beginning of the name, which all ranks share."""

    files: str
    rank: int
    written: str
    problem: str | None
    groups: list[Group]


class Diagnosis(TypedDict):
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
    """Return a finding as plain data; a cost that nobody measured is left out."""
    record: FindingRecord = asdict(finding)  # type: ignore[assignment]
    return {**record, "cost": None if isinstance(finding.cost, Weight) else finding.cost}


def _costs(cost: float | None) -> str:
    if cost is None:
        return ""
    return f", costs {cost:.0%}" if cost else ", harmless"


def listed(findings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return findings, as FindingRecord has them, in the lines that people read."""
    told: list[str] = []
    for number, one in enumerate(findings, 1):
        told.append(f"{number}. {one['symptom']}{_costs(one['cost'])}: {one['cause']}  [{one['id']}]")
        told += [f"     seen: {seen}" for seen in one["evidence"]]
        told += [f"     do:   {one['remedy']}", f"     see:  {one['source']}"]
    return told


@dataclass(frozen=True)
class Case:
    """All that a rule may look at: the facts of the node, the evidence, what was asked, and the catalog."""

    facts: Facts
    evidence: dict[str, Any]
    asked: Asked
    catalog: Catalog
    parameters: float | None = None
    dtype: str = "bf16"
    optimizer: str = "adamw"

    @cached_property
    def by_pid(self) -> dict[int, dict[str, Any]]:
        """The processes that were looked into."""
        return {record["pid"]: record for record in self.evidence["processes"]}

    def process(self, pid: int) -> dict[str, Any] | None:
        """Return what is known of a process."""
        return self.by_pid.get(pid)

    def is_asked(self, record: dict[str, Any]) -> bool:
        """Tell whether a process is one of those that the diagnosis is for; every one where none was named."""
        if self.asked["pid"]:
            return record["pid"] in self.job
        return not self.asked["user"] or record["user"] == self.asked["user"]

    @property
    def job(self) -> set[int]:
        """The process asked for, and those of its job."""
        pid = self.asked["pid"]
        if pid not in self.by_pid:
            return set()
        first = self.by_pid[pid]
        top = first["parent"] if "LOCAL_RANK" in first["environment"] and first["parent"] > 1 else pid
        found = [top]
        for one in found:
            found += [child for child, record in self.by_pid.items() if record["parent"] == one]
        return set(found) & set(self.by_pid) | {pid}

    @property
    def processes(self) -> list[dict[str, Any]]:
        """The processes that the diagnosis is for."""
        return [record for record in self.by_pid.values() if self.is_asked(record)]


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


def named(record: dict[str, Any]) -> str:
    """Say in a few words which process this is."""
    container = f", container {record['container']}" if record.get("container") else ""
    job = record["environment"].get("SLURM_JOB_ID")
    return f"{record['command']} (PID {record['pid']}, user {record['user']}{container}{f', job {job}' if job else ''})"
